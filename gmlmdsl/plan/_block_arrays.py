"""Blocks as index arrays: their cells, place values, and the factors that touch them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..graph import FactorGraph, FactorGroup, distinct


def block_values(sizes: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Return the number of joint values of each block, as floats.

    `sizes` ends with a 1 for padding.
    """
    with np.errstate(over="ignore"):  # A number beyond the range of floats is too large as well.
        return np.prod(sizes[blocks].astype(float), axis=-1)


def block_arrays(graph: FactorGraph, blocks: np.ndarray, extra: Sequence[FactorGroup] = ()) -> list[np.ndarray]:
    """Return cells, radix, strides, and the instances of each group that touch each block.

    The radix is the number of values of each member. Each array has shape (blocks, ..).
    """
    radix = np.append(graph.sizes, 1)[blocks].astype(np.int64)
    after = np.concatenate([radix[:, 1:], np.ones((len(blocks), 1), np.int64)], axis=1)
    strides = np.cumprod(after[:, ::-1], axis=1)[:, ::-1]
    incidences = [*graph.incidences, *(g.incidence(graph.n_cells) for g in extra)]
    return [blocks, radix, strides, *(_touching(starts, found, blocks, graph.n_cells) for starts, found in incidences)]


def _touching(starts: np.ndarray, found: np.ndarray, blocks: np.ndarray, n_cells: int) -> np.ndarray:
    """Return the distinct instances that touch each block, padded with -1: shape (blocks, most)."""
    starts = np.append(starts, starts[-1])  # The padding cell touches no factor.
    lengths = (starts[1:] - starts[:-1])[blocks]
    row = np.repeat(np.arange(len(blocks)), lengths.sum(axis=1))
    first = np.repeat(starts[blocks].ravel(), lengths.ravel())
    ends = np.cumsum(lengths.ravel())
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths.ravel(), lengths.ravel())
    instance = found[first + within] if len(found) else np.zeros(0, np.int64)
    span = int(found.max(initial=0)) + 1
    if blocks.shape[1] > 1:  # A factor may touch several cells of a block.
        keys = distinct(row * span + instance)
        row, instance = keys // span, keys % span
    counts = np.bincount(row, minlength=len(blocks))
    out = np.full((len(blocks), int(counts.max(initial=0))), -1, np.int64)
    out[row, np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)] = instance
    return out


def size_classes(values: np.ndarray) -> np.ndarray:
    """Return the size bucket k of each block: its number of values rounded up to 4^k."""
    with np.errstate(divide="ignore"):
        return np.where(values <= 1, 0, np.ceil(np.log(values) / math.log(4) - 1e-9)).astype(np.int64)
