"""Scores of a translator under one sampler on a test text, with diagnostics of refinement.

A refinement decoder fails by a wrong length, by repeated tokens, or by too few passes. This module
measures each beside the scores of the translations.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._types import JsonObject
from ..decode import stutters
from ..networks import FLOAT32
from ._metrics import RESAMPLES, Scores, corpus_bleu, has_spaces, score, stutter, verify_parallel
from ._segments import lines_cut
from ._translator import Decoded, Translator
from .limits import TOP_LENGTHS


@dataclass(frozen=True)
class Pass:
    """The translations after a number of passes.

    Attributes:
        number: the number of the pass, counted from 1.
        bleu: BLEU of the texts, computed as for the evaluation.
        stutter: words that repeat the previous word although the reference does not, per 1,000
            words; nan in a language without spaces.
        repeats: subword tokens that equal the previous one, per 1,000 subword tokens; nothing is
            removed before counting.
    """

    number: int
    bleu: float
    stutter: float
    repeats: float


@dataclass(frozen=True)
class FullPrecision:
    """Translations in float32, to compare with the translations of a translator in fewer bits.

    Attributes:
        scores: their scores.
        equal: the share of lines whose translation is the same in both precisions.
        seconds: the time of translation, including compilation.
    """

    scores: Scores
    equal: float
    seconds: float


@dataclass(frozen=True)
class Evaluation:
    """The results of a translator on a test text.

    Attributes:
        outputs: the translations.
        sampler: the sampler that decoded.
        scores: the scores of the translations.
        by_pass: results after each pass; empty for a sampler without passes.
        repeats: subword tokens that equal the previous one, per 1,000 subword tokens, before any
            are dropped.
        mean_passes: the mean number of the last pass that changed a row; for an autoregressive
            sampler the mean number of its steps.
        passes: the number of rows by the number of the last pass that changed them; empty for an
            autoregressive sampler.
        length_coverage: the share of sentences whose true length is among the k most probable ones,
            by k; None if no length is predicted.
        length_ratio: the ratio of subword tokens of the translations to those of the references.
        oracle: scores of translations with the length of the reference; None for a sampler that
            takes no lengths.
        measured: the number of sentences on which lengths are measured. Their source and reference
            fit into the program's rows.
        seconds: the time of translation, including compilation.
        cut: the number of lines with a sentence that is too long for the model, which did not see
            the sentence's end.
        precision: the precision of the translator, and whether it has a shortlist.
        full: the same lines in float32; None for a translator in float32.
    """

    outputs: tuple[str, ...] = field(repr=False)
    sampler: str
    scores: Scores
    by_pass: tuple[Pass, ...]
    repeats: float
    mean_passes: float
    passes: Mapping[int, int]
    length_coverage: Mapping[int, float] | None
    length_ratio: float
    oracle: Scores | None
    measured: int
    seconds: float
    cut: int
    precision: str = FLOAT32
    full: FullPrecision | None = None

    def as_dict(self) -> JsonObject:
        """Return plain data for JSON, with None for undefined numbers."""
        rest = ("sampler", "repeats", "mean_passes", "length_ratio", "measured", "seconds", "cut", "precision")
        full = None if self.full is None else self.full.scores.as_dict() | {"equal": self.full.equal, "seconds": self.full.seconds}
        return self.scores.as_dict() | {
            **{name: _plain(getattr(self, name)) for name in rest},
            "by_pass": [{k: _plain(v) for k, v in asdict(p).items()} for p in self.by_pass],
            "passes": {str(k): n for k, n in self.passes.items()},
            "length_coverage": None if self.length_coverage is None else {str(k): v for k, v in self.length_coverage.items()},
            "oracle": None if self.oracle is None else self.oracle.as_dict(),
            "float32": full,
        }

    def __str__(self) -> str:
        lines = [f"sampler {self.sampler}: {self.scores}", f"repeated pieces {self.repeats:.2f} per 1,000, before any are dropped"]
        if self.by_pass:
            lines.append(
                f"{'pass':>6}{'BLEU':>10}{'stutter':>10}{'repeats':>10}{'done':>8}   per 1,000 words, pieces; rows that changed last"
            )
            for p in self.by_pass:
                lines.append(f"{p.number:>6}{p.bleu:>10.2f}{p.stutter:>10.2f}{p.repeats:>10.2f}{self.passes.get(p.number, 0):>8,}")
        if self.length_coverage is not None:
            shares = ", ".join(f"{100 * v:.1f} % among {k}" for k, v in self.length_coverage.items())
            lines.append(f"length: the true one is {shares} of the likeliest, on {self.measured:,} sentences")
        pieces = f"{self.length_ratio:.3f} pieces for each of the references"
        lines.append(f"{pieces}; {self.mean_passes:.2f} passes on average; {self.seconds:.1f} s")
        if self.oracle is not None:
            lines.append(f"with the reference's length: {self.oracle.bleu.name} {self.oracle.bleu.value:.2f}")
        if self.full is not None:
            named = [self.full.scores.bleu.name, "chrF++"]
            beside = ", ".join(f"{name} {self.full.scores[name]:.2f}" for name in named)
            lines.append(f"in {self.precision}; in float32 {beside}, and {100 * self.full.equal:.1f} % of the translations are the same")
        if self.cut:
            lines.append(lines_cut(self.cut))
        return "\n".join(lines)


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    sampler: str | None = None,
    seed: int = 0,
    target_language: str | None = None,
    drop_repeats: bool = False,
    oracle: bool = True,
    learnt: str | Path | None = None,
    resamples: int = RESAMPLES,
    tell: Callable[[int], object] = lambda rows: None,
    mesh_axis: str | None = None,
) -> Evaluation:
    """Translate a test text and score the translations.

    A translator in another precision than float32, or with a shortlist, is compared with itself in
    float32 without one.

    Args:
        translator: the translator to measure.
        sources: lines; a sentence that is too long for the model is cut.
        references: the correct translation of each line.
        sampler: a sampler of the program; None selects the translator's own.
        seed: the seed of all random numbers.
        target_language: `de`, `zh`, ..; see `score`.
        drop_repeats: whether words that repeat the previous word are removed from the translations.
            Results by pass refer to the text before removal.
        oracle: whether to translate again with the lengths of the references, if the sampler takes
            lengths.
        learnt: the checkpoint of a learnt measure; see `score`.
        resamples: the number of resampled sets of sentences for the intervals; 0 for no intervals.
        tell: a function that is called after each batch with the number of rows translated so far.
            A line in several parts counts as several rows.
        mesh_axis: as in `Translator.translate`.

    Raises:
        GmlmError: E574 unless there is a reference for each source; and the errors of
            `Translator.translate` and `score`.
    """
    verify_parallel(sources, references, "references")
    name = translator.sampler_named(sampler)
    recorder = Recorder(translator, refines=not translator.is_autoregressive(name), tell=tell)
    options: JsonObject = {"sampler": name, "seed": seed, "cut": True, "mesh_axis": mesh_axis}
    plain, options = options | {"drop_repeats": drop_repeats}, options | {"trace": recorder.refines}
    started = time.perf_counter()
    found = recorder.translate(sources, **options, drop_repeats=drop_repeats)
    seconds = time.perf_counter() - started
    outputs = tuple(t.text for t in found)
    scores = score(outputs, references, target_language, sources=sources, learnt=learnt, resamples=resamples)
    fits, lengths = _that_fit(translator, sources, references)
    ideal = None
    if oracle and recorder.refines and len(fits):
        ideal = list(outputs)
        known = translator.translate([sources[k] for k in fits], lengths=[lengths[k] for k in fits], **options, drop_repeats=drop_repeats)
        for k, t in zip(fits, known, strict=True):
            ideal[k] = t.text
    wanted = sum(lengths[k] - 1 for k in fits)
    return Evaluation(
        outputs,
        name,
        scores,
        _by_pass([t.trace for t in found], recorder, references, scores),
        recorder.repeats,
        float(np.mean(recorder.passes)) if recorder.passes else 0.0,
        dict(sorted(Counter(recorder.passes).items())) if recorder.refines else {},
        _coverage(translator, [sources[k] for k in fits], [references[k] for k in fits]),
        sum(len(found[k].pieces) for k in fits) / wanted if wanted else float("nan"),
        None if ideal is None else score(ideal, references, target_language, resamples=0),
        len(fits),
        seconds,
        sum(t.cut > 0 for t in found),
        translator.way,
        _in_full(translator, outputs, sources, references, target_language, plain),
    )


def _in_full(
    translator: Translator,
    outputs: Sequence[str],
    sources: Sequence[str],
    references: Sequence[str],
    target_language: str | None,
    options: JsonObject,
) -> FullPrecision | None:
    """Return the lines in float32 without shortlist, or None if the translator is already such."""
    if translator.way == FLOAT32:
        return None
    started = time.perf_counter()
    texts = [t.text for t in translator.in_precision(FLOAT32).translate(sources, **options)]
    seconds = time.perf_counter() - started
    equal = float(np.mean([a == b for a, b in zip(outputs, texts, strict=True)]))
    return FullPrecision(score(texts, references, target_language, sources=sources, resamples=0), equal, seconds)


class Recorder(Translator):
    """A translator that records statistics of its decodes before they become text.

    Args:
        translator: the translator whose model, weights and vocabulary are used.
        refines: whether decoding has passes whose tokens are recorded.
        tell: a function that is called after each decode with the number of rows so far.

    Attributes:
        passes: for each row the number of the last pass that changed it; without a trace, the
            number of passes.
    """

    def __init__(self, translator: Translator, refines: bool, tell: Callable[[int], object] = lambda rows: None):
        self.__dict__.update(translator.__dict__)
        self.inner, self.refines, self.tell = translator, refines, tell
        self.passes: list[int] = []
        # One array for each decode: for each pass the numbers of repeated and of all subword
        # tokens.
        self._repeated: list[np.ndarray] = []

    def decode(self, source: Any, **options: Any) -> Decoded:
        """Decode as the translator does, and record the passes."""
        found = self.inner.decode(source, **options)
        self.passes += [int(n) for n in (found.passes if found.trace is None else last_changes(found.trace))]
        steps = found.tokens[:, None] if found.trace is None else found.trace
        self._repeated.append(np.array([_repeats(steps[:, k], self.vocabulary.end) for k in range(steps.shape[1])]))
        self.tell(len(self.passes))
        return found

    @property
    def repeats(self) -> float:
        """Repeated subword tokens of the translations, per 1,000 subword tokens."""
        return self.repeats_by_pass()[-1] if self._repeated else float("nan")

    def repeats_by_pass(self) -> list[float]:
        """Return the repeated subword tokens per 1,000 subword tokens after each pass.

        A repeated subword token equals the previous one.
        """
        return [1000 * float(again) / float(total) if total else float("nan") for again, total in np.sum(self._repeated, axis=0)]


def last_changes(trace: np.ndarray) -> np.ndarray:
    """Return for each row the last pass, counted from 1, that changed a subword token.

    `trace` has the shape (rows, passes, cells).
    """
    changed = np.concatenate([np.ones((len(trace), 1), bool), (trace[:, 1:] != trace[:, :-1]).any(axis=2)], axis=1)
    return trace.shape[1] - np.argmax(changed[:, ::-1], axis=1)


def _repeats(tokens: np.ndarray, end: int) -> tuple[int, int]:
    """Return the numbers of repeated and of all subword tokens before the end mark.

    A repeated subword token equals the previous one.
    """
    # A cell that is still hidden does not count.
    counted = (tokens >= 0) & ~np.logical_or.accumulate(tokens == end, axis=1)
    again = stutters(tokens, np.full(len(tokens), tokens.shape[1])) & counted
    return int(again.sum()), int(counted.sum())


def _by_pass(traces: Sequence[Sequence[str]], recorder: Recorder, references: Sequence[str], scores: Scores) -> tuple[Pass, ...]:
    depth = max((len(t) for t in traces), default=0)
    if not depth:
        return ()
    tokeniser = scores.bleu.name.removeprefix("BLEU ")
    found = []
    for k, repeats in enumerate(recorder.repeats_by_pass()):
        texts = [t[k] if k < len(t) else "" for t in traces]  # An empty line has no pass.
        again = stutter(texts, references, 0, has_spaces(tokeniser))[0].value
        found.append(Pass(k + 1, corpus_bleu(texts, references, tokeniser), again, repeats))
    return tuple(found)


def _that_fit(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return which pairs fit into the program's rows, and the lengths of the references.

    The lengths include the end mark.
    """
    given, wanted = (translator.vocabulary.encode(texts) for texts in (sources, references))
    n_source, n_target = translator.pair.cells
    fits = [k for k, (s, t) in enumerate(zip(given, wanted, strict=True)) if 1 < len(s) <= n_source and 1 < len(t) <= n_target]
    return fits, [len(t) for t in wanted]


def _coverage(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> dict[int, float] | None:
    """Return `ConditionalModel.length_coverage`.

    Return None if no length is predicted or no pair fits.
    """
    network = next(iter(translator.params.values()))
    if getattr(network, "length_head", None) is None or not sources:
        return None
    pair, v = translator.pair, translator.vocabulary
    rows = [v.rows(v.encode(texts), n) for texts, n in zip((sources, references), pair.cells, strict=True)]
    top = [k for k in TOP_LENGTHS if k <= pair.cells[1]]
    return translator.model.length_coverage(translator.params, {pair.target: rows[1]}, given={pair.source: rows[0]}, missing=-1, top=top)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and np.isnan(value) else value


def score_columns(found: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[Any]], list[str]]:
    """Return headers, rows and signatures of a table of scores.

    `found` contains the scores by name.
    """
    headers = list(dict.fromkeys(s["name"] for notes in found.values() for s in notes["scores"]))
    rows = []
    signatures: dict[str, None] = {}
    for name, notes in found.items():
        by_name = {s["name"]: s for s in notes["scores"]}
        rows.append([name, *(_number(by_name, h) for h in headers)])
        signatures |= dict.fromkeys(f"{s['name']}: {s['signature']}" for s in notes["scores"])
    return headers, rows, list(signatures)


def _number(by_name: Mapping[str, Any], name: str) -> Any:
    value = by_name[name]["value"] if name in by_name else None
    return float("nan") if value is None else float(value)
