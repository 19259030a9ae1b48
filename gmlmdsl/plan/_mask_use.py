"""A preview of how a fit uses a mask: how many masks, how many cells, and at what cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._diagnostics import GmlmError
from ..graph import FactorGraph
from ..masks import AbstractMask
from ._elimination import Elimination, plan_elimination
from ._loss_blocks import is_large, support_blocks
from ._partial_sums import with_partial_sums
from ._plan import BlockPlan, is_affordable, plan_blocks
from ._updates import plan_mask
from .limits import BUDGET, MOST_LISTED_VALUES

Array = np.ndarray


@dataclass(frozen=True)
class MaskPlan:
    """A mask of a bound model.

    Attributes:
        adaptive: whether p(K | x) varies with x.
        support: the number of distinct masks; for a mixture, an upper bound.
        reached: the number of cells that some block contains.
        mean_size: E|K|; None if it varies with x or with parameters.
        block: the plan of the costliest block.
        whole: the elimination of all cells that serves the blocks of all rows, if these are drawn;
            None if they are not drawn, or are enumerated.
        counted: the elimination of all blocks with partial sums as cells, if a large factor depends
            on its cells through a sum; else None.
    """

    adaptive: bool
    support: float
    reached: int
    mean_size: float | None
    block: BlockPlan
    whole: Elimination | None = None
    counted: Elimination | None = None

    @property
    def all_masks(self) -> bool:
        """Whether a fit averages over every mask by default."""
        return self.support <= BUDGET.support

    @property
    def factor(self) -> float | None:
        """c = (number of cells that the mask can reach) / E|K|."""
        return self.reached / self.mean_size if self.mean_size else None


def plan_use(graph: FactorGraph, mask: AbstractMask) -> MaskPlan:
    """Return how a fit uses a mask."""
    adaptive = mask.is_adaptive
    used = MaskPlan(adaptive, mask.support_size, len(mask.reach), mask.mean_size, plan_mask(graph, mask, adaptive))
    if adaptive:
        return used
    if not used.all_masks:
        return replace(used, whole=plan_drawn(graph, mask, used.block))
    blocks, probabilities = support_blocks(graph, mask)
    found = plan_counted(graph, mask, blocks) if probabilities is not None and is_large(graph, blocks) else None
    return replace(used, counted=None if found is None else found[1])


def plan_counted(graph: FactorGraph, mask: AbstractMask, blocks: Array) -> tuple[FactorGraph, Elimination] | None:
    """Return the graph with partial sums as cells, and one order for the sums of all blocks.

    The result is None if the model has no partial sums, or if enumeration is cheaper.

    Args:
        graph: the graph of the model.
        mask: a mask that is not data-dependent, over rows without missing cells.
        blocks: its support, shape (masks, members), padded with the number of cells.
    """
    counted = with_partial_sums(graph)
    if counted is graph:
        return None
    try:
        plan = plan_elimination(counted, np.union1d(mask.reach, np.arange(graph.n_cells, counted.n_cells)), "the loss: all blocks")
    except GmlmError:
        return None
    listed = plan_blocks(graph, blocks)
    cheaper = all(is_affordable(p) for p in listed) and sum(p.terms for p in listed) < plan.flops * len(blocks)
    return None if cheaper else (counted, plan)


def plan_drawn(graph: FactorGraph, mask: AbstractMask, plan: BlockPlan) -> Elimination | None:
    """Return one order of all cells of a mask that serves every block that is drawn.

    The result is None if the blocks are better enumerated, as `plan` shows.

    Args:
        graph: the graph of the model.
        mask: a mask that is not data-dependent, over rows without missing cells.
        plan: the plan of its costliest block.
    """
    if plan.method == "product" or (plan.values <= MOST_LISTED_VALUES and plan.elimination is None):
        return None
    try:
        whole = plan_elimination(graph, mask.reach, "the loss: all cells of the mask")
    except GmlmError:
        return None
    return whole if whole.flops < plan.values or not is_affordable(plan) or plan.elimination is not None else None
