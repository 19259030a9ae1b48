"""Whether chains of a sweep can be packed 32 in a word: cells of two values whose probabilities are few numbers at known parameters.

The log odds of a cell are a constant plus, for each neighbour at its second value, the strength of
the pair. Where strengths are few numbers but for their signs, and constants too, they depend on
what class the cell is of and on how many neighbours of each strength agree with the sign. Chains
side by side in the bits of a word are then counted, and drawn, by operations on words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
BITS = 24  # binary digits of probabilities for which each cell has random ones of its own
MOST_STRENGTHS = 4
MOST_COMBINATIONS = 32  # of a class and counts: each is an operation for every digit
SAMPLE = 1 << 12  # cells that are looked at first
AT_ONCE = 1 << 16  # cells that are looked at together


@dataclass(frozen=True, eq=False)
class PackedColours:
    """What a stage's cells read, see `TabledColours`.

    Attributes:
        slots: of neighbours, those of one strength together, shape (colours, blocks, neighbours);
            the last slot, which holds 0, for none.
        opposed: which of them count at their first value: their strength is negative.
        kinds: the class of each cell, shape (colours, blocks).
    """

    slots: Array
    opposed: Array
    kinds: Array


@dataclass(frozen=True, eq=False)
class Packing:
    """A sweep of packed chains.

    Attributes:
        degrees: how many neighbours of each strength there are at most.
        stages: as in `SweepTables`.
        thresholds: whole numbers of probabilities times 2^24, of the rarer value each, shape
            (classes, degrees and one).
        rest: what these leave out, in [0, 1).
        usual: whether the rarer value is the first one.
    """

    degrees: tuple[int, ...]
    stages: tuple[PackedColours, ...]
    thresholds: Array
    rest: Array
    usual: Array


Stage = tuple[Array, Array, Sequence[tuple[Array, Array]]]


def packing(entries: Array, stages: Sequence[Stage], none: int) -> Packing | None:
    """How chains are packed; None where they cannot be.

    Args:
        entries: of all tables, a 0 behind.
        stages: whether each cell is one that is drawn and has two values, (colours, blocks);
            entries inside, (colours, blocks, several, values); of each kind of neighbours slots,
            (colours, blocks, degree, members), and entries, (colours, blocks, several, values,
            degree, width).
        none: the last slot.
    """
    for real, inside, kinds in stages:
        pairs = all(slots.shape[3] == 1 and places.shape[3] == 2 and places.shape[5] == 2 for slots, places in kinds)
        if inside.shape[3] != 2 or not real.any() or not kinds or not pairs:
            return None
    if any(len(_strengths([_pieces(entries, s, SAMPLE)[1]])) > MOST_STRENGTHS for s in stages):
        return None
    odds = [_pieces(entries, s) for s in stages]
    strengths = _strengths([m for _, m in odds])
    if not (all(np.isfinite(c).all() for c, _ in odds) and np.isfinite(strengths).all() and 0 < len(strengths) <= MOST_STRENGTHS):
        return None
    degrees = tuple(max(int((_size(m) == _size(s)).sum(axis=1).max()) for _, m in odds) for s in strengths)
    constants = [c + np.minimum(m, 0).sum(axis=1) for c, m in odds]
    classes = _distinct(np.concatenate([c[s[0].ravel()] for c, s in zip(constants, stages, strict=True)]))
    if len(classes) * math.prod(d + 1 for d in degrees) > MOST_COMBINATIONS:
        return None
    packed = tuple(
        _arranged(s, m, strengths, degrees, _nearest(classes, c), none) for s, (_, m), c in zip(stages, odds, constants, strict=True)
    )
    log_odds = classes.reshape(-1, *(1,) * len(degrees))
    for k, (s, d) in enumerate(zip(strengths, degrees, strict=True)):
        log_odds = log_odds + (s * np.arange(d + 1)).reshape(*(1,) * (k + 1), -1, *(1,) * (len(degrees) - k - 1))
    odds_of_rarer = np.exp(-np.abs(log_odds))
    rest, thresholds = np.modf(2.0**BITS * odds_of_rarer / (1 + odds_of_rarer))
    return Packing(degrees, packed, thresholds.astype(np.uint32), rest, log_odds > 0)


def _strengths(found: Sequence[Array]) -> Array:
    sizes = _distinct(np.concatenate([_distinct(np.abs(m)) for m in found]))
    return sizes[sizes != 0]


def _distinct(numbers: Array) -> Array:
    """One of each that are equal as floats of 32 bits, ascending."""
    return numbers.ravel()[np.unique(np.float32(numbers), return_index=True)[1]]


def _nearest(classes: Array, numbers: Array) -> Array:
    """Which class each number is of; of cells that are padding any."""
    return np.searchsorted(np.float32(classes), np.float32(numbers)).clip(max=len(classes) - 1)


def _size(strengths: Array) -> Array:
    """Without sign, as floats of 32 bits."""
    return np.abs(strengths).astype(np.float32)


def _pieces(entries: Array, stage: Stage, most: int | None = None) -> tuple[Array, Array]:
    """The constants of log odds, (cells,), and the strengths of neighbours, (cells, neighbours), of all cells or of `most`."""
    real, inside, kinds = stage
    inside = inside.reshape(-1, *inside.shape[2:])[:most]
    each = [places.reshape(-1, *places.shape[2:])[:most] for _, places in kinds]
    constants, strengths = np.empty(len(inside)), np.empty((len(inside), sum(p.shape[3] for p in each)))
    for first in range(0, len(inside), AT_ONCE):
        here = slice(first, first + AT_ONCE)
        alone = entries[inside[here]].sum(axis=1)
        # cells, values, neighbours, their values
        sums = np.concatenate([entries[p[here]].sum(axis=1) for p in each], axis=2)
        apart = sums[:, 1] - sums[:, 0]
        constants[here] = alone[:, 1] - alone[:, 0] + apart[:, :, 0].sum(axis=1)
        strengths[here] = apart[:, :, 1] - apart[:, :, 0]
    idle = ~real.ravel()[:most]
    constants[idle], strengths[idle] = 0, 0
    return constants, strengths


def _arranged(stage: Stage, strengths: Array, sizes: Array, degrees: tuple[int, ...], kinds: Array, none: int) -> PackedColours:
    """The neighbours of each cell, those of one strength together, filled up with none."""
    shape = stage[0].shape
    slots = np.concatenate([s[..., 0].reshape(len(strengths), -1) for s, _ in stage[2]], axis=1)
    out, opposed, start = np.full((len(slots), sum(degrees)), none, np.int32), np.zeros((len(slots), sum(degrees)), bool), 0
    for size, degree in zip(sizes, degrees, strict=True):
        mine = _size(strengths) == _size(size)
        rows, columns = np.nonzero(mine)
        at = start + (np.cumsum(mine, axis=1) - 1)[rows, columns]
        out[rows, at], opposed[rows, at] = slots[rows, columns], strengths[rows, columns] < 0
        start += degree
    return PackedColours(out.reshape(*shape, -1), opposed.reshape(*shape, -1), kinds.reshape(shape))
