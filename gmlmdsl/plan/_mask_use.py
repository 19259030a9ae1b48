"""How a fit will use a mask, known before anything is built: how many masks, how many cells, at what cost."""

from __future__ import annotations

from dataclasses import dataclass

from ..graph import BernoulliMask, FactorGraph, ListedMask, LoweredMask, MixtureMask, SubsetMask, is_adaptive
from ..graph.masks import reach, support_size
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


def plan_use(graph: FactorGraph, mask: LoweredMask) -> MaskPlan:
    """How a fit will use a mask."""
    adaptive = is_adaptive(mask)
    return MaskPlan(
        adaptive, support_size(mask), len(reach(mask, graph.n_cells)), mean_size(mask, graph.n_cells), plan_mask(graph, mask, adaptive)
    )


def mean_size(mask: LoweredMask, n_cells: int) -> float | None:
    """E|K|, or None for a mask that mentions cells or parameters."""
    match mask:
        case SubsetMask():
            return float(mask.size)
        case BernoulliMask():
            return float(mask.rates.sum()) if mask.rates is not None else len(mask.cells) * sum(mask.uniform or ()) / 2
        case ListedMask() if mask.probabilities is not None:
            return float((mask.blocks < n_cells).sum(axis=1) @ mask.probabilities)
        case MixtureMask():
            sizes = [mean_size(p, n_cells) for p in mask.parts]
            return None if None in sizes else float(sum(w * s for w, s in zip(mask.weights, sizes, strict=True) if s is not None))
    return None
