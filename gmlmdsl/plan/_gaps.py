"""Rows with missing cells: which cells each term of their loss sums over, and at what cost.

The term of a mask K in a row with missing cells M is -log p(x_O) + log p(x_{O - K}), O the observed cells: a sum over M and a
sum over M and K. The free cells fall apart into components, cells joined by factors inside them; a component without an observed
member of K cancels, and the others are summed one by one. So the work depends on the gaps, not on the size of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph
from ._budget import BUDGET, Budget

Array = np.ndarray
WORTH_COMPILING = 1 << 16  # joint values above which terms of a size are kept apart
Term = tuple[tuple[int, ...], tuple[int, ...]]  # the cells of a component, and those of them that are predicted


@dataclass(frozen=True)
class GapTerms:
    """Components of free cells with alike numbers of joint values, one per entry.

    Attributes:
        rows: the row of each, shape (terms,).
        cells: the component's cells ascending, padded with the number of cells, shape (members, terms).
        predicted: which of them are observed and in K, shape (members, terms).
        weights: the probability of the masks that have this term, shape (terms,).
        values: the most joint values of a component.
    """

    rows: Array
    cells: Array
    predicted: Array
    weights: Array
    values: int


@dataclass(frozen=True)
class GapPlan:
    """What summing out costs each row: `evaluations`, joint values times touching factors, an upper bound; and its most joint `values`."""

    evaluations: Array
    values: Array
    terms: tuple[dict[Term, float], ...]


def plan_gaps(graph: FactorGraph, missing: Array, masks: Sequence[tuple[Array, Array]]) -> GapPlan:
    """The terms of every row, and their cost.

    Args:
        graph: the factor graph.
        missing: which cells each row lacks, shape (cells, rows).
        masks: blocks of shape (masks, members), padded with the number of cells, and their probabilities: one pair for all rows,
            or one for each.
    """
    if len(masks) == 1:
        return _plan(graph, missing, lambda near, r, holes: _terms(near, holes, *masks[0]))
    return _plan(graph, missing, lambda near, r, holes: _terms(near, holes, *masks[r]), like=False)


def plan_completions(graph: FactorGraph, missing: Array) -> GapPlan:
    """The components of each row's missing cells, which log p sums over; arguments and result as in `plan_gaps`."""
    return _plan(graph, missing, lambda near, r, holes: {(cells, ()): 1.0 for cells, _ in _split(near, holes, set())})


def _plan(
    graph: FactorGraph, missing: Array, terms_of: Callable[[_Neighbours, int, set[int]], dict[Term, float]], like: bool = True
) -> GapPlan:
    """The terms and costs of every row; where `like`, rows with the same gaps have the same terms, found once."""
    near = _Neighbours(graph)
    known: dict[bytes, tuple[dict[Term, float], float, float]] = {}
    found = []
    for r in range(missing.shape[1]):
        key = missing[:, r].tobytes()
        if not like or key not in known:
            terms = terms_of(near, r, set(np.flatnonzero(missing[:, r]).tolist()))
            known[key] = (terms, *_cost(graph, terms))
        found.append(known[key])
    return GapPlan(np.array([c for _, c, _ in found]), np.array([v for _, _, v in found]), tuple(t for t, _, _ in found))


def verify_gaps(plan: GapPlan, rows: Array, help: str, budget: Budget = BUDGET, what: str = "the missing cells") -> None:
    """Refuse what is above the budget; `rows` are the rows' numbers, `what` is summed out.

    Raises:
        GmlmError: E601 with the figures of the costliest row.
    """
    if affordable_rows(plan, budget).all():
        return
    worst = int(np.argmax(plan.evaluations))
    message = (
        f"summing out {what} of row {int(rows[worst])} takes {plan.values[worst]:.3g} joint values and "
        f"up to {plan.evaluations[worst]:.3g} factor evaluations (all rows: {plan.evaluations.sum():.3g}); the limit is "
        f"{budget.row_gaps:.3g} for a row and {budget.all_gaps:.3g} for all"
    )
    raise fail("E601", message, help=help)


def affordable_rows(plan: GapPlan, budget: Budget = BUDGET) -> Array:
    """Which rows are summed out: the cheapest first, as long as the budget lasts."""
    order = np.argsort(plan.evaluations, kind="stable")
    within = np.zeros(len(order), bool)
    within[order] = np.cumsum(plan.evaluations[order]) <= budget.all_gaps
    return within & (plan.evaluations <= budget.row_gaps)


def gap_terms(graph: FactorGraph, plan: GapPlan, rows: Iterable[int]) -> tuple[GapTerms, ...]:
    """The terms of some rows, alike in size together; `rows` of the result count through those given."""
    sizes: dict[int, list[tuple[int, Term, float]]] = {}
    for place, r in enumerate(rows):
        for term, weight in plan.terms[r].items():
            size = math.ceil(math.log(_values(graph, term), 4) - 1e-9)
            sizes.setdefault(size, []).append((place, term, weight))
    out, waiting = [], []
    for size in sorted(sizes):
        # Each size is compiled on its own: few small terms are cheaper among larger ones.
        if waiting and len(waiting) * 4.0**size > WORTH_COMPILING:
            out.append(_padded(graph, waiting))
            waiting = []
        waiting = waiting + sizes[size]
    return tuple([*out, _padded(graph, waiting)] if waiting else out)


def _padded(graph: FactorGraph, found: list[tuple[int, Term, float]]) -> GapTerms:
    members = max(len(cells) for _, (cells, _), _ in found)
    cells = np.full((members, len(found)), graph.n_cells, np.int32)
    predicted = np.zeros((members, len(found)), bool)
    for k, (_, (inside, chosen), _) in enumerate(found):
        cells[: len(inside), k] = inside
        predicted[: len(inside), k] = np.isin(inside, chosen)
    rows, weights = np.array([r for r, _, _ in found], np.int32), np.array([w for _, _, w in found])
    return GapTerms(rows, cells, predicted, weights, int(max(_values(graph, term) for _, term, _ in found)))


class _Neighbours:
    """Cells that share a factor with a cell, as sets."""

    def __init__(self, graph: FactorGraph):
        self.graph = graph
        self._sets: dict[int, set[int]] = {}

    def of(self, cell: int) -> set[int]:
        if cell not in self._sets:
            starts, cells = self.graph.neighbours
            self._sets[cell] = set(cells[starts[cell] : starts[cell + 1]].tolist())
        return self._sets[cell]

    def component(self, seeds: set[int], free: set[int]) -> tuple[int, ...]:
        """What is reached from the seeds through free cells."""
        reached, front = set(seeds), list(seeds)
        while front:
            for new in (self.of(front.pop()) & free) - reached:
                reached.add(new)
                front.append(new)
        return tuple(sorted(reached))


def _terms(near: _Neighbours, holes: set[int], masks: Array, shares: Array) -> dict[Term, float]:
    """The terms of one pattern of gaps; equal ones of several masks are one, their probabilities added."""
    out: dict[Term, float] = {}
    found: dict[tuple[int, ...], list[Term]] = {}
    n = near.graph.n_cells
    for block, share in zip(masks.tolist(), shares.tolist(), strict=True):
        predicted = tuple(c for c in block if c < n and c not in holes)
        if predicted not in found:
            found[predicted] = _split(near, set(predicted), holes)
        for term in found[predicted]:
            out[term] = out.get(term, 0.0) + share
    return {t: w for t, w in out.items() if w > 0}


def _split(near: _Neighbours, predicted: set[int], holes: set[int]) -> list[Term]:
    """The components of predicted and missing cells that hold a predicted one."""
    out, left, free = [], set(predicted), predicted | holes
    while left:
        cells = near.component({min(left)}, free)
        out.append((cells, tuple(sorted(left.intersection(cells)))))
        left.difference_update(cells)
    return out


def _cost(graph: FactorGraph, terms: dict[Term, float]) -> tuple[float, float]:
    """Joint values times touching factors of all terms, and the joint values of the largest."""
    cost = most = 0.0
    for term in terms:
        values = _values(graph, term)
        touching = sum(int(starts[c + 1] - starts[c]) for starts, _ in graph.incidences for c in term[0])
        cost, most = cost + values * max(1, touching), max(most, values)
    return cost, most


def _values(graph: FactorGraph, term: Term) -> float:
    return math.prod(graph.sizes[list(term[0])].astype(float).tolist())
