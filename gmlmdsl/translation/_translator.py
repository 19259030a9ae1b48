"""Translates text: a model with its weights, a vocabulary, and a sampler of the program that decodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import counted, fail, only, truth, whole_number
from ..decode import drop_repeats as without_repeats
from ..program import AUTOREGRESSIVE, ir
from ._programs import Pair, sides
from ._segments import Segments, joined_text, segments
from ._vocabulary import is_many

if TYPE_CHECKING:
    from ..model import ConditionalModel
    from ._vocabulary import Vocabulary

Array = np.ndarray
WINDOW = 256  # lines that are decoded together: memory does not grow with the text
PARTS = 256  # between the numbers of two lines: part j of line k has the number k * PARTS + j


@dataclass(frozen=True)
class Translation:
    """The translation of one line.

    Attributes:
        text: of the best candidate; empty for an empty line.
        score: the mean log p of its pieces, the end mark among them, of a line in parts of all
            their pieces.
        pieces: of the text, without end marks.
        alternatives: the best candidates with their scores, the text itself first, no text twice,
            as the sampler orders them.
        passes: over the network; of an autoregressive sampler its steps.
        trace: the text after each pass, where it was asked for.
        cut: sentences of the line whose end the model did not see, since it takes none of their
            length.
        ended: whether the translation of each of them has an end mark: one that has not fills its
            row to the last cell.
        counts: of each alternative the pieces that its score is the mean of, the end mark among
            them.
    """

    text: str
    score: float
    pieces: tuple[int, ...]
    alternatives: tuple[tuple[str, float], ...]
    passes: int
    trace: tuple[str, ...] = ()
    cut: int = 0
    ended: bool = True
    counts: tuple[int, ...] = (0,)


EMPTY = Translation("", 0.0, (), (("", 0.0),), 0)


@dataclass(frozen=True)
class Decoded:
    """Decodes of rows of pieces, -1 behind the length.

    Attributes:
        tokens: (rows, cells).
        score, length, passes: (rows,).
        candidates: (rows, candidates, cells), the best first, or None.
        candidate_scores: (rows, candidates), or None.
        trace: (rows, passes, cells), or None.
        seen: (rows, cells), what the last pass saw, -1 where it was hidden; None where there is no
            trace.
        candidate_passes, candidate_traces, candidate_seen: likewise, of every candidate.
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
    """How lines are translated; see `Translator.translate`."""

    sampler: str | None = None
    n_best: int = 1
    drop_repeats: bool = False
    seed: int = 0
    cut: bool = False
    trace: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_best", whole_number("n_best", self.n_best, 1))


class Translator:
    """A model, its weights and its vocabulary.

    Args:
        model: of `given src[i in s] : range(V)`, `var tgt[j in t] : range(V)`, `conditional tgt ~
            net(src)`.
        params: its network, as a fit's `params` are.
        vocabulary: of V pieces, both languages in one.
        sampler: the one that is used where none is named; None: the model's only one.
        direction: such as "en-de", which is shown only.

    Raises:
        GmlmError: E580 for a model that is no translation model, E572 for a vocabulary of another
            size.
    """

    def __init__(
        self, model: ConditionalModel, params: dict[str, Any], vocabulary: Vocabulary, sampler: str | None = None, direction: str = ""
    ):
        self.model, self.params, self.vocabulary, self.direction = model, params, vocabulary, direction
        self.pair: Pair = sides(model)
        vocabulary.verify(self.pair.size, f"model `{model.name}`")
        self.sampler = sampler

    @property
    def network(self) -> Any:
        """The trained module."""
        return next(iter(self.params.values()))

    def sampler_named(self, name: str | None = None) -> str:
        """The sampler that decodes: the named one, else the translator's, else the model's only one.

        Raises:
            GmlmError: E506 for an unknown name, or where there are several.
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
        lengths: Sequence[int] | None = None,
        drop_repeats: bool = False,
        seed: int = 0,
        cut: bool = False,
        trace: bool = False,
        batch_size: int = WINDOW,
    ) -> list[Translation]:
        """Translate lines, in their order.

        A line that is longer than the model takes is split where sentences end. An empty line stays
        empty.

        Args:
            sentences: lines.
            sampler: a sampler of the program; see `sampler_named`.
            n_best: candidates that are kept, as far as the sampler makes different ones.
            drafts: for each line a translation that refinement begins with.
            prefix: a text that every translation begins with.
            lengths: for each line the number of pieces of its translation, the end mark among them,
                where it is known.
            drop_repeats: whether a word that repeats the word before is left out; see
                `gm.drop_repeats`.
            seed: of all that is random.
            cut: whether a sentence that the model cannot take loses its end; else it is refused.
            trace: whether the text after each pass is kept.
            batch_size: lines that are decoded together.

        Raises:
            GmlmError: E507 for a batch size below 1, E582 for a sentence that is too long, E584 for
                drafts or lengths that do not fit, E585 for a prefix that does not.
        """
        options = TranslationOptions(sampler, n_best, drop_repeats, seed, cut, trace)
        lines = _verified(sentences, n_best, prefix)
        drafts = None if drafts is None else _one_a_line("drafts", drafts, len(lines))
        lengths = None if lengths is None else _one_a_line("lengths", lengths, len(lines))
        batch_size = whole_number("batch_size", batch_size, 1)
        out: list[Translation] = []
        for start in range(0, len(lines), batch_size):
            stop = start + batch_size
            beside = None if drafts is None else drafts[start:stop]
            known = None if lengths is None else lengths[start:stop]
            out += self._window(lines[start:stop], options, start, prefix, beside, known)
        return out

    def stream(
        self, lines: Iterable[str], options: TranslationOptions = TranslationOptions(), *, batch_size: int = 64, prefix: str | None = None,
        drafts: Iterable[str] | None = None,
    ) -> Iterator[Translation]:  # fmt: skip
        """Translations of lines as they come, so many at a time; see `translate`.

        Raises:
            GmlmError: E507 for a batch size below 1, E584 where the drafts end before the lines, or
                go on behind them.
        """
        batch_size = whole_number("batch_size", batch_size, 1)
        for text in (lines, drafts):
            if text is not None:
                _verify_lines(text)
        source, beside, start = iter(lines), None if drafts is None else iter(drafts), 0
        if not isinstance(options, TranslationOptions):
            raise fail("E507", f"options must be a `TranslationOptions`, got {options!r:.60}")
        while window := _texts_of(islice(source, min(batch_size, 1 << 31)), start):
            known = None if beside is None else list(islice(beside, len(window)))
            if known is not None and len(known) < len(window):
                message = f"the drafts end after {counted(start + len(known), 'line')}, and there are more to translate"
                raise fail("E584", message, help="give one for each line; an empty one is a line too")
            yield from self._window(window, options, start, prefix, known, None)
            start += len(window)
        if beside is not None and next(beside, None) is not None:
            raise fail("E584", f"there are more drafts than the {counted(start, 'line')} to translate")

    def _window(
        self,
        lines: Sequence[str],
        o: TranslationOptions,
        first: int,
        prefix: str | None,
        drafts: Sequence[str] | None,
        lengths: Sequence[int] | None,
    ) -> list[Translation]:
        """Some lines: their parts are decoded together."""
        parts = [segments(line, self.vocabulary, self.pair.cells[0], first + k + 1, o.cut) for k, line in enumerate(lines)]
        for k, part in enumerate(parts):
            if len(part.pieces) > 1 and (drafts is not None or lengths is not None):
                message = f"line {first + k + 1} is longer than the model takes, and a draft or a length is for one part"
                raise fail("E584", message, help="split it and its draft")
        places = [(k, j) for k, part in enumerate(parts) for j in range(len(part.pieces))]
        if not places:
            return [EMPTY] * len(lines)
        if drafts is not None and self.is_autoregressive(o.sampler):
            message = f"sampler `{self.sampler_named(o.sampler)}` goes from the first piece on, and refines no draft"
            raise fail("E584", message, help="translate drafts by refinement; `prefix` forces how a translation begins")
        source = self.vocabulary.rows([list(parts[k].pieces[j]) for k, j in places], self.pair.cells[0])
        clamp = None if prefix is None else self._prefixes(prefix, [j == 0 for _, j in places])
        found = self.decode(
            source,
            sampler=o.sampler,
            clamp=clamp,
            init=None if drafts is None else self._drafts([drafts[k] for k, _ in places], [first + k + 1 for k, _ in places]),
            lengths=None if lengths is None else [lengths[k] for k, _ in places],
            seed=o.seed,
            rows=np.array([(first + k) * PARTS + j for k, j in places]),
            candidates=o.n_best > 1,
            trace=o.trace,
        )
        at = iter(self._texts(found, o, np.zeros(len(places), int) if clamp is None else (clamp >= 0).sum(axis=1)))
        return [joined([next(at) for _ in part.pieces], part) for part in parts]

    def is_autoregressive(self, sampler: str | None = None) -> bool:
        """Whether a sampler goes from piece to piece."""
        body = self.model.program.checked.samplers[self.sampler_named(sampler)].body
        return isinstance(body, ir.FormCall) and body.form is AUTOREGRESSIVE

    def __repr__(self) -> str:
        words = f" {self.direction}" if self.direction else ""
        return f"Translator{words}: {self.model!r}, {self.vocabulary.size:,} pieces, sampler {self.sampler or 'to be named'}"

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
        lengths: Any = None,
        seed: int = 0,
        rows: Any = None,
        candidates: bool = False,
        trace: bool = False,
    ) -> Decoded:
        """Decode rows of pieces.

        Args:
            source: (rows, source cells), -1 behind the end mark.
            sampler: see `sampler_named`.
            clamp: (rows, target cells), pieces that are held, -1 where none is.
            init: (rows, target cells), drafts.
            lengths: of the targets, where they are known, (rows,).
            seed: of all that is random.
            rows: the numbers of the rows in the whole text, from which what is random follows;
                None: 0, 1, 2, ..
            candidates: whether all candidates are kept.
            trace: whether the pieces after each pass are kept.

        Raises:
            GmlmError: for what the sampler does not take.
        """
        found = self.model.decode(
            self.params,
            self.sampler_named(sampler),
            given={self.pair.source: source},
            missing=-1,
            seed=seed,
            clamp=None if clamp is None else {self.pair.target: clamp},
            init=None if init is None else {self.pair.target: init},
            lengths=lengths,
            rows=rows,
            trace=trace,
        )
        tokens, score, length, passes = (a[:, 0] for a in (found.tokens, found.score, found.length, found.passes))
        plain = Decoded(tokens, score, length, passes, trace=found.trace, seen=None if found.seen is None else found.seen[:, 0])
        if not candidates:
            return plain
        more = {"candidate_passes": found.passes, "candidate_traces": found.traces, "candidate_seen": found.seen}
        return replace(plain, candidates=found.tokens, candidate_scores=found.score, **more)

    def _texts(self, found: Decoded, o: TranslationOptions, held: Array) -> list[Translation]:
        """Of every part its text, and those of its other candidates; `held` pieces of each are given, and not in its score."""
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
        """The text after each pass, without the pieces that are hidden still."""
        return tuple(self.vocabulary.decode([row[row >= 0] for row in trace]))

    def _cleaned(self, tokens: Array) -> Array:
        """Rows without repeated words, filled up with -1."""
        out = np.full_like(tokens, -1)
        for k, row in enumerate(tokens):
            kept = without_repeats(row, int((row >= 0).sum()), self.vocabulary.starts_word)
            out[k, : len(kept)] = kept
        return out


def _verified(sentences: Any, n_best: Any, prefix: Any) -> list[str]:
    """The lines of `translate`; a single text is no list of lines.

    Raises:
        GmlmError: E507.
    """
    _verify_lines(sentences)
    lines = _texts_of(sentences, 0)
    whole_number("n_best", n_best, 1)
    if prefix is not None and not isinstance(prefix, str):
        raise fail("E507", f"prefix must be one text, with which every translation begins, got {prefix!r:.60}")
    return lines


def pieces_of(row: Array, end: int) -> tuple[int, ...]:
    """The pieces before the first end mark."""
    known = row[row >= 0].tolist()
    return tuple(known[: known.index(end)] if end in known else known)


def joined(parts: Sequence[Translation], line: Segments) -> Translation:
    """One translation from those of a line's parts."""
    if len(parts) <= 1:
        return replace(parts[0], cut=line.cut) if parts else EMPTY
    every = [[(*a, n) for a, n in zip(p.alternatives, p.counts, strict=True)] for p in parts]
    ranked = [[e[min(k, len(e) - 1)] for e in every] for k in range(max(map(len, every)))]
    counts = tuple(sum(n for *_, n in row) for row in ranked)
    means = [sum(s * n for _, s, n in row) / max(total, 1) for row, total in zip(ranked, counts, strict=True)]
    others = tuple((joined_text([t for t, *_ in row], line.joints), mean) for row, mean in zip(ranked, means, strict=True))
    steps = max(len(p.trace) for p in parts)
    trace = tuple(joined_text([p.trace[min(k, len(p.trace) - 1)] if p.trace else "" for p in parts], line.joints) for k in range(steps))
    pieces = tuple(x for p in parts for x in p.pieces)
    passes, ended = max(p.passes for p in parts), all(p.ended for p in parts)
    return Translation(others[0][0], others[0][1], pieces, others, passes, trace, line.cut, ended, counts)


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


def _one_a_line(what: str, values: Any, lines: int) -> list[Any]:
    """What stands beside the lines.

    Raises:
        GmlmError: E584 unless there is one for each.
    """
    if not is_many(values):
        raise fail("E584", f"{what} must be a list, one for each line, got {values!r:.60}")
    found = list(values)
    if len(found) != lines:
        raise fail("E584", f"there are {lines:,} lines and {len(found):,} {what}", help="give one for each line")
    return found
