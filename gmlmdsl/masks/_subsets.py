"""`subsets(x, size = k)`: all sets of k cells have the same probability."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from .._diagnostics import Span
from ..graph import Lowered
from ..program import ir
from ._block_terms import cells_and_size
from ._mask import AbstractMask, Array, CellKey

LARGEST_LOG = 709.0  # the log of the largest float


@dataclass(frozen=True)
class SubsetMask(AbstractMask):
    """Mask that is uniform over the subsets of `cells` with `size` members."""

    cells: Array
    size: int
    n_cells: int = field(compare=False)
    span: Span = field(compare=False, repr=False)

    @property
    def support_size(self) -> float:
        n, k = len(self.cells), self.size
        log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) if 0 <= k <= n else 0.0
        return float(math.comb(n, k)) if log < LARGEST_LOG else math.inf

    @property
    def reach(self) -> Array:
        return self.cells

    @property
    def largest_block(self) -> Array:
        return self.cells[: self.size]

    def enumerate_blocks(self) -> tuple[Array, Array | None]:
        blocks = np.array(list(itertools.combinations(self.cells, self.size)), np.int32).reshape(-1, self.size)
        return blocks, np.full(len(blocks), 1 / len(blocks))

    def can_draw(self, block: Array) -> bool:
        return len(block) == self.size and bool(np.isin(block, self.cells).all())

    def written_blocks(self) -> list[Array] | None:
        return [self.cells[:, None]] if self.size == 1 else None

    @property
    def mean_size(self) -> float | None:
        return float(self.size)

    def probability_of_holding(self, cells: Array) -> float | None:
        return chance_among(len(self.cells), self.size, len(cells)) if np.isin(cells, self.cells).all() else 0.0

    def key(self, cell_key: CellKey) -> Hashable:
        return "subsets", self.size, tuple(sorted((cell_key(int(c)) for c in self.cells), key=repr))

    @property
    def counts_cells(self) -> bool:
        return True


def chance_among(n: int, k: int, size: int) -> float:
    """Return the probability that k random cells of n contain `size` given ones.

    It is binom(n - size, k - size) / binom(n, k).
    """
    return math.prod((k - i) / (n - i) for i in range(size)) if k >= size else 0.0


def lower_subsets(lowered: Lowered, body: ir.FormMask) -> SubsetMask:
    """Return the mask of `subsets(..)`, with its cells and its size.

    Raises:
        GmlmError: E410 if there are fewer cells than the size, or the size is below 1.
    """
    cells, size = cells_and_size(lowered, body, "subset")
    return SubsetMask(cells, size, lowered.graph.n_cells, body.span)
