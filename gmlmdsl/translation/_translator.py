"""Translation of text by a model with its weights, a vocabulary, and a sampler that decodes.

Lines that are too long for the model are split at ends of sentences, cut, or rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import counted, fail, is_one_of, only, truth, whole_number
from .._types import ArrayLike, JsonObject
from ..data import verified_seed
from ..decode import CodeRows, Decoding, RowDecoder
from ..decode import drop_repeats as without_repeats
from ..evaluate import network_queries
from ..networks import AUTO, FLOAT32, fastest, reduced, verify_precision
from ..program import AUTOREGRESSIVE, ir
from ._phrases import Draft, Phrases, Score, encoded_phrases, with_phrases
from ._programs import Pair, sides
from ._segments import Segments, segments
from ._translation import EMPTY, Translation, joined, pieces_of
from ._vocabulary import is_many
from .limits import LINES_AT_ONCE

if TYPE_CHECKING:
    from pathlib import Path

    from ..model import ConditionalModel
    from ..networks import AbstractNetwork
    from ._shortlist import Shortlist
    from ._vocabulary import Vocabulary

Array = np.ndarray
PARTS = 256  # Part j of line k has the row number k * PARTS + j.


@dataclass(frozen=True)
class Decoded:
    """Decodes as rows of subword tokens, -1 after the length.

    Attributes:
        tokens: shape (rows, cells).
        score, length, passes: shape (rows,).
        candidates: shape (rows, candidates, cells), the best first, or None.
        candidate_scores: shape (rows, candidates), or None.
        trace: shape (rows, passes, cells), or None.
        seen: the input of the last pass, shape (rows, cells), -1 for hidden cells; None without a
            trace.
        candidate_passes, candidate_traces, candidate_seen: the corresponding arrays of every
            candidate.
    """

    tokens: Array
    score: Array
    length: Array
    passes: Array
    candidates: Array | None = None
    candidate_scores: Array | None = None
    trace: Array | None = None
    seen: Array | None = None
    candidate_passes: Array | None = None
    candidate_traces: Array | None = None
    candidate_seen: Array | None = None


@dataclass(frozen=True)
class TranslationOptions:
    """The options of translation; see `Translator.translate`."""

    sampler: str | None = None
    n_best: int = 1
    drop_repeats: bool = False
    seed: int = 0
    cut: bool = False
    trace: bool = False
    mesh_axis: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_best", whole_number("n_best", self.n_best, 1))


class Translator:
    """A model with its weights and its vocabulary.

    Attributes:
        precision: the precision of its products: "float32", "bfloat16" or "int8".
        shortlist: the target tokens that are likely with each source token, or None.

    Args:
        model: a model of the form `given src[i in s] : range(V)`, `var tgt[j in t] : range(V)`,
            `conditional tgt ~ net(src)`.
        params: its network, in the form of a fit's `params`.
        vocabulary: a vocabulary of V subword tokens for both languages.
        sampler: the default sampler; None selects the model's only one.
        direction: a direction such as "en-de", for display only.
        precision: the precision of the products of activations with matrices; "auto" selects the
            one in which this processor multiplies fastest. Translations in another precision than
            "float32" may differ from those in it.
        shortlist: tokens by source; the lines that are decoded together then have no tokens but
            those that it names for them. Scores are over these, and translations may differ.

    Raises:
        GmlmError: E580 for a model that is not a translation model, E572 for a vocabulary of
            another size; E507 for an unknown precision, or one that the network cannot have.
    """

    def __init__(
        self,
        model: ConditionalModel,
        params: JsonObject,
        vocabulary: Vocabulary,
        sampler: str | None = None,
        direction: str = "",
        precision: str = FLOAT32,
        shortlist: Shortlist | None = None,
    ):
        self.model, self.params, self.vocabulary, self.direction = model, params, vocabulary, direction
        self.pair: Pair = sides(model)
        vocabulary.verify(self.pair.size, f"model `{model.name}`")
        self.sampler, self.shortlist = sampler, shortlist
        self.precision = precision
        if not is_one_of(precision, (FLOAT32,)):
            verify_precision(precision, self.network)
            self.precision = fastest(self.network) if precision == AUTO else precision
        self._decoders: dict[str, tuple[JsonObject, RowDecoder]] = {}
        # the network and the same in the translator's precision
        self._reduced: tuple[AbstractNetwork, AbstractNetwork] | None = None

    @property
    def network(self) -> AbstractNetwork:
        """The trained module."""
        return next(iter(self.params.values()))

    def sampler_named(self, name: str | None = None) -> str:
        """Return the sampler that decodes: the named, the translator's, or the model's only one.

        Raises:
            GmlmError: E506 for an unknown name, or if there are several samplers.
        """
        return only(name if name is not None else self.sampler, self.model.samplers, "sampler", self.model.name)

    def translate(
        self,
        sentences: Iterable[str],
        *,
        sampler: str | None = None,
        n_best: int = 1,
        drafts: Sequence[str] | None = None,
        prefix: str | None = None,
        phrases: Sequence[Sequence[str]] | None = None,
        lengths: Sequence[int] | None = None,
        drop_repeats: bool = False,
        seed: int = 0,
        cut: bool = False,
        trace: bool = False,
        batch_size: int = LINES_AT_ONCE,
        numbers: Sequence[int] | None = None,
        mesh_axis: str | None = None,
    ) -> list[Translation]:
        """Translate lines, in their order.

        A line that is too long for the model is split at the ends of sentences. An empty line stays
        empty.

        Args:
            sentences: the lines.
            sampler: a sampler of the program; see `sampler_named`.
            n_best: the number of candidates that are kept, if the sampler makes as many different
                ones.
            drafts: for each line a translation from which refinement starts.
            prefix: a text with which every translation begins.
            phrases: for each line the texts that its translation must contain. The line is decoded
                without them first. Each text that is lacking then replaces a few subword tokens
                where the network finds it likeliest, and the sampler refines the rest around it.
            lengths: for each line the number of subword tokens of its translation, including the
                end mark, if it is known.
            drop_repeats: whether words that repeat the previous word are removed; see
                `gm.drop_repeats`.
            seed: the seed of all random numbers.
            cut: whether a sentence that is too long for the model is cut; otherwise it raises an
                error.
            trace: whether the text after each pass is kept.
            batch_size: the number of lines that are decoded together.
            numbers: for each line its number in a larger text, from 0, by which its random numbers
                are drawn and messages name it; 0, 1, 2, .. by default.
            mesh_axis: an axis of the ambient mesh of devices, over which the batches of these lines
                are spread. Translations are those of one device.

        Raises:
            GmlmError: with one of these codes:
                - E507: the batch size is below 1, or there is no such axis; a phrase has letters
                  that the vocabulary lacks.
                - E582: a sentence is too long.
                - E583: a phrase has no room.
                - E584: drafts, phrases, lengths or numbers do not fit.
                - E585: the prefix does not fit.
        """
        options = TranslationOptions(sampler, n_best, drop_repeats, seed, cut, trace, mesh_axis)
        lines = _verified(sentences, n_best, prefix)
        drafts = None if drafts is None else _one_a_line("drafts", drafts, len(lines))
        lengths = None if lengths is None else _one_a_line("lengths", lengths, len(lines))
        batch_size = whole_number("batch_size", batch_size, 1)
        places = (
            range(len(lines)) if numbers is None else [whole_number("numbers", n, 0) for n in _one_a_line("numbers", numbers, len(lines))]
        )
        forced = None
        if phrases is not None:
            if lengths is not None:
                help = "leave one of both out"
                raise fail("E584", "a length is that of the translation without its phrases, which may change it", help=help)
            forced = self._forced_phrases(_one_a_line("phrases", phrases, len(lines)), options, places)
        out: list[Translation] = []
        for start in range(0, len(lines), batch_size):
            part = slice(start, start + batch_size)
            beside = None if drafts is None else drafts[part]
            known = None if lengths is None else lengths[part]
            out += self._window(lines[part], options, places[part], prefix, beside, known, None if forced is None else forced[part])
        return out

    def stream(
        self, lines: Iterable[str], options: TranslationOptions = TranslationOptions(), *, batch_size: int = 64, prefix: str | None = None,
        drafts: Iterable[str] | None = None, phrases: Iterable[Sequence[str]] | None = None,
    ) -> Iterator[Translation]:  # fmt: skip
        """Yield translations of lines as they arrive, `batch_size` at a time; see `translate`.

        Args:
            lines: the lines.
            options: the options of translation.
            batch_size: the number of lines that are decoded together.
            prefix: a text with which every translation begins.
            drafts: for each line a translation from which refinement starts.
            phrases: for each line the texts that its translation must contain.

        Raises:
            GmlmError: E507 for a batch size below 1, E584 if there are fewer or more drafts or
                phrases than lines.
        """
        batch_size = whole_number("batch_size", batch_size, 1)
        for text in (lines, drafts):
            if text is not None:
                _verify_lines(text)
        if phrases is not None and not is_many(phrases):
            raise fail("E584", f"phrases must be a list, one for each line, got {phrases!r:.60}")
        stated = {"drafts": drafts, "phrases": phrases}
        beside = {name: iter(values) for name, values in stated.items() if values is not None}
        source, start = iter(lines), 0
        if not isinstance(options, TranslationOptions):
            raise fail("E507", f"options must be a `TranslationOptions`, got {options!r:.60}")
        while window := _texts_of(islice(source, min(batch_size, 1 << 31)), start):
            known = {name: _next_of(name, values, len(window), start) for name, values in beside.items()}
            numbers = range(start, start + len(window))
            forced = self._forced_phrases(known["phrases"], options, numbers) if phrases is not None else None
            yield from self._window(window, options, numbers, prefix, known.get("drafts"), None, forced)
            start += len(window)
        for name, values in beside.items():
            if next(values, None) is not None:
                raise fail("E584", f"there are more {name} than the {counted(start, 'line')} to translate")

    def _window(
        self,
        lines: Sequence[str],
        o: TranslationOptions,
        numbers: Sequence[int],
        prefix: str | None,
        drafts: Sequence[str] | None,
        lengths: Sequence[int] | None,
        phrases: Sequence[Phrases] | None = None,
    ) -> list[Translation]:
        """Translate some lines, whose parts are decoded together."""
        cells = self.pair.cells[0]
        parts = [segments(line, self.vocabulary, cells, n + 1, o.cut) for line, n in zip(lines, numbers, strict=True)]
        if drafts is not None or lengths is not None:
            _verify_one_part(parts, numbers)
        places = [(k, j) for k, part in enumerate(parts) for j in range(len(part.pieces))]
        if not places:
            return [EMPTY] * len(lines)
        if drafts is not None:
            self._verify_refines(o.sampler)
        source = self.vocabulary.rows([list(parts[k].pieces[j]) for k, j in places], cells)
        clamp = None if prefix is None else self._prefixes(prefix, [j == 0 for _, j in places])
        init = None if drafts is None else self._drafts([drafts[k] for k, _ in places], [numbers[k] + 1 for k, _ in places])
        rows = np.array([numbers[k] * PARTS + j for k, j in places])
        made = self._parts(source, o, rows, clamp, init, None if lengths is None else [lengths[k] for k, _ in places])
        if phrases is not None and any(phrases[k] for k, _ in places):
            made = self._with_phrases(source, o, rows, clamp, made, [phrases[k] if j == 0 else None for k, j in places])
        at = iter(made)
        return [joined([next(at) for _ in part.pieces], part) for part in parts]

    def _parts(
        self, source: Array, o: TranslationOptions, rows: Array, clamp: Array | None, init: Array | None,
        lengths: Sequence[int] | None = None,
    ) -> list[Translation]:  # fmt: skip
        """Translate parts of lines."""
        found = self.decode(
            source,
            sampler=o.sampler,
            clamp=clamp,
            init=init,
            lengths=lengths,
            seed=o.seed,
            rows=rows,
            candidates=o.n_best > 1,
            trace=o.trace,
            mesh_axis=o.mesh_axis,
        )
        return self._texts(found, o, np.zeros(len(rows), int) if clamp is None else (clamp >= 0).sum(axis=1))

    def _with_phrases(
        self,
        source: Array,
        o: TranslationOptions,
        rows: Array,
        clamp: Array | None,
        made: Sequence[Translation],
        phrases: Sequence[Phrases | None],
    ) -> list[Translation]:
        """Translate parts once more around the phrases that their lines must contain.

        `phrases` has an entry for the first part of each line, and None for its other parts. Parts
        without a phrase keep their translation.
        """
        held = [0] * len(made) if clamp is None else (clamp >= 0).sum(axis=1)
        end, cells = self.vocabulary.end, self.pair.cells[1]
        drafts = [Draft.of((*t.pieces, end) if t.ended else t.pieces, int(n)) for t, n in zip(made, held, strict=True)]
        starts = [k for k, p in enumerate(phrases) if p is not None]
        for first, after in pairwise([*starts, len(made)]):
            line, number = slice(first, after), int(rows[first]) // PARTS + 1
            drafts[line] = with_phrases(drafts[line], phrases[first] or (), self._log_hidden(source[line]), cells, end, number)
        out, some = list(made), np.array([k for k, d in enumerate(drafts) if d.has_phrase], int)
        if len(some):
            init, fixed = np.stack([drafts[k].rows(cells) for k in some], axis=1)
            for k, t in zip(some, self._parts(source[some], o, rows[some], fixed, init), strict=True):
                out[k] = replace(t, passes=t.passes + made[k].passes)
        return out

    def _log_hidden(self, source: Array) -> Score:
        """Return the function that scores hidden tokens of the parts with these sources."""

        def score(part: int, codes: Array, hidden: Array) -> Array:
            return network_queries.log_hidden(self.model.lowered, self.params, codes, hidden, (source[part : part + 1],))

        return score

    def _forced_phrases(self, phrases: Sequence[Any], o: TranslationOptions, numbers: Sequence[int]) -> list[Phrases]:
        """Return the subword tokens of the phrases that the translation of each line must contain.

        Args:
            phrases: the texts of each line.
            o: the options of translation.
            numbers: the numbers of the lines, counted from 0, for messages.

        Raises:
            GmlmError: E584 for an autoregressive sampler and with `drop_repeats`; E507 for anything
                but texts whose letters the vocabulary has.
        """
        if self.is_autoregressive(o.sampler):
            message = f"sampler `{self.sampler_named(o.sampler)}` goes from the first piece on, and places no phrase"
            raise fail("E584", message, help="force phrases by refinement; `prefix` forces how a translation begins")
        if o.drop_repeats:
            raise fail("E584", "`drop_repeats` could drop a word of a phrase", help="leave one of both out")
        return [encoded_phrases(self.vocabulary, texts, n + 1) for texts, n in zip(phrases, numbers, strict=True)]

    def _verify_refines(self, sampler: str | None) -> None:
        """Raise E584 for a sampler that refines no draft."""
        if self.is_autoregressive(sampler):
            message = f"sampler `{self.sampler_named(sampler)}` goes from the first piece on, and refines no draft"
            raise fail("E584", message, help="translate drafts by refinement; `prefix` forces how a translation begins")

    def decoder(self, sampler: str | None = None) -> RowDecoder:
        """Return the decoder of a sampler, see `sampler_named`, with verified parameters.

        It is made once, and anew if the translator has other parameters.

        Raises:
            GmlmError: E507 for a sampler that decodes nothing; E504 or E509 for parameters that are
                not those of the model.
        """
        name = self.sampler_named(sampler)
        params, kept = self._decoders.get(name, ({}, None))
        if kept is None or any(params.get(label) is not network for label, network in self.params.items()):
            kept = self.model.decoder(self.params, name, self._in_precision)
            self._decoders[name] = dict(self.params), kept
        return kept

    def _in_precision(self, network: AbstractNetwork) -> AbstractNetwork:
        """Return a network in the translator's precision, once for all samplers."""
        if self._reduced is None or self._reduced[0] is not self.network:
            self._reduced = self.network, reduced(network, self.precision)
        return self._reduced[1]

    @property
    def way(self) -> str:
        """The precision, and whether there is a shortlist, for display."""
        return self.precision + ("" if self.shortlist is None else ", shortlist")

    def in_precision(self, precision: str) -> Translator:
        """Return the same translator in another precision, without a shortlist.

        Raises:
            GmlmError: E507 for an unknown precision, or one that the network cannot have.
        """
        return Translator(self.model, self.params, self.vocabulary, self.sampler, self.direction, precision)

    def is_autoregressive(self, sampler: str | None = None) -> bool:
        """Return whether a sampler decodes one subword token at a time."""
        body = self.model.program.checked.samplers[self.sampler_named(sampler)].body
        return isinstance(body, ir.FormCall) and body.form is AUTOREGRESSIVE

    def __repr__(self) -> str:
        words = f" {self.direction}" if self.direction else ""
        way = "" if self.way == FLOAT32 else f", {self.way}"
        return f"Translator{words}: {self.model!r}, {self.vocabulary.size:,} pieces, sampler {self.sampler or 'to be named'}{way}"

    def _prefixes(self, prefix: str, wanted: Sequence[bool]) -> Array | None:
        pieces = self.vocabulary.encode([prefix])[0][:-1]
        if not pieces:
            return None
        n = self.pair.cells[1]
        if len(pieces) >= n:
            raise fail("E585", f"the prefix has {len(pieces)} pieces, and a translation has room for {n - 1} and an end mark")
        rows = np.full((len(wanted), n), -1, np.int32)
        rows[np.asarray(wanted), : len(pieces)] = pieces
        return rows

    def _drafts(self, drafts: Sequence[str], numbers: Sequence[int]) -> Array:
        encoded, n = self.vocabulary.encode(drafts), self.pair.cells[1]
        for pieces, number in zip(encoded, numbers, strict=True):
            if len(pieces) > n:
                raise fail("E584", f"the draft of line {number} has {len(pieces)} pieces, and a translation has room for {n}")
        return self.vocabulary.rows(encoded, n)

    def decode(
        self,
        source: Any,
        *,
        sampler: str | None = None,
        clamp: Array | None = None,
        init: Array | None = None,
        lengths: ArrayLike | None = None,
        seed: int = 0,
        rows: ArrayLike | None = None,
        candidates: bool = False,
        trace: bool = False,
        mesh_axis: str | None = None,
    ) -> Decoded:
        """Decode rows of subword tokens.

        Args:
            source: shape (rows, source cells), -1 after the end mark.
            sampler: the name of a sampler, see `sampler_named`.
            clamp: fixed subword tokens, shape (rows, target cells), -1 for free cells.
            init: drafts, shape (rows, target cells).
            lengths: the lengths of the targets, shape (rows,), if they are known.
            seed: the seed of all random numbers.
            rows: the numbers of the rows in the whole text, which determine the random numbers;
                None selects 0, 1, 2, ..
            candidates: whether all candidates are kept.
            trace: whether the subword tokens after each pass are kept.
            mesh_axis: as in `translate`.

        Raises:
            GmlmError: for arguments that the sampler does not accept.
        """
        given = CodeRows((source,)) if self._are_codes(source) else {self.pair.source: source}
        held = [a for a in (clamp, init) if a is not None]
        values = None if self.shortlist is None else self.shortlist.codes(np.asarray(source), held)
        found = self.decoder(sampler).decode(
            seed,
            None if clamp is None else {self.pair.target: clamp},
            None if init is None else {self.pair.target: init},
            Decoding(given, -1, lengths, rows, values=values),
            trace,
            mesh_axis,
        )
        tokens, score, length, passes = (a[:, 0] for a in (found.tokens, found.score, found.length, found.passes))
        plain = Decoded(tokens, score, length, passes, trace=found.trace, seen=None if found.seen is None else found.seen[:, 0])
        if not candidates:
            return plain
        more = {"candidate_passes": found.passes, "candidate_traces": found.traces, "candidate_seen": found.seen}
        return replace(plain, candidates=found.tokens, candidate_scores=found.score, **more)

    def export(
        self,
        path: str | Path,
        *,
        sampler: str | None = None,
        batch: int = 1,
        width: int | None = None,
        seed: int = 0,
        platforms: Sequence[str] = ("cpu",),
    ) -> None:
        """Write a sampler's decoder, with its weights, as one program that JAX runs without gmlmdsl.

        The program maps source codes to the codes of the best candidates and their scores. It
        takes an int32 array of shape (batch, source cells), -1 after each end mark, and returns
        int32 codes of shape (batch, target cells), -1 after each end, and scores of shape (batch,).
        A score is NaN if the network defines no distribution of some cell. Random numbers are those
        of `translate` for the lines of one batch.

        Args:
            path: the path of the file, a ZIP file with `manifest.json` (shapes, sampler, precision,
                seed, platforms, versions, hashes), `decoder.stablehlo` (the bytes of
                `jax.export.Exported.serialize`) and `vocabulary.model` (a SentencePiece model).
            sampler: the name of a sampler, see `sampler_named`.
            batch: the number of rows.
            width: the largest number of subword tokens of source and target, including the end
                mark; None selects those of the model. No longer translation is made.
            seed: the seed of all random numbers.
            platforms: the platforms that can run the program: "cpu", "cuda", "rocm", "tpu".

        Raises:
            GmlmError: with one of these codes:
                - E506 and E507: the sampler does not exist, or decodes nothing.
                - E507: the batch, width, seed or platforms cannot be; the translator has a
                  shortlist, which follows from the text.
                - E560: the file cannot be written.
                - E561: FlatBuffers is not installed.
                - E601: the batch has too many logits.
        """
        from ._export import write_export

        most = max(self.pair.cells)
        batch, width = whole_number("batch", batch, 1), most if width is None else whole_number("width", width, 1)
        if width > most:
            raise fail("E507", f"width must be at most {most}, the longest row of model `{self.model.name}`, got {width}")
        if self.shortlist is not None:
            message = "a shortlist follows from the lines to translate, and an export has no text"
            raise fail("E507", message, help="load the translator without its shortlist")
        decoder, name = self.decoder(sampler), self.sampler_named(sampler)
        rows = range(0, min(batch, PARTS << 32) * PARTS, PARTS)
        cells = min(width, self.pair.cells[0]), min(width, self.pair.cells[1])
        entries = {
            "direction": self.direction,
            "model": self.model.name,
            "sampler": name,
            "precision": self.precision,
            "seed": verified_seed(seed),
        }
        write_export(path, decoder, self.vocabulary, rows, cells, platforms, entries)

    def _are_codes(self, source: object) -> bool:
        """Return whether a source is a result of `Vocabulary.rows`, which needs no further check."""
        if not (isinstance(source, np.ndarray) and source.dtype == np.int32 and source.shape[1:] == self.pair.cells[:1] and source.size):
            return False
        here = source >= 0
        ends = here[:, 0].all() and not (here[:, 1:] & ~here[:, :-1]).any()
        return bool(ends and source.min() >= -1 and source.max() < self.pair.size)

    def _texts(self, found: Decoded, o: TranslationOptions, held: Array) -> list[Translation]:
        """Return for each part its text and those of its other candidates.

        The first `held` subword tokens of each part are given, and do not count in its score.
        """
        tokens, every = found.tokens, found.candidates
        counts = ((tokens[:, None] if every is None else every) >= 0).sum(axis=2) - held[:, None]
        if truth("drop_repeats", o.drop_repeats):
            tokens = self._cleaned(tokens)
            every = None if every is None else self._cleaned(every.reshape(-1, every.shape[-1])).reshape(every.shape)
        texts, out = self.vocabulary.decode(tokens), []
        for k, text in enumerate(texts):
            others = {text: (score := float(found.score[k]), int(counts[k, 0]))}
            if every is not None and found.candidate_scores is not None:
                said = zip(found.candidate_scores[k].tolist(), counts[k].tolist(), strict=True)
                for other, pair in zip(self.vocabulary.decode(every[k]), said, strict=True):
                    if np.isfinite(pair[0]):
                        others.setdefault(other, pair)
            steps = () if found.trace is None else self._steps(found.trace[k])
            kept = tuple((other, value) for other, (value, _) in others.items())[: o.n_best]
            scored = tuple(n for _, n in others.values())[: o.n_best]
            pieces, ended = pieces_of(tokens[k], self.vocabulary.end), self.vocabulary.end in found.tokens[k]
            out.append(Translation(text, score, pieces, kept, int(found.passes[k]), steps, 0, ended, scored))
        return out

    def _steps(self, trace: Array) -> tuple[str, ...]:
        """Return the text after each pass, without subword tokens that are still hidden."""
        return tuple(self.vocabulary.decode([row[row >= 0] for row in trace]))

    def _cleaned(self, tokens: Array) -> Array:
        """Return rows without repeated words, padded with -1."""
        out = np.full_like(tokens, -1)
        for k, row in enumerate(tokens):
            kept = without_repeats(row, int((row >= 0).sum()), self.vocabulary.starts_word)
            out[k, : len(kept)] = kept
        return out


def _verified(sentences: Any, n_best: Any, prefix: Any) -> list[str]:
    """Return the lines of `translate` as a list; a single text is not a list of lines.

    Raises:
        GmlmError: E507.
    """
    _verify_lines(sentences)
    lines = _texts_of(sentences, 0)
    whole_number("n_best", n_best, 1)
    if prefix is not None and not isinstance(prefix, str):
        raise fail("E507", f"prefix must be one text, with which every translation begins, got {prefix!r:.60}")
    return lines


def _verify_one_part(lines: Sequence[Segments], numbers: Sequence[int]) -> None:
    """Raise E584 for a line of several parts, for which there is one draft or one length."""
    long = next((n for line, n in zip(lines, numbers, strict=True) if len(line.pieces) > 1), None)
    if long is not None:
        message = f"line {long + 1} is longer than the model takes, and a draft or a length is for one part"
        raise fail("E584", message, help="split it and its draft")


def _verify_lines(lines: object) -> None:
    if isinstance(lines, str | bytes):
        raise fail("E507", f"sentences must be a list of texts, got one text {lines!r:.60}", help="put it into a list: `[text]`")
    if not is_many(lines):
        raise fail("E507", f"sentences must be a list of texts, got {lines!r:.60}")


def _texts_of(lines: Iterable[Any], first: int) -> list[str]:
    found = list(lines)
    wrong = next((k for k, line in enumerate(found) if not isinstance(line, str)), None)
    if wrong is not None:
        raise fail("E507", f"sentences must be texts, and the one at {first + wrong} is {found[wrong]!r:.60}")
    return found


def _next_of(what: str, values: Iterator[Any], count: int, start: int) -> list[Any]:
    """Return the next values that belong to lines from number `start` on.

    Raises:
        GmlmError: E584 if there are fewer.
    """
    found = list(islice(values, count))
    if len(found) < count:
        message = f"the {what} end after {counted(start + len(found), 'line')}, and there are more to translate"
        raise fail("E584", message, help="give one for each line; an empty one is a line too")
    return found


def _one_a_line(what: str, values: Any, lines: int) -> list[Any]:
    """Return values that belong to the lines as a list.

    Raises:
        GmlmError: E584 unless there is one value for each line.
    """
    if not is_many(values):
        raise fail("E584", f"{what} must be a list, one for each line, got {values!r:.60}")
    found = list(values)
    if len(found) != lines:
        raise fail("E584", f"there are {lines:,} lines and {len(found):,} {what}", help="give one for each line")
    return found
