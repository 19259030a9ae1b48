"""A translator under one sampler on a test text: scores, and where they come from: passes, lengths, stutter.

What is wrong with a refinement decoder is a wrong length, tokens that repeat one another, or passes
that were too few: each has a measure here, beside the scores of its translations.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..decode import stutters
from ._metrics import RESAMPLES, Scores, corpus_bleu, has_spaces, score, stutter, verify_parallel
from ._segments import lines_cut
from ._translator import Decoded, Translator

TOP = (1, 3, 5)  # how many of the likeliest lengths may hold the true one


@dataclass(frozen=True)
class Pass:
    """The translations after so many passes.

    Attributes:
        number: of the pass, from 1.
        bleu: of the texts, as BLEU of the evaluation.
        stutter: words that repeat the word before where the reference does not, per 1,000 words;
            nan in a language without spaces.
        repeats: pieces that equal the piece before, per 1,000 pieces; nothing is left out of them.
    """

    number: int
    bleu: float
    stutter: float
    repeats: float


@dataclass(frozen=True)
class Evaluation:
    """What a translator does on a test text.

    Attributes:
        outputs: its translations.
        sampler: that decoded.
        scores: of the translations.
        by_pass: after each pass; empty for a sampler that has none.
        repeats: pieces that equal the piece before, per 1,000 pieces, before any are dropped.
        mean_passes: the passes that changed something; of an autoregressive sampler its steps.
        passes: how many rows were done after so many passes; empty for an autoregressive sampler.
        length_coverage: share of sentences whose true length is among the k likeliest, by k; None
            where no length is predicted.
        length_ratio: pieces of the translations for each piece of the references.
        oracle: scores where the length of the reference is given; None for a sampler that does not
            take it.
        measured: sentences that lengths are measured on: those that fit into the program's rows,
            source and reference.
        seconds: of translating, compiling included.
        cut: lines with a sentence that is longer than the model takes, whose end it did not see.
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

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; None for what has no meaning."""
        rest = ("sampler", "repeats", "mean_passes", "length_ratio", "measured", "seconds", "cut")
        return self.scores.as_dict() | {
            **{name: _plain(getattr(self, name)) for name in rest},
            "by_pass": [{k: _plain(v) for k, v in asdict(p).items()} for p in self.by_pass],
            "passes": {str(k): n for k, n in self.passes.items()},
            "length_coverage": None if self.length_coverage is None else {str(k): v for k, v in self.length_coverage.items()},
            "oracle": None if self.oracle is None else self.oracle.as_dict(),
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
) -> Evaluation:
    """Translate a test text and measure what comes out.

    Args:
        translator: to be measured.
        sources: lines; a sentence that the model cannot take loses its end.
        references: the right translation of each.
        sampler: of the program; None: the translator's own.
        seed: of all that is random.
        target_language: `de`, `zh`, ..; see `score`.
        drop_repeats: whether a word that repeats the word before is left out of the translations;
            measures by pass are of what was there.
        oracle: whether it is translated once more with the lengths of the references, where the
            sampler takes lengths.
        learnt: the checkpoint of a learnt measure; see `score`.
        resamples: sets of sentences behind the intervals; 0 for none.
        tell: is called after each batch with the number of rows that are translated; a line in
            parts is several.

    Raises:
        GmlmError: E574 unless there is a reference for each source; and those of
            `Translator.translate` and `score`.
    """
    verify_parallel(sources, references, "references")
    name = translator.sampler_named(sampler)
    recorder = Recorder(translator, refines=not translator.is_autoregressive(name), tell=tell)
    options: dict[str, Any] = {"sampler": name, "seed": seed, "cut": True, "trace": recorder.refines}
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
    )


class Recorder(Translator):
    """A translator that counts what its decodes do before they become text.

    Args:
        translator: whose model, weights and vocabulary it has.
        refines: whether there are passes whose tokens are looked at.
        tell: is called after each decode with the number of rows so far.

    Attributes:
        passes: of each row.
    """

    def __init__(self, translator: Translator, refines: bool, tell: Callable[[int], object] = lambda rows: None):
        self.__dict__.update(translator.__dict__)
        self.inner, self.refines, self.tell = translator, refines, tell
        self.passes: list[int] = []
        # for each decode, by pass: repeated pieces, and pieces
        self._repeated: list[np.ndarray] = []

    def decode(self, source: Any, **options: Any) -> Decoded:
        """As a translator decodes, with its passes counted."""
        found = self.inner.decode(source, **options)
        self.passes += [int(n) for n in (found.passes if found.trace is None else last_changes(found.trace))]
        steps = found.tokens[:, None] if found.trace is None else found.trace
        self._repeated.append(np.array([_repeats(steps[:, k], self.vocabulary.end) for k in range(steps.shape[1])]))
        self.tell(len(self.passes))
        return found

    @property
    def repeats(self) -> float:
        """Of the translations."""
        return self.repeats_by_pass()[-1] if self._repeated else float("nan")

    def repeats_by_pass(self) -> list[float]:
        """Pieces that equal the piece before, per 1,000 pieces, after each pass."""
        return [1000 * float(again) / float(total) if total else float("nan") for again, total in np.sum(self._repeated, axis=0)]


def last_changes(trace: np.ndarray) -> np.ndarray:
    """Of each row the last pass, from 1, that changed a piece; `trace` has the shape (rows, passes, cells)."""
    changed = np.concatenate([np.ones((len(trace), 1), bool), (trace[:, 1:] != trace[:, :-1]).any(axis=2)], axis=1)
    return trace.shape[1] - np.argmax(changed[:, ::-1], axis=1)


def _repeats(tokens: np.ndarray, end: int) -> tuple[int, int]:
    """How many pieces before the end equal the piece before them, and how many there are."""
    # a cell that is hidden still is no piece
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
        texts = [t[k] if k < len(t) else "" for t in traces]  # an empty line has no pass
        again = stutter(texts, references, 0, has_spaces(tokeniser))[0].value
        found.append(Pass(k + 1, corpus_bleu(texts, references, tokeniser), again, repeats))
    return tuple(found)


def _that_fit(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> tuple[list[int], list[int]]:
    """Which pairs fit into the program's rows, and the length of each reference with its end mark."""
    given, wanted = (translator.vocabulary.encode(texts) for texts in (sources, references))
    n_source, n_target = translator.pair.cells
    fits = [k for k, (s, t) in enumerate(zip(given, wanted, strict=True)) if 1 < len(s) <= n_source and 1 < len(t) <= n_target]
    return fits, [len(t) for t in wanted]


def _coverage(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> dict[int, float] | None:
    """See `ConditionalModel.length_coverage`; None where no length is predicted, or nothing fits."""
    network = next(iter(translator.params.values()))
    if getattr(network, "length_head", None) is None or not sources:
        return None
    pair, v = translator.pair, translator.vocabulary
    rows = [v.rows(v.encode(texts), n) for texts, n in zip((sources, references), pair.cells, strict=True)]
    top = [k for k in TOP if k <= pair.cells[1]]
    return translator.model.length_coverage(translator.params, {pair.target: rows[1]}, given={pair.source: rows[0]}, missing=-1, top=top)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and np.isnan(value) else value
