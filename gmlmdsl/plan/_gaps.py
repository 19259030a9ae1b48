"""Rows with missing cells: the cells that each term of their loss sums over, and its cost.

Let M be the missing and O the observed cells of a row. The term of a mask K is -log p(x_O) + log
p(x_{O - K}): a sum over M and a sum over M and K. The free cells split into components, which are
sets of free cells joined by factors. A component without an observed member of K cancels, and the
others are summed one by one. The work therefore depends on the missing cells, not on the size of
the model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph
from .limits import BUDGET, MOST_CLASSES, WORTH_COMPILING, Budget

Array = np.ndarray
Shape = tuple[int, ...]  # A shape lists the numbers of values of a component's cells, descending.
# A term consists of the cells of a component, and those of them that are predicted.
Term = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class GapTerms:
    """Components of free cells of similar shape, one per term.

    Attributes:
        rows: the row of each term, shape (terms,).
        cells: the component's cells, those with more values first, padded with the number of cells,
            shape (members, terms).
        predicted: a mask of the cells that are observed and in K, shape (members, terms).
        weights: the probability of the masks that have this term, shape (terms,).
        radix: the largest number of values of each member.
    """

    rows: Array
    cells: Array
    predicted: Array
    weights: Array
    radix: Shape

    @property
    def values(self) -> int:
        """The number of joint values that are enumerated for each term."""
        return math.prod(self.radix)


@dataclass(frozen=True)
class GapPlan:
    """The cost of summing out the missing cells of each row.

    Attributes:
        evaluations: for each row the joint values, plus the values of the factors that touch them.
        values: for each row the joint values of its largest term.
        terms: the terms of each row with their weights.
    """

    evaluations: Array
    values: Array
    terms: tuple[dict[Term, float], ...]


def plan_gaps(graph: FactorGraph, missing: Array, masks: Sequence[tuple[Array, Array]]) -> GapPlan:
    """Return the terms of every row, and their cost.

    Args:
        graph: the factor graph.
        missing: a mask of the missing cells of each row, shape (cells, rows).
        masks: blocks of shape (masks, members), padded with the number of cells, and their
            probabilities: one pair for all rows, or one for each row.
    """
    if len(masks) == 1:
        return _plan(graph, missing, lambda near, r, holes: _terms(near, holes, *masks[0]))
    return _plan(graph, missing, lambda near, r, holes: _terms(near, holes, *masks[r]), like=False)


def plan_completions(graph: FactorGraph, missing: Array) -> GapPlan:
    """Return the components of each row's missing cells, over which log p sums.

    Arguments and result are as in `plan_gaps`.
    """
    return _plan(graph, missing, lambda near, r, holes: {(cells, ()): 1.0 for cells, _ in _split(near, holes, set())})


def _plan(
    graph: FactorGraph, missing: Array, terms_of: Callable[[_Neighbours, int, set[int]], dict[Term, float]], like: bool = True
) -> GapPlan:
    """Return the terms and costs of every row.

    If `like` is True, rows with the same missing cells have the same terms, which are computed
    once.
    """
    near = _Neighbours(graph)
    known: dict[bytes, tuple[dict[Term, float], float, float]] = {}
    found = []
    for r in range(missing.shape[1]):
        key = missing[:, r].tobytes()
        if not like or key not in known:
            terms = terms_of(near, r, set(np.flatnonzero(missing[:, r]).tolist()))
            known[key] = (terms, *near.cost(terms))
        found.append(known[key])
    return GapPlan(np.array([c for _, c, _ in found]), np.array([v for _, _, v in found]), tuple(t for t, _, _ in found))


def verify_gaps(plan: GapPlan, rows: Array, help: str, budget: Budget = BUDGET, what: str = "the missing cells") -> None:
    """Raise if a plan is above the budget.

    Args:
        plan: the plan.
        rows: the numbers of the rows.
        help: the suggested fix.
        budget: the limits.
        what: the cells that are summed out, in words.

    Raises:
        GmlmError: E601 with the figures of the costliest row.
    """
    if affordable_rows(plan, budget).all():
        return
    worst = int(np.argmax(plan.evaluations))
    message = (
        f"summing out {what} of row {int(rows[worst])} takes {plan.values[worst]:.3g} joint values at once and "
        f"{plan.evaluations[worst]:.3g} evaluations under all masks (all rows: {plan.evaluations.sum():.3g}); the limit is "
        f"{budget.row_gaps:.3g} for a row and {budget.all_gaps:.3g} for all"
    )
    raise fail("E601", message, help=help)


def affordable_rows(plan: GapPlan, budget: Budget = BUDGET) -> Array:
    """Return a mask of the rows that are summed out: the cheapest first, within the budget."""
    order = np.argsort(plan.evaluations, kind="stable")
    within = np.zeros(len(order), bool)
    within[order] = np.cumsum(plan.evaluations[order]) <= budget.all_gaps
    return within & (plan.evaluations <= budget.row_gaps)


def gap_terms(graph: FactorGraph, plan: GapPlan, rows: Iterable[int]) -> tuple[GapTerms, ...]:
    """Return the terms of some rows, grouped by similar shape.

    The `rows` of the result are numbers within the rows given.
    """
    sizes = graph.sizes.tolist()
    found: dict[Shape, list[tuple[int, list[int], tuple[int, ...], float]]] = {}
    for place, r in enumerate(rows):
        for (inside, predicted), weight in plan.terms[r].items():
            # A cell with one value is known.
            cells = sorted((c for c in inside if sizes[c] > 1), key=lambda c: (-sizes[c], c))
            if cells:
                found.setdefault(tuple(sizes[c] for c in cells), []).append((place, cells, predicted, weight))
    counts = {shape: len(terms) for shape, terms in found.items()}
    return tuple(
        _padded(graph.n_cells, [t for shape in some for t in found[shape]], _joined(some)) for some in _classes(counts, WORTH_COMPILING)
    )


def _padded(n_cells: int, terms: list[tuple[int, list[int], tuple[int, ...], float]], radix: Shape) -> GapTerms:
    cells = np.full((len(radix), len(terms)), n_cells, np.int32)
    predicted = np.zeros(cells.shape, bool)
    for k, (_, inside, chosen, _) in enumerate(terms):
        cells[: len(inside), k] = inside
        predicted[: len(inside), k] = np.isin(inside, chosen)
    return GapTerms(np.array([t[0] for t in terms], np.int32), cells, predicted, np.array([t[3] for t in terms]), radix)


def _classes(counts: dict[Shape, int], each: float) -> list[list[Shape]]:
    """Group shapes, in ascending order, into classes with the fewest joint values after padding.

    Each class adds the cost `each` to the number that is minimised.
    """
    shapes = sorted(counts, key=lambda s: (math.prod(s), s))
    best, first = [0.0], [0]
    for end in range(1, len(shapes) + 1):
        joined, terms, options = (), 0, []
        for start in range(end - 1, -1, -1):
            joined, terms = _joined([joined, shapes[start]]), terms + counts[shapes[start]]
            options.append((best[start] + each + float(terms) * math.prod(joined), start))
        best.append(min(options)[0])
        first.append(min(options)[1])
    out, end = [], len(shapes)
    while end:
        out.append(shapes[first[end] : end])
        end = first[end]
    return out[::-1] if len(out) <= MOST_CLASSES else _classes(counts, 4 * each)


def _joined(shapes: Sequence[Shape]) -> Shape:
    """Return the smallest shape that contains each of some shapes."""
    return tuple(max(sizes) for sizes in itertools.zip_longest(*shapes, fillvalue=1))


class _Neighbours:
    """The neighbours of each cell, as sets: the cells that share a factor with it."""

    def __init__(self, graph: FactorGraph):
        self.graph = graph
        self._sets: dict[int, set[int]] = {}
        self._values = graph.sizes.astype(float)
        self._touching = self._values * sum((np.diff(starts) for starts, _ in graph.incidences), np.zeros(graph.n_cells))

    def cost(self, terms: Iterable[Term]) -> tuple[float, float]:
        """Return the cost of all terms, and the number of joint values of the largest one.

        The cost is the number of joint values plus that of values of the factors that touch them.
        """
        total = most = 0.0
        for cells, _ in terms:
            values = math.prod(self._values[list(cells)].tolist())
            total, most = total + values + float(self._touching[list(cells)].sum()), max(most, values)
        return total, most

    def neighbours(self, cell: int) -> set[int]:
        if cell not in self._sets:
            starts, cells = self.graph.neighbours
            self._sets[cell] = set(cells[starts[cell] : starts[cell + 1]].tolist())
        return self._sets[cell]

    def component(self, seeds: set[int], free: set[int]) -> tuple[int, ...]:
        """Return the cells that can be reached from the seeds through free cells."""
        reached, front = set(seeds), list(seeds)
        while front:
            for new in (self.neighbours(front.pop()) & free) - reached:
                reached.add(new)
                front.append(new)
        return tuple(sorted(reached))


def _terms(near: _Neighbours, holes: set[int], masks: Array, shares: Array) -> dict[Term, float]:
    """Return the terms of one pattern of missing cells.

    Equal terms of several masks are one term, whose weight is the sum of their probabilities.
    """
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
    """Return the components of predicted and missing cells that contain a predicted cell."""
    out, left, free = [], set(predicted), predicted | holes
    while left:
        cells = near.component({min(left)}, free)
        out.append((cells, tuple(sorted(left.intersection(cells)))))
        left.difference_update(cells)
    return out
