"""`visits(S)`: what the sampler S hides in a pass drawn at random, and what it settles then, scored and weighted.

With n_t of the k_t open cells of a pool settled in pass t, -log p of a row is at most the sum over
t of (n_t / k_t) times the mean, over the sets K of k_t cells, of the sum over K of -log p(x_i |
x_rest, K hidden): so pass t is drawn with probability n_t / n and weighs n / k_t. Where the places
are known each row has one path, and what is settled in pass t weighs n / n_t.

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
    """What a decoder hides; `order` says whether any open cells settle first, those on the left, or the confident ones.

    `call` is the decoder. Where the order is that of confidence, K depends on what a network sees,
    and no block is listed.
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
        """Whether K does not depend on what a network sees."""
        return self.passes.open_after is not None and self.order in (ANY, PLACES)

    @property
    def has_one_path(self) -> bool:
        """Whether each row of full length is drawn along one path: no pass leaves any choice of cells."""
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
        """Of each pass that settles a cell: how many of a block are open before it, the block where it may be, and how many settle."""
        table = self.passes.open_after
        assert table is not None
        for first in range(0, len(self.cells), self.passes.block):
            block = self.cells[first : first + self.passes.block]
            for before, after in itertools.pairwise(table[len(block)].tolist()):
                if before > after:
                    yield before, block if self.order == ANY else block[len(block) - before :], before - after

    def scored_blocks(self) -> tuple[Array, Array, Array]:
        """Every K with what of it is scored and the weight of the score, whose sum is the bound; boolean (blocks, cells), and (blocks,)."""
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
    """The passes of the sampler that `visits(..)` names.

    Raises:
        GmlmError: E409 for options of the sampler that inputs make too large or too small.
    """
    sampler = body.call.arguments["sampler"]
    assert isinstance(sampler, ir.Sampler)
    return visits_of(lowered, sampler, body.span)


def visits_of(lowered: Lowered, sampler: ir.Sampler, span: Span) -> VisitMask:
    """What a decoder visits, of the cells that it decodes; see `lower_visits`."""
    call = sampler.body
    assert isinstance(call, ir.FormCall)
    options = refinement(call, lowered.bound)
    cells = cells_of(lowered, tuple(v.name for v in lowered.graph.observed))
    passes = passes_of(call, options, len(cells))
    schedule = options["schedule"]
    order = CONFIDENCE if isinstance(schedule, str) and schedule == "threshold" else str(options["order"])
    return VisitMask(call, cells, passes, ANY if passes.total == 1 else order, lowered.graph.n_cells, span)
