"""How a block's joint values are summed and drawn, what that costs, and when it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._diagnostics import Span, fail
from ..graph import FactorGraph
from ..graph.colours import has_inner_factor

Array = np.ndarray


@dataclass(frozen=True)
class Budget:
    """Limits on exact work.

    Attributes:
        values: joint values of one block that are enumerated.
        terms: factor evaluations for one block.
        bytes: memory of one computation.
        flops: operations of one contraction.
        states: configurations of a transition matrix.
        support: distinct masks that a loss averages over.
        row_gaps: factor evaluations that sum out the missing cells of one row.
        all_gaps: the same for all rows of a fit.
    """

    values: float = 2.0**20
    terms: float = 2.0**28
    bytes: float = 2.0**30
    flops: float = 1e10
    states: float = 2.0**13
    support: int = 4096
    row_gaps: float = 2.0**22
    all_gaps: float = 2.0**26


BUDGET = Budget()


@dataclass(frozen=True)
class BlockPlan:
    """`method` is product (no factor joins two members) or enumeration.

    Attributes:
        members: cells in the block.
        values: joint values that are listed at once.
        terms: factor evaluations, the most for a block of this kind.
    """

    method: str
    members: int
    values: float
    terms: float

    @property
    def words(self) -> str:
        """One line for `gmlm explain`."""
        cells = f"{self.members} cell{'s' * (self.members != 1)}"
        if self.method == "product":
            return f"product: {cells}, no factor between them; {self.terms:.3g} factor evaluations"
        return f"enumeration: {cells}, {self.values:.3g} joint values, {self.terms:.3g} factor evaluations"


def touching_factors(graph: FactorGraph, cells: Array) -> int:
    """The number of factors that touch some of the cells, counted once per cell."""
    inside = cells[cells < graph.n_cells]
    return int(sum((starts[inside + 1] - starts[inside]).sum() for starts, _ in graph.incidences))


def plan_block(graph: FactorGraph, cells: Array, corrected: bool = False) -> BlockPlan:
    """The plan of one block: a product where no factor joins two of its cells and no mask's correction does, else enumeration."""
    cells = cells[cells < graph.n_cells]
    factors, sizes = touching_factors(graph, cells), graph.sizes[cells].astype(float)
    if len(cells) > 1 and not corrected and not has_inner_factor(graph, cells):
        return BlockPlan("product", len(cells), float(sizes.max()), factors * float(sizes.max()))
    values = float(np.prod(sizes))
    return BlockPlan("enumeration", len(cells), values, factors * values)


def verify_affordable(plan: BlockPlan, what: str, span: Span | None, budget: Budget = BUDGET, alternatives: Sequence[str] = ()) -> None:
    """Refuse a plan above the budget, with the figure, the limit and what to do.

    Raises:
        GmlmError: E601.
    """
    if plan.values <= budget.values and plan.terms <= budget.terms:
        return
    over_values = plan.values > budget.values
    figure, limit, unit = (plan.values, budget.values, "joint values") if over_values else (plan.terms, budget.terms, "factor evaluations")
    message = f"{what} of {plan.members} cells needs {figure:.3g} {unit}, more than the limit of {limit:.3g}"
    help = "; ".join((*alternatives, "use smaller blocks, or blocks whose cells share no factor"))
    raise fail("E601", message, span, f"{figure:.3g} {unit}", help=help)
