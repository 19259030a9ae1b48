"""`visits(S)`: the cells that the sampler S hides in a random pass, and those that it settles then.

The settled cells are scored, and the score is weighted. Let pass t settle n_t of the k_t open cells
of a pool. Let s_t be the mean, over the sets K of k_t cells, of the sum over K of -log p(x_i |
x_rest, K hidden). Then -log p of a row is at most the sum over t of (n_t / k_t) s_t. Therefore pass
t is drawn with probability n_t / n and has the weight n / k_t. If the places of the settled cells
are known, each row has one path. The cells that settle in pass t then have the weight n / n_t.

Reference: Hoogeboom et al. 2022, Section 3 (one cell in a pass); Sahoo et al. 2024, Shi et al. 2024
(its limit in continuous time).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .._diagnostics import Span
from ..graph import Lowered, Passes, passes_of, refinement
from ..program import ir
from ._block_terms import cells_of
from ._mask import AbstractMask, Array

ANY, PLACES, CONFIDENCE = "random", "left_to_right", "confidence"


@dataclass(frozen=True)
class VisitMask(AbstractMask):
    """Mask of the cells that a decoder hides.

    `call` is the decoder. `order` states which open cells settle first: any, those on the left, or
    the confident ones. If the order is that of confidence, K depends on the values that a network
    sees, and blocks cannot be enumerated.
    """

    call: ir.FormCall
    cells: Array
    passes: Passes = field(compare=False)
    order: str
    n_cells: int = field(compare=False)
    span: Span = field(compare=False, repr=False)
    has_random_size = True

    @property
    def is_listable(self) -> bool:
        """Whether K is independent of the values that a network sees."""
        return self.passes.open_after is not None and self.order in (ANY, PLACES)

    @property
    def has_one_path(self) -> bool:
        """Whether each row of full length is drawn along one path.

        In that case no pass has a choice of cells.
        """
        return self.order != ANY or all(settled == len(pool) for _, pool, settled in self._rounds())

    @property
    def support_size(self) -> float:
        if not self.is_listable:
            return math.inf
        return float(sum(math.comb(len(pool), k) if self.order == ANY else 1 for k, pool, _ in self._rounds()))

    @property
    def reach(self) -> Array:
        return self.cells

    def _rounds(self) -> Iterator[tuple[int, Array, int]]:
        """Yield for each pass that settles a cell its open cells, their pool, and the settled ones.

        The items are:

        - the number of cells of a block that are open before the pass,
        - the block of cells that may be open,
        - the number of cells that settle.
        """
        table = self.passes.open_after
        assert table is not None
        for first in range(0, len(self.cells), self.passes.block):
            block = self.cells[first : first + self.passes.block]
            for before, after in itertools.pairwise(table[len(block)].tolist()):
                if before > after:
                    yield before, block if self.order == ANY else block[len(block) - before :], before - after

    def scored_blocks(self) -> tuple[Array, Array, Array]:
        """Return every K, the cells of it that are scored, and the weight of the score.

        The sum of the weighted scores is the bound. The first two arrays are boolean (blocks,
        cells), and the weights have the shape (blocks,).
        """
        hidden, scored, weights = [], [], []
        for open_before, pool, settled in self._rounds():
            subsets = itertools.combinations(pool, open_before) if self.order == ANY else [tuple(pool[:settled])]
            behind = self.cells[self.cells > pool[-1]]
            own = [np.isin(np.arange(self.n_cells), s) for s in subsets]
            every = np.array(own) | np.isin(np.arange(self.n_cells), behind if self.order == ANY else [*pool, *behind])
            scored.append(np.array(own))
            hidden.append(every)
            weights.append(np.full(len(own), (settled / open_before if self.order == ANY else 1.0) / len(own)))
        return np.concatenate(hidden), np.concatenate(scored), np.concatenate(weights)

    def enumerate_blocks(self) -> tuple[Array, Array | None]:
        hidden, scored, weights = self.scored_blocks()
        chance = weights * scored.sum(axis=1) / len(self.cells)
        blocks = np.sort(np.where(hidden, np.arange(self.n_cells), self.n_cells), axis=1)[:, : hidden.sum(axis=1).max()]
        found, place = np.unique(blocks, axis=0, return_inverse=True)
        return found.astype(np.int32), np.bincount(place.ravel(), chance, len(found))

    def can_draw(self, block: Array) -> bool:
        if not self.is_listable:
            return len(block) > 0 and bool(np.isin(block, self.cells).all())
        held = np.isin(np.arange(self.n_cells), block)
        return bool((self.scored_blocks()[0] == held).all(axis=1).any())

    @property
    def counts_cells(self) -> bool:
        return True


def lower_visits(lowered: Lowered, body: ir.FormMask) -> VisitMask:
    """Return the mask of `visits(..)`, with the passes of the sampler that it names.

    Raises:
        GmlmError: E409 for options of the sampler that inputs make too large or too small.
    """
    sampler = body.call.arguments["sampler"]
    assert isinstance(sampler, ir.Sampler)
    return visits_of(lowered, sampler, body.span)


def visits_of(lowered: Lowered, sampler: ir.Sampler, span: Span) -> VisitMask:
    """Return the mask that a decoder visits, over the cells that it decodes; see `lower_visits`."""
    call = sampler.body
    assert isinstance(call, ir.FormCall)
    options = refinement(call, lowered.bound)
    cells = cells_of(lowered, tuple(v.name for v in lowered.graph.observed))
    passes = passes_of(call, options, len(cells))
    schedule = options["schedule"]
    order = CONFIDENCE if isinstance(schedule, str) and schedule == "threshold" else str(options["order"])
    return VisitMask(call, cells, passes, ANY if passes.total == 1 else order, lowered.graph.n_cells, span)
