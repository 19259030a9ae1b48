"""Packing of 32 chains of a sweep in a word, which is possible for some parameters.

Cells have two values, and their probabilities are few numbers at the known parameters. The log odds
of a cell are a constant plus, for each neighbour at its second value, the strength of the pair. Let
constants be few numbers, and strengths be few numbers up to their sign. The log odds then depend
only on the class of the cell and on how many neighbours of each strength agree with its sign. The
chains, which are the bits of a word, are counted and drawn by operations on words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .limits import BITS, MOST_COMBINATIONS, MOST_STRENGTHS, PACKING_AT_ONCE, PACKING_SAMPLE

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class PackedColours:
    """The arrays that a stage's cells read, see `TabledColours`.

    Attributes:
        slots: the slots of neighbours, grouped by strength, shape (colours, blocks, neighbours).
            The last slot, which holds 0, stands for no neighbour.
        opposed: a mask of the neighbours that count at their first value, because their strength is
            negative.
        kinds: the class of each cell, shape (colours, blocks).
    """

    slots: Array
    opposed: Array
    kinds: Array


@dataclass(frozen=True, eq=False)
class Packing:
    """A sweep of packed chains.

    Attributes:
        degrees: the largest number of neighbours of each strength.
        stages: the stages, as in `SweepTables`.
        thresholds: integer parts of the probabilities of the rarer value times 2^24, shape
            (classes, d + 1 for each degree d).
        rest: the fractional parts, in [0, 1).
        usual: whether the rarer value is the first one.
    """

    degrees: tuple[int, ...]
    stages: tuple[PackedColours, ...]
    thresholds: Array
    rest: Array
    usual: Array


Stage = tuple[Array, Array, Sequence[tuple[Array, Array]]]


def packing(entries: Array, stages: Sequence[Stage], none: int) -> Packing | None:
    """Return how chains are packed, or None if they cannot be packed.

    Args:
        entries: the entries of all tables, with a 0 appended.
        stages: for each stage, whether each cell is drawn and has two values, shape (colours,
            blocks); entries inside, shape (colours, blocks, several, values); and for each kind of
            neighbours slots, shape (colours, blocks, degree, members), and entries, shape (colours,
            blocks, several, values, degree, width).
        none: the last slot.
    """
    if not all(_is_of_pairs(*stage) for stage in stages):
        return None
    sampled = (_strengths([_pieces(entries, s, PACKING_SAMPLE)[1]]) for s in stages)
    if any(len(found) > MOST_STRENGTHS for found in sampled):
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


def _is_of_pairs(real: Array, inside: Array, kinds: Sequence[tuple[Array, Array]]) -> bool:
    """Return whether all cells of a stage have two values and all of their tables are of pairs."""
    if inside.shape[3] != 2 or not real.any() or not kinds:
        return False
    return all((slots.shape[3], places.shape[3], places.shape[5]) == (1, 2, 2) for slots, places in kinds)


def _strengths(found: Sequence[Array]) -> Array:
    sizes = _distinct(np.concatenate([_distinct(np.abs(m)) for m in found]))
    return sizes[sizes != 0]


def _distinct(numbers: Array) -> Array:
    """Return one number of each set that is equal in 32-bit floats, ascending."""
    return numbers.ravel()[np.unique(np.float32(numbers), return_index=True)[1]]


def _nearest(classes: Array, numbers: Array) -> Array:
    """Return the class of each number; the class of a cell that is padding is arbitrary."""
    return np.searchsorted(np.float32(classes), np.float32(numbers)).clip(max=len(classes) - 1)


def _size(strengths: Array) -> Array:
    """Return absolute values as 32-bit floats."""
    return np.abs(strengths).astype(np.float32)


def _pieces(entries: Array, stage: Stage, most: int | None = None) -> tuple[Array, Array]:
    """Return the constants of log odds and the strengths of neighbours, of all cells or of `most`.

    The shapes are (cells,) and (cells, neighbours).
    """
    real, inside, kinds = stage
    inside = inside.reshape(-1, *inside.shape[2:])[:most]
    each = [places.reshape(-1, *places.shape[2:])[:most] for _, places in kinds]
    constants, strengths = np.empty(len(inside)), np.empty((len(inside), sum(p.shape[3] for p in each)))
    for first in range(0, len(inside), PACKING_AT_ONCE):
        here = slice(first, first + PACKING_AT_ONCE)
        alone = entries[inside[here]].sum(axis=1)
        # The axes are cells, values, neighbours, values of the neighbours.
        sums = np.concatenate([entries[p[here]].sum(axis=1) for p in each], axis=2)
        apart = sums[:, 1] - sums[:, 0]
        constants[here] = alone[:, 1] - alone[:, 0] + apart[:, :, 0].sum(axis=1)
        strengths[here] = apart[:, :, 1] - apart[:, :, 0]
    idle = ~real.ravel()[:most]
    constants[idle], strengths[idle] = 0, 0
    return constants, strengths


def _arranged(stage: Stage, strengths: Array, sizes: Array, degrees: tuple[int, ...], kinds: Array, none: int) -> PackedColours:
    """Return the neighbours of each cell, grouped by strength and padded."""
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
