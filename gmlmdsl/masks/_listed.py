"""Masks that list their blocks.

They are `blocks(..)`, `stripes(..)`, `everything(..)`, and `choose w : ..`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from .._diagnostics import Span, each, fail
from ..graph import FactorGroup, Lowered, fixed_values
from ..program import ir
from ._block_terms import are_numbers, cells_and_size, live_blocks, term_blocks
from ._mask import AbstractMask, Array, CellKey, Weights, padded_blocks


@dataclass(frozen=True)
class ListedMask(AbstractMask):
    """Mask of listed blocks with weights, p(K | x) = w_K(x) / sum of all weights.

    If every weight is 0, K is empty.

    Attributes:
        blocks: integers of shape (blocks, cells): positions ascending, padded with the number of
            cells; distinct rows.
        probabilities: the probability of each block, shape (blocks,); None if weights mention cells
            or parameters.
        weights: groups of weight expressions, one instance per listed block.
        block_of: for each group, the block that each instance belongs to.
    """

    blocks: Array
    probabilities: Array | None
    weights: Weights
    block_of: tuple[Array, ...]
    n_cells: int = field(compare=False)
    span: Span = field(compare=False, repr=False)
    is_listed = True

    @property
    def support_size(self) -> float:
        return float(len(self.blocks))

    @property
    def reach(self) -> Array:
        cells = np.unique(self.blocks)
        return cells[cells < self.n_cells]

    @property
    def largest_block(self) -> Array:
        inside = self.blocks < self.n_cells
        row = int(np.argmax(inside.sum(axis=1)))
        return self.blocks[row][inside[row]]

    def enumerate_blocks(self) -> tuple[Array, Array | None]:
        return self.blocks, self.probabilities

    def can_draw(self, block: Array) -> bool:
        spare = self.blocks.shape[1] - len(block)
        wanted = np.pad(block, (0, max(spare, 0)), constant_values=self.n_cells)
        return spare >= 0 and bool((self.blocks == wanted).all(axis=1).any())

    def written_blocks(self) -> list[Array] | None:
        return [self.blocks]

    def key(self, cell_key: CellKey) -> Hashable:
        if self.probabilities is None:
            return None
        cells = (tuple(sorted((cell_key(int(c)) for c in block if c < self.n_cells), key=repr)) for block in self.blocks)
        return "blocks", tuple(sorted(zip(cells, map(float, self.probabilities), strict=True), key=repr))

    @property
    def mean_size(self) -> float | None:
        return None if self.probabilities is None else float((self.blocks < self.n_cells).sum(axis=1) @ self.probabilities)

    def probability_of_holding(self, cells: Array) -> float | None:
        if self.probabilities is None:
            return None
        return float(self.probabilities[(self.blocks[:, :, None] == cells).any(axis=1).all(axis=1)].sum())

    @property
    def weight_groups(self) -> Weights:
        return self.weights

    def with_weight_groups(self, change: Callable[[FactorGroup], FactorGroup]) -> ListedMask:
        return replace(self, weights=tuple(map(change, self.weights)))


def certain_mask(cells: Array, n_cells: int, span: Span) -> ListedMask:
    """Return the mask whose only block is these cells."""
    return ListedMask(cells[None].astype(np.int32), np.ones(1), (), (), n_cells, span)


def lower_stripes(lowered: Lowered, body: ir.FormMask) -> ListedMask:
    """Return the mask of `stripes(..)`, whose blocks are the runs of `width` successive cells.

    With n cells there are n - width + 1 blocks.

    Raises:
        GmlmError: E410 if there are fewer cells than `width`, or `width` is below 1.
    """
    cells, width = cells_and_size(lowered, body, "stripe")
    blocks = np.lib.stride_tricks.sliding_window_view(cells, width).astype(np.int32)
    return ListedMask(blocks, np.full(len(blocks), 1 / len(blocks)), (), (), lowered.graph.n_cells, body.span)


def lower_listed(lowered: Lowered, body: ir.Listed) -> ListedMask:
    """Return the mask of `blocks(..)` or of `choose w : ..`; equal blocks are merged.

    Raises:
        GmlmError: E410 if no block is left, E411 for a cell that occurs twice in a block, E409 for
            a weight out of bounds.
    """
    n_cells = lowered.graph.n_cells
    found = [(b, g) for b, g, n in each(lambda part: _weighted(lowered, *part), body.terms) if n]
    if not found:
        raise fail("E410", "this mask has no block", body.span, "an empty support", help="check the conditions of its loops")
    if body.uniform:
        blocks = np.unique(padded_blocks([b for b, _ in found], n_cells), axis=0)
        return ListedMask(blocks, np.full(len(blocks), 1 / len(blocks)), (), (), n_cells, body.span)
    kept = [(b, g) for b, g in found if g is not None and g.n]
    if not kept:
        raise fail("E410", "all weights of this mask are 0", body.span, "an empty support", help="give some block a weight above 0")
    blocks, inverse = np.unique(padded_blocks([b for b, _ in kept], n_cells), axis=0, return_inverse=True)
    groups, ends = tuple(g for _, g in kept), np.cumsum([g.n for _, g in kept])
    block_of = tuple(inverse.reshape(-1)[e - g.n : e] for e, g in zip(ends, groups, strict=True))
    if not are_numbers(groups):
        return ListedMask(blocks, None, groups, block_of, n_cells, body.span)
    weights = np.zeros(len(blocks))
    for g, b in zip(groups, block_of, strict=True):
        np.add.at(weights, b, fixed_values(g))
    return ListedMask(blocks, weights / weights.sum(), (), (), n_cells, body.span)


def _weighted(lowered: Lowered, term: ir.BlockTerm, weight: ir.Expression | None) -> tuple[Array, FactorGroup | None, int]:
    """Return the blocks of a term, their weights if it has any, and its number of iterations."""
    blocks, turns = term_blocks(lowered, term)
    if weight is None or not turns.n:
        return blocks, None, turns.n
    return *live_blocks(lowered, blocks, weight, turns, "weight", ListedMask.most_weight), turns.n
