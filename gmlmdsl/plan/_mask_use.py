"""How a fit will use a mask, known before anything is built: how many masks, how many cells, at what cost."""

from __future__ import annotations

from dataclasses import dataclass

from ..graph import FactorGraph
from ..masks import AbstractMask
from ._budget import BUDGET
from ._plan import BlockPlan
from ._updates import plan_mask


@dataclass(frozen=True)
class MaskPlan:
    """A mask of a bound model.

    Attributes:
        adaptive: whether p(K | x) varies with x.
        support: the number of distinct masks (of a mixture, at most).
        reached: the number of cells that some block holds.
        mean_size: E|K|; None where it varies with x or with parameters.
        block: the plan of the costliest block.
    """

    adaptive: bool
    support: float
    reached: int
    mean_size: float | None
    block: BlockPlan

    @property
    def all_masks(self) -> bool:
        """Whether a fit that is not told otherwise averages over every mask."""
        return self.support <= BUDGET.support

    @property
    def factor(self) -> float | None:
        """c = (cells the mask can reach) / E|K|."""
        return self.reached / self.mean_size if self.mean_size else None


def plan_use(graph: FactorGraph, mask: AbstractMask) -> MaskPlan:
    """How a fit will use a mask."""
    adaptive = mask.is_adaptive
    return MaskPlan(adaptive, mask.support_size, len(mask.reach), mask.mean_size, plan_mask(graph, mask, adaptive))
