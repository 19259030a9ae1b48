"""Rows that lack cells, latents above all: how their losses are summed by elimination, and at what cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._diagnostics import GmlmError, fail
from ..graph import FactorGraph
from ..masks import AbstractMask
from ._budget import BUDGET, Budget
from ._elimination import Elimination, plan_elimination
from ._plan import touching_factors
from ._updates import plan_mask

Array = np.ndarray


@dataclass(frozen=True)
class HiddenPlan:
    """How -log p(x_K | x_rest) is summed where cells are hidden.

    Attributes:
        listed: whether the joint values of K are listed and what is hidden is summed out for each;
            else K is summed out with it.
        elimination: of the hidden cells, and of those that masks reach where K is not listed.
        values: the joint values that are listed for each mask, 1 where none are.
        masks: how many for each row.
        factors: evaluations of factors for one sum.
        whole: whether the mask takes all that is observed of a product of distributions: then -log
            p(x) is the one sum, over what is hidden.
    """

    listed: bool
    elimination: Elimination
    values: float
    masks: float
    factors: float
    whole: bool = False

    @property
    def entries(self) -> float:
        """Entries of tables, and factors, for one mask of one row: what memory it takes is in proportion."""
        return self.values * (self.elimination.flops + self.factors)

    @property
    def row_cost(self) -> float:
        """The same for all masks of a row."""
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
    """The cheaper of two ways: to sum each block out with the hidden cells, or to list its values.

    Args:
        graph: the factor graph.
        hidden: the cells that some row lacks, as booleans.
        mask: the mask of the loss. One whose p(K) varies with rows has its blocks listed.
        masks: how many for each row.
        rows: how many rows are summed at once.
        what: how a refusal calls the hidden cells.
        help: what it advises.
        lacking: the cells that every row lacks; None: those that are hidden.
        budget: the limits.

    Raises:
        GmlmError: E601 with the figures of both.
    """
    free, lacking = np.flatnonzero(hidden), hidden if lacking is None else lacking
    found: list[HiddenPlan] = []
    refusals: list[str] = []
    factors = float(sum(g.n for g in graph.groups))

    def attempt(cells: Array, how: str, values: float, listed: bool = False, whole: bool = False) -> None:
        try:
            found.append(HiddenPlan(listed, plan_elimination(graph, cells, how, budget), values, masks, factors, whole))
        except GmlmError as error:
            refusals.append(error.diagnostics[0].message)

    if is_whole(graph, mask, lacking):
        attempt(free, "by itself it", 1.0, whole=True)
    else:
        block = plan_mask(graph, mask, True)
        if not mask.varies:
            attempt(np.union1d(free, mask.reach), "eliminated with the mask's cells it", 1.0)
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


def plan_sum(graph: FactorGraph, hidden: Array, rows: int, what: str, help: str, budget: Budget = BUDGET) -> Elimination:
    """An elimination of hidden cells that is affordable for as many rows.

    Raises:
        GmlmError: E601 with the figures.
    """
    plan = plan_elimination(graph, np.flatnonzero(hidden), f"summing out {what}", budget, help)
    cost = plan.flops + touching_factors(graph, plan.cells)
    if cost > budget.row_hidden or cost * rows > budget.all_hidden:
        raise _too_costly(what, cost, rows, budget, help)
    return plan


def _too_costly(what: str, cost: float, rows: int, budget: Budget, help: str) -> GmlmError:
    message = f"summing out {what} takes {cost:.3g} table entries for a row and {cost * rows:.3g} for {rows:,}"
    limits = f"the limit is {budget.row_hidden:.3g} for a row and {budget.all_hidden:.3g} for all"
    return fail("E601", f"{message}; {limits}", help=help)


def is_whole(graph: FactorGraph, mask: AbstractMask, lacking: Array) -> bool:
    """Whether the mask's one block has every cell of a product of distributions that a row holds: its loss is -log p(x), and log Z is 0.

    Args:
        graph: the factor graph.
        mask: the mask.
        lacking: the cells that every row lacks, as booleans: a latent that a row holds is given,
            where it is not in the block.
    """
    if not graph.is_normalised or mask.varies or mask.support_size != 1:
        return False
    covered = np.array(lacking[: graph.n_random])
    cells = mask.reach
    covered[cells[cells < graph.n_random]] = True
    return bool(covered.all())
