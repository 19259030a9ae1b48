"""The error of approximate answers on small siblings of a model, whose exact answers are known.

A sibling is the model given all cells but a few. The free cells are connected, and the others are
held at values that a chain visits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .._diagnostics import GmlmError
from .._types import Clamp
from ..graph import FactorGraph
from ..plan import Budget, plan_elimination
from .limits import GAP_ROUNDING, SIBLING_CELLS

Array = np.ndarray
QUICK = Budget(bytes=2.0**26, flops=2.0**23)  # what the sums of a larger sibling may take


@dataclass(frozen=True)
class ApproximationGap:
    """How far answers of a method are from exact ones on small siblings of a model.

    A sibling has fewer and shorter cycles than the model. A large gap therefore warns of the
    method, while a small one shows only that the factors within the siblings do no harm.

    Attributes:
        kind: the name of the method.
        question: "marginals" or "map".
        cells: the names of the free cells of each sibling.
        largest: shape (siblings,). For marginals the largest |p - exact p| over cells and values;
            for modes the difference of log p from that of a most probable configuration.
        mean: shape (siblings,). The mean of |p - exact p|; for modes the same as `largest`.
    """

    kind: str
    question: str
    cells: tuple[tuple[str, ...], ...] = field(repr=False)
    largest: Array
    mean: Array

    @property
    def summary(self) -> str:
        """The gap of all siblings together, in one line."""
        siblings = f"on {len(self.cells)} siblings of at most {max(map(len, self.cells))} free cells"
        if self.question == "map":
            worse = int((self.largest > 0).sum())
            return f"{self.kind}, {siblings}: {worse} modes are missed, by log p {self.largest.max():.3g} at most"
        return f"{self.kind}, {siblings}: marginals are off by {self.mean.mean():.2g} on average, by {self.largest.max():.2g} at most"

    def __str__(self) -> str:
        return self.summary


def siblings(graph: FactorGraph, codes: Array, held: Array, cells: int | None, rng: np.random.Generator) -> Iterator[tuple[Array, Clamp]]:
    """Yield the free cells of siblings, and the values of all other cells.

    Args:
        graph: the factor graph.
        codes: a configuration for each sibling, shape (siblings, cells).
        held: booleans of the cells that the caller clamps, shape (cells,).
        cells: the largest number of free cells; None for as many as are summed quickly.
        rng: the random numbers that choose the first free cell.
    """
    starts, near = graph.neighbours
    free = np.flatnonzero(~held[: graph.n_random])
    for own in codes:
        first, closed = int(rng.choice(free)), held | (np.arange(len(held)) >= graph.n_random)
        most = SIBLING_CELLS if cells is None else cells
        open_cells = _ball(first, starts, near, closed, most)
        while cells is None and len(open_cells) == most:
            most *= 2
            wider = _ball(first, starts, near, closed, most)
            if not _is_quick(graph, wider):
                break
            open_cells = wider
        yield open_cells, _others(graph, own, open_cells)


def _is_quick(graph: FactorGraph, free: Array) -> bool:
    try:
        plan_elimination(graph, free, "a sibling", QUICK)
    except GmlmError:
        return False
    return True


def _ball(first: int, starts: Array, near: Array, closed: Array, most: int) -> Array:
    """Return at most so many cells, those with the fewest factors between them and a first cell."""
    reached, front = [first], deque([first])
    seen = closed.copy()
    seen[first] = True
    while front and len(reached) < most:
        cell = front.popleft()
        for new in near[starts[cell] : starts[cell + 1]].tolist():
            if not seen[new] and len(reached) < most:
                seen[new] = True
                reached.append(new)
                front.append(new)
    return np.sort(reached)


def _others(graph: FactorGraph, codes: Array, free: Array) -> Clamp:
    """Return the values of all random cells but the free ones, by variable."""
    open_cells = np.zeros(graph.n_cells, bool)
    open_cells[free] = True
    found = {}
    for v in graph.variables:
        own = slice(v.offset, v.offset + v.size)
        values = np.asarray(v.labels)[codes[own]].reshape(v.shape)
        if v.shape:
            found[v.name] = np.ma.masked_array(values, open_cells[own].reshape(v.shape))
        elif not open_cells[v.offset]:
            found[v.name] = values[()]
    return found


def marginal_gap(
    kind: str, graph: FactorGraph, found: Sequence[tuple[Array, Mapping[str, Array], Mapping[str, Array]]]
) -> ApproximationGap:
    """Return the gap of marginals.

    Args:
        kind: the name of the method.
        graph: the factor graph.
        found: for each sibling its free cells, the exact and the approximate marginals.
    """
    largest, mean = [], []
    for cells, exact, other in found:
        off = []
        for v in graph.variables:
            own = cells[(cells >= v.offset) & (cells < v.offset + v.size)] - v.offset
            pair = (np.asarray(a[v.name]).reshape(v.size, -1)[own] for a in (exact, other))
            off.append(np.abs(np.subtract(*pair)).ravel())
        every = np.concatenate(off)
        largest.append(every.max())
        mean.append(every.mean())
    return ApproximationGap(kind, "marginals", _named(graph, [f[0] for f in found]), np.array(largest), np.array(mean))


def mode_gap(kind: str, graph: FactorGraph, found: Sequence[tuple[Array, float, float]]) -> ApproximationGap:
    """Return the gap of modes; `found` has the free cells and both unnormalised log p.

    The exact one may be in float32, so that smaller differences than its rounding count as none.
    """
    off = np.array([best - other if best - other > GAP_ROUNDING * max(1.0, abs(best)) else 0.0 for _, best, other in found])
    return ApproximationGap(kind, "map", _named(graph, [f[0] for f in found]), off, off)


def _named(graph: FactorGraph, cells: list[Array]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(graph.cell_name(int(c)) for c in own) for own in cells)
