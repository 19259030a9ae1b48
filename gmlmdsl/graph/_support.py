"""The support of a mask: its size, the cells it reaches, and every block with its probability."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ._lower_masks import BernoulliMask, IndependentMask, ListedMask, LoweredMask, MixtureMask, PercolationMask, SubsetMask, padded_blocks

Array = np.ndarray
MOST_COUNTED = 1 << 17
LARGEST_LOG = 709.0  # of a float


def support_size(mask: LoweredMask) -> float:
    """The number of distinct blocks, the empty one included where it can be drawn (of a mixture, at most)."""
    match mask:
        case ListedMask():
            return float(len(mask.blocks))
        case SubsetMask():
            return _choices(len(mask.cells), mask.size)
        case BernoulliMask():
            free = len(mask.cells) if mask.rates is None else int(((mask.rates > 0) & (mask.rates < 1)).sum())
            return 2.0**free if free < 1000 else math.inf
        case IndependentMask():
            return 2.0 ** len(mask.cells) if len(mask.cells) < 1000 else math.inf
        case MixtureMask():
            return _mixture_size(mask)
        case PercolationMask():
            return math.inf  # connected sets of cells: not counted


def _choices(n: int, k: int) -> float:
    """n over k; infinite where it is no float."""
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) if 0 <= k <= n else 0.0
    return float(math.comb(n, k)) if log < LARGEST_LOG else math.inf


def _mixture_size(mask: MixtureMask) -> float:
    """Distinct blocks of all parts; their sum where counting them one by one would take long."""
    total = sum(support_size(p) for p in mask.parts)
    if total > MOST_COUNTED:
        return total
    top = int(max(reach(mask, np.iinfo(np.int32).max).max(initial=0), 0)) + 1
    return float(len(blocks_of(mask, top)[0]))


def largest_block(mask: LoweredMask, n_cells: int) -> Array:
    """The cells of the block with the most cells that can be drawn: of subsets, as many as its size, the first by position."""
    match mask:
        case ListedMask():
            inside = mask.blocks < n_cells
            row = int(np.argmax(inside.sum(axis=1)))
            return mask.blocks[row][inside[row]]
        case SubsetMask():
            return mask.cells[: mask.size]
        case BernoulliMask():
            return mask.cells if mask.rates is None else mask.cells[mask.rates > 0]
        case IndependentMask():
            return mask.cells
        case MixtureMask():
            return max((largest_block(p, n_cells) for p in mask.parts), key=len)
        case PercolationMask():
            return mask.cells


def reach(mask: LoweredMask, n_cells: int) -> Array:
    """The cells that some block holds, ascending."""
    match mask:
        case ListedMask():
            cells = np.unique(mask.blocks)
            return cells[cells < n_cells]
        case SubsetMask() | IndependentMask() | PercolationMask():
            return mask.cells
        case BernoulliMask():
            return mask.cells if mask.rates is None else mask.cells[mask.rates > 0]
        case MixtureMask():
            parts = [reach(p, n_cells) for p, w in zip(mask.parts, mask.weights, strict=True) if w > 0]
            return np.unique(np.concatenate(parts))


def blocks_of(mask: LoweredMask, n_cells: int) -> tuple[Array, Array | None]:
    """Every distinct block, padded, and its probability (None for a mask that depends on cells or parameters).

    The caller has judged `support_size` first. The empty block is a row of padding.
    """
    match mask:
        case ListedMask():
            return mask.blocks, mask.probabilities
        case SubsetMask():
            blocks = np.array(list(itertools.combinations(mask.cells, mask.size)), np.int32).reshape(-1, mask.size)
            return blocks, np.full(len(blocks), 1 / len(blocks))
        case BernoulliMask():
            return _bernoulli_blocks(mask, n_cells)
        case IndependentMask():
            blocks, _ = _all_subsets(mask.cells, np.zeros(0, np.int64), n_cells)
            return blocks, None
        case MixtureMask():
            return _mixture_blocks(mask, n_cells)
        case PercolationMask():
            raise AssertionError("clusters are not listed")  # callers ask for `support_size` first


def _all_subsets(free: Array, always: Array, n_cells: int) -> tuple[Array, Array]:
    chosen = (np.arange(2 ** len(free))[:, None] >> np.arange(len(free))[::-1]) & 1
    padded = np.where(chosen == 1, free, n_cells)
    blocks = np.sort(np.concatenate([padded, np.broadcast_to(always, (len(padded), len(always)))], axis=1), axis=1)
    return blocks.astype(np.int32), chosen


def _bernoulli_blocks(mask: BernoulliMask, n_cells: int) -> tuple[Array, Array]:
    if mask.rates is None:
        blocks, chosen = _all_subsets(mask.cells, np.zeros(0, np.int64), n_cells)
        return blocks, size_probabilities(mask)[chosen.sum(axis=1)]
    free = (mask.rates > 0) & (mask.rates < 1)
    blocks, chosen = _all_subsets(mask.cells[free], mask.cells[mask.rates == 1], n_cells)
    r = mask.rates[free]
    return blocks, np.prod(np.where(chosen == 1, r, 1 - r), axis=1)


def size_probabilities(mask: BernoulliMask) -> Array:
    """Of one given block of each size 0..n, under a rate drawn from uniform(a, b): the mean of r^k (1 - r)^(n - k)."""
    from scipy.special import betainc, betaln

    assert mask.uniform is not None
    (a, b), n = mask.uniform, len(mask.cells)
    k = np.arange(n + 1)
    return np.exp(betaln(k + 1, n - k + 1)) * (betainc(k + 1, n - k + 1, b) - betainc(k + 1, n - k + 1, a)) / (b - a)


def _mixture_blocks(mask: MixtureMask, n_cells: int) -> tuple[Array, Array | None]:
    found = [blocks_of(p, n_cells) for p in mask.parts]
    blocks, inverse = np.unique(padded_blocks([b for b, _ in found], n_cells), axis=0, return_inverse=True)
    if any(p is None for _, p in found):
        return blocks, None
    weights = np.concatenate([w * p for w, (_, p) in zip(mask.weights, found, strict=True) if p is not None])
    probabilities = np.bincount(inverse.reshape(-1), weights, len(blocks))
    return blocks[probabilities > 0], probabilities[probabilities > 0]


def draws(mask: LoweredMask, block: Array, n_cells: int) -> bool:
    """Whether a mask can draw a block (distinct positions, ascending) at some configuration."""
    match mask:
        case ListedMask():
            spare = mask.blocks.shape[1] - len(block)
            wanted = np.pad(block, (0, max(spare, 0)), constant_values=n_cells)
            return spare >= 0 and bool((mask.blocks == wanted).all(axis=1).any())
        case SubsetMask():
            return len(block) == mask.size and bool(np.isin(block, mask.cells).all())
        case BernoulliMask() if mask.rates is not None:
            inside = np.isin(block, mask.cells[mask.rates > 0]).all()
            return bool(inside and np.isin(mask.cells[mask.rates == 1], block).all())
        case BernoulliMask() | IndependentMask():
            return bool(np.isin(block, mask.cells).all())
        case MixtureMask():
            return any(draws(p, block, n_cells) for p in mask.parts)
        case PercolationMask():
            return False  # its conditional takes images alone: none of these is asked for
