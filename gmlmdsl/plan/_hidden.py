"""Elimination for the losses of rows with hidden cells, such as latents, and its cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._diagnostics import GmlmError, fail
from ..graph import FactorGraph
from ..masks import AbstractMask
from ._elimination import Elimination, plan_elimination
from ._partial_sums import with_partial_sums
from ._plan import touching_factors
from ._updates import plan_mask
from .limits import BUDGET, Budget

Array = np.ndarray


@dataclass(frozen=True)
class HiddenPlan:
    """How -log p(x_K | x_rest) is summed if cells are hidden.

    Attributes:
        listed: whether the joint values of K are enumerated and the hidden cells are summed out for
            each of them. Otherwise K is summed out together with the hidden cells.
        elimination: the elimination of the hidden cells; if K is not enumerated, also of the cells
            that masks reach.
        values: the number of joint values that are enumerated for each mask, 1 if there are none.
        masks: the number of masks for each row.
        factors: the number of factor evaluations for one sum.
        whole: whether the mask covers all observed cells of a product of distributions. Then -log
            p(x) is the only sum, over the hidden cells.
        counted: the graph with partial sums as cells, if the elimination is of that one.
    """

    listed: bool
    elimination: Elimination
    values: float
    masks: float
    factors: float
    whole: bool = False
    counted: FactorGraph | None = None

    @property
    def entries(self) -> float:
        """The number of entries of tables and factors for one mask of one row.

        Memory is in proportion to it.
        """
        return self.values * (self.elimination.flops + self.factors)

    @property
    def row_cost(self) -> float:
        """The number of entries of tables and factors for all masks of a row."""
        return (self.masks * (not self.whole) + 1) * self.entries

    @property
    def words(self) -> str:
        """One line for `gmlm explain`."""
        if self.whole:
            return f"log p of what is observed: {self.elimination.words}; {self.row_cost:.3g} entries for a row"
        how = f"{self.values:.3g} joint values of a block listed, for each of them " if self.listed else "with each block, "
        return f"{how}{self.elimination.words}; {self.row_cost:.3g} entries for a row"


def plan_hidden(
    graph: FactorGraph,
    hidden: Array,
    mask: AbstractMask,
    masks: float,
    rows: int,
    what: str,
    help: str,
    lacking: Array | None = None,
    budget: Budget = BUDGET,
) -> HiddenPlan:
    """Return the cheaper of two plans for losses with hidden cells.

    A block is either summed out together with the hidden cells, or its joint values are enumerated.
    In the first case factors that depend on many cells through their sum may have partial sums as
    cells.

    Args:
        graph: the factor graph.
        hidden: a mask of the cells that some row lacks.
        mask: the mask of the loss. Its blocks are enumerated if its p(K) varies with rows.
        masks: the number of masks for each row.
        rows: the number of rows that are summed at once.
        what: how an error message calls the hidden cells.
        help: the suggested fix.
        lacking: a mask of the cells that every row lacks; None means the hidden cells.
        budget: the limits.

    Raises:
        GmlmError: E601 with the figures of both plans.
    """
    free, lacking = np.flatnonzero(hidden), hidden if lacking is None else lacking
    found: list[HiddenPlan] = []
    refusals: list[str] = []
    counted = with_partial_sums(graph)

    def attempt(cells: Array, how: str, values: float, listed: bool = False, whole: bool = False, of: FactorGraph = graph) -> None:
        try:
            plan = plan_elimination(of, cells, how, budget)
            factors = float(sum(g.n for g in of.groups))
            found.append(HiddenPlan(listed, plan, values, masks, factors, whole, None if of is graph else of))
        except GmlmError as error:
            refusals.append(error.diagnostics[0].message)

    def attempt_both(cells: Array, how: str, whole: bool = False) -> None:
        attempt(cells, how, 1.0, whole=whole)
        if counted is not graph:
            attempt(_with_sums(graph, counted, cells), f"with partial sums as cells, {how}", 1.0, whole=whole, of=counted)

    if is_whole(graph, mask, lacking):
        attempt_both(free, "by itself it", whole=True)
    else:
        block = plan_mask(graph, mask, True)
        if not mask.varies:
            attempt_both(np.union1d(free, mask.reach), "eliminated with the mask's cells it")
        if block.values <= budget.values:
            attempt(free, "by itself it", block.values, listed=True)
        else:
            refusals.append(
                f"the largest block, of {block.members} cells, has {block.values:.3g} joint values, more than {budget.values:.3g}"
            )
    plan = min(found, key=lambda p: p.row_cost, default=None)
    if plan is None:
        raise fail("E601", f"{what} cannot be summed out: {'; '.join(refusals)}", help=help)
    if plan.row_cost > budget.row_hidden or plan.row_cost * rows > budget.all_hidden:
        message = (
            f"summing out {what} takes {plan.row_cost:.3g} table entries for a row, {plan.row_cost * rows:.3g} for {rows:,}; the limit is "
        )
        raise fail("E601", message + f"{budget.row_hidden:.3g} for a row and {budget.all_hidden:.3g} for all", help=help)
    return plan


def plan_sum(
    graph: FactorGraph, hidden: Array, rows: int, what: str, help: str, sums: bool = True, budget: Budget = BUDGET
) -> tuple[FactorGraph, Elimination]:
    """Return an elimination of hidden cells that is affordable for `rows` rows, and its graph.

    The graph has partial sums as cells if that makes the elimination cheaper. No row has them.

    Args:
        graph: the factor graph.
        hidden: a mask of the hidden cells.
        rows: the number of rows that are summed at once.
        what: how an error message calls the hidden cells.
        help: the suggested fix.
        sums: whether the graph may have partial sums as cells.
        budget: the limits.

    Raises:
        GmlmError: E601 with the figures.
    """
    counted, cells = with_partial_sums(graph) if sums else graph, np.flatnonzero(hidden)
    found: list[tuple[float, FactorGraph, Elimination]] = []
    refusals: list[GmlmError] = []
    for of in (graph,) if counted is graph else (counted, graph):
        try:
            plan = plan_elimination(of, cells if of is graph else _with_sums(graph, of, cells), f"summing out {what}", budget, help)
            found.append((plan.flops + touching_factors(of, plan.cells), of, plan))
        except GmlmError as error:
            refusals.append(error)
    if not found:
        raise refusals[0]
    cost, of, plan = min(found, key=lambda x: x[0])
    if cost > budget.row_hidden or cost * rows > budget.all_hidden:
        raise _too_costly(what, cost, rows, budget, help)
    return of, plan


def _with_sums(graph: FactorGraph, counted: FactorGraph, cells: Array) -> Array:
    """Return cells of a graph together with the partial sums that `counted` has after its cells."""
    return np.concatenate([cells, np.arange(graph.n_cells, counted.n_cells)])


def _too_costly(what: str, cost: float, rows: int, budget: Budget, help: str) -> GmlmError:
    message = f"summing out {what} takes {cost:.3g} table entries for a row and {cost * rows:.3g} for {rows:,}"
    limits = f"the limit is {budget.row_hidden:.3g} for a row and {budget.all_hidden:.3g} for all"
    return fail("E601", f"{message}; {limits}", help=help)


def is_whole(graph: FactorGraph, mask: AbstractMask, lacking: Array) -> bool:
    """Return whether the loss of a mask is -log p(x), with log Z = 0.

    This is so if the model is a product of distributions and the only block of the mask contains
    every cell that a row contains.

    Args:
        graph: the factor graph.
        mask: the mask.
        lacking: a mask of the cells that every row lacks. A latent that a row contains is known,
            unless it is in the block.
    """
    if not graph.is_normalised or mask.varies or mask.support_size != 1:
        return False
    covered = np.array(lacking[: graph.n_random])
    cells = mask.reach
    covered[cells[cells < graph.n_random]] = True
    return bool(covered.all())
