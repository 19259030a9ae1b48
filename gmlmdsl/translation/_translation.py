"""Translations of lines, and how those of a line's parts are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ._segments import Segments, joined_text

T = TypeVar("T")

Array = np.ndarray


@dataclass(frozen=True)
class Translation:
    """The translation of one line.

    Attributes:
        text: the text of the best candidate; empty for an empty line.
        score: the mean log p of its subword tokens, including the end mark. For a line in parts,
            the mean is over the tokens of all parts.
        pieces: the subword tokens of the text, without end marks.
        alternatives: the best candidates with their scores, in the order of the sampler. The text
            itself comes first, and no text occurs twice.
        passes: the number of passes over the network; for an autoregressive sampler the number of
            its steps.
        trace: the text after each pass, if it was requested.
        cut: the number of sentences of the line that are too long for the model, which did not see
            their ends.
        ended: whether the translation of each sentence has an end mark. A translation without one
            fills its row to the last cell.
        counts: for each alternative the number of subword tokens over which its score is the mean,
            including the end mark.
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


def pieces_of(row: Array, end: int) -> tuple[int, ...]:
    """Return the subword tokens before the first end mark."""
    known = row[row >= 0].tolist()
    return tuple(known[: known.index(end)] if end in known else known)


def _up_to_last(sequences: Sequence[Sequence[T]]) -> list[list[T]]:
    """Return the first items of all sequences, the second ones, and so on; a last item repeats."""
    longest = max(map(len, sequences))
    return [[s[min(k, len(s) - 1)] for s in sequences] for k in range(longest)]


def joined(parts: Sequence[Translation], line: Segments) -> Translation:
    """Join the translations of a line's parts into one translation."""
    if len(parts) <= 1:
        return replace(parts[0], cut=line.cut) if parts else EMPTY
    ranked = _up_to_last([[(*a, n) for a, n in zip(p.alternatives, p.counts, strict=True)] for p in parts])
    counts = tuple(sum(n for *_, n in row) for row in ranked)
    means = [sum(s * n for _, s, n in row) / max(total, 1) for row, total in zip(ranked, counts, strict=True)]
    others = tuple((joined_text([t for t, *_ in row], line.joints), mean) for row, mean in zip(ranked, means, strict=True))
    steps = _up_to_last([p.trace or ("",) for p in parts]) if any(p.trace for p in parts) else []
    trace = tuple(joined_text(step, line.joints) for step in steps)
    pieces = tuple(x for p in parts for x in p.pieces)
    passes, ended = max(p.passes for p in parts), all(p.ended for p in parts)
    return Translation(others[0][0], others[0][1], pieces, others, passes, trace, line.cut, ended, counts)
