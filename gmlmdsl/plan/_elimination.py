"""Variable elimination: an order for summing a whole model, and what it costs, known before it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph
from ._plan import BUDGET, Budget

Array = np.ndarray
MOST_STEPS = 20_000


@dataclass(frozen=True)
class Elimination:
    """An order of all cells.

    Attributes:
        steps: for each eliminated cell, the cells of the table it is summed out of (itself among them), ascending.
        cells: the eliminated cells, in order.
        flops: table entries visited in all.
        bytes: of the largest table, at 8 bytes.
    """

    cells: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    flops: float
    bytes: float

    @property
    def words(self) -> str:
        """One line for `gmlm explain`."""
        size = f"{self.bytes / 2**20:.3g} MiB" if self.bytes >= 2**20 else f"{self.bytes / 2**10:.3g} KiB"
        return f"elimination: {len(self.cells)} cells, {self.flops:.3g} operations, largest table {size}"


def plan_elimination(graph: FactorGraph, what: str = "log Z", budget: Budget = BUDGET) -> Elimination:
    """Eliminate, each time, the cell whose table is smallest.

    Args:
        graph: the factor graph.
        what: how a refusal calls the quantity.
        budget: the limits.

    Raises:
        GmlmError: E601 with the cost of the first table that does not fit.
    """
    near = _adjacency(graph, what, budget)
    sizes = [math.log(s) for s in graph.sizes.tolist()]
    weight = {c: sizes[c] + sum(sizes[o] for o in near[c]) for c in range(graph.n_random)}
    cells, steps, flops, largest = [], [], 0.0, 0.0
    while weight:
        cell = min(weight, key=weight.__getitem__)
        table = math.exp(weight.pop(cell))
        flops, largest = flops + table, max(largest, 8 * table)
        if largest > budget.bytes or flops > budget.flops:
            _refuse(what, len(near[cell]) + 1, 8 * table, flops, budget)
        around = near.pop(cell)
        cells.append(cell)
        steps.append(tuple(sorted((cell, *around))))
        for other in around:
            near[other] |= around
            near[other] -= {cell, other}
        for other in around:
            weight[other] = sizes[other] + sum(sizes[o] for o in near[other])
    return Elimination(tuple(cells), tuple(steps), flops, largest)


def _adjacency(graph: FactorGraph, what: str, budget: Budget) -> dict[int, set[int]]:
    if graph.n_random > MOST_STEPS:
        message = f"{what} of {graph.n_random:,} cells takes {graph.n_random:,} steps, more than the limit of {MOST_STEPS:,}"
        raise fail("E601", message, help="conditionals, losses and samplers need no normaliser")
    for group in graph.groups:
        scope = np.unique(group.scope[0]) if group.n else np.zeros(0, int)
        log_table = np.log(graph.sizes[scope[scope < graph.n_cells]]).sum()
        if log_table > math.log(budget.bytes / 8):
            _refuse(what, len(scope), 8 * math.exp(min(log_table, 700)), math.exp(min(log_table, 700)), budget)
    starts, neighbours = graph.neighbours
    return {c: set(neighbours[starts[c] : starts[c + 1]].tolist()) for c in range(graph.n_random)}


def _refuse(what: str, members: int, size: float, flops: float, budget: Budget) -> None:
    message = (
        f"{what} needs a table over {members} cells: {size / 2**30:.3g} GiB and at least {flops:.3g} operations, "
        f"above the limit of {budget.bytes / 2**30:.3g} GiB and {budget.flops:.3g} operations"
    )
    raise fail("E601", message, help="conditionals, losses and samplers need no normaliser; or fix cells so that the rest falls apart")
