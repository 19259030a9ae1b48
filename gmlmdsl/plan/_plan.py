"""Plans of how a block's joint values are summed and drawn, their cost, and the limits on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .._diagnostics import GmlmError, Span, fail
from ..graph import FactorGraph
from ..graph.colours import has_inner_factor
from ._elimination import Elimination, plan_elimination
from .limits import BUDGET, FEW_VALUES, TABLE_COST, Budget

Array = np.ndarray


@dataclass(frozen=True)
class BlockPlan:
    """A plan of how a block is summed and drawn.

    Attributes:
        method: product (no factor joins two members), enumeration, or the form of elimination:
            chain, tree, elimination.
        members: the number of cells in the block.
        values: the number of joint values that are held at once: all of them, or the entries of the
            largest table.
        terms: the number of factor evaluations, or of entries of all tables; the maximum for a
            block of this kind.
        elimination: the order, if there is one.
        refusal: the reason why there is no order, if one was searched and costs too much.
    """

    method: str
    members: int
    values: float
    terms: float
    elimination: Elimination | None = field(default=None, repr=False)
    refusal: str = field(default="", repr=False)

    @property
    def words(self) -> str:
        """One line for `gmlm explain`."""
        if self.elimination is not None:
            return self.elimination.words
        cells = f"{self.members} cell{'s' * (self.members != 1)}"
        if self.method == "product":
            return f"product: {cells}{', no factor between them' * (self.members > 1)}; {self.terms:.3g} factor evaluations"
        return f"enumeration: {cells}, {self.values:.3g} joint values, {self.terms:.3g} factor evaluations"


def touching_factors(graph: FactorGraph, cells: Array) -> int:
    """Return the number of factors that touch some of the cells, counted once per cell."""
    inside = cells[cells < graph.n_cells]
    return int(sum((starts[inside + 1] - starts[inside]).sum() for starts, _ in graph.incidences))


def plan_block(graph: FactorGraph, cells: Array, corrected: bool = False, budget: Budget = BUDGET) -> BlockPlan:
    """Return the plan of one block.

    It is a product if no factor joins two of its cells and no correction by a mask does. Otherwise
    it is the cheaper of enumeration and elimination. A correction depends on the block as a whole,
    so such a block is enumerated.

    Args:
        graph: the factor graph.
        cells: the cells of the block, which may be padded.
        corrected: whether the probability of a data-dependent mask corrects the draw.
        budget: the limits.
    """
    cells = cells[cells < graph.n_cells]
    factors, sizes = touching_factors(graph, cells), graph.sizes[cells].astype(float)
    if len(cells) > 1 and not corrected and not has_inner_factor(graph, cells):
        return BlockPlan("product", len(cells), float(sizes.max()), factors * float(sizes.max()))
    values = math.prod(sizes.tolist())
    listed = BlockPlan("enumeration", len(cells), values, factors * values)
    if corrected or graph.method == "enumeration" or (values <= FEW_VALUES and graph.method is None) or len(cells) < 2:
        return listed
    try:
        found = plan_elimination(graph, cells, "a block", budget)
    except GmlmError as error:
        return replace(listed, refusal=error.diagnostics[0].message)
    if graph.method is None and is_affordable(listed, budget) and listed.terms <= TABLE_COST * found.flops:
        return listed
    return BlockPlan(found.method, len(cells), found.largest, found.flops, found)


def plan_blocks(graph: FactorGraph, blocks: Array, corrected: bool = False) -> list[BlockPlan]:
    """Return a plan for each of many blocks, padded with the number of cells.

    If elimination is better for one block, all blocks with inner factors are eliminated.
    """
    sizes = np.append(graph.sizes, 1).astype(float)
    with np.errstate(over="ignore"):  # An infinite number is too large as well.
        values = np.prod(sizes[blocks], axis=1)
    if values.max(initial=0.0) <= FEW_VALUES or corrected or graph.method is not None:
        return [plan_block(graph, b, corrected) for b in blocks]
    worst = plan_block(graph, blocks[int(np.argmax(values))])
    listed = worst.elimination is None and worst.method == "enumeration" and is_affordable(worst)
    return [plan_block(graph, b, listed and has_inner_factor(graph, b[b < graph.n_cells])) for b in blocks]


def is_affordable(plan: BlockPlan, budget: Budget = BUDGET) -> bool:
    """Return whether a plan is within the budget; an elimination always is."""
    return plan.elimination is not None or (plan.values <= budget.values and plan.terms <= budget.terms)


def verify_affordable(plan: BlockPlan, what: str, span: Span | None, budget: Budget = BUDGET, alternatives: Sequence[str] = ()) -> None:
    """Raise if a plan is above the budget, with the figure, the limit and a suggested fix.

    Args:
        plan: the plan.
        what: the words for the block.
        span: the place in the text.
        budget: the limits.
        alternatives: further suggested fixes.

    Raises:
        GmlmError: E601.
    """
    if is_affordable(plan, budget):
        return
    over_values = plan.values > budget.values
    figure, limit, unit = (plan.values, budget.values, "joint values") if over_values else (plan.terms, budget.terms, "factor evaluations")
    message = f"{what} of {plan.members} cells needs {figure:.3g} {unit}, more than the limit of {limit:.3g}"
    message += f"; by elimination {plan.refusal.removeprefix('a block ')}" * bool(plan.refusal)
    help = "; ".join((*alternatives, "use smaller blocks, or blocks whose cells share no factor"))
    raise fail("E601", message, span, f"{figure:.3g} {unit}", help=help)
