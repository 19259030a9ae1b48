"""Plans for reading a string from its first cell to its last: the state of a prefix, and its cost.

Other cells (latents) enter at the step of the first string cell with which they share a factor.
They leave when no later factor mentions them. The state of a prefix covers the cells that later
factors mention. The string cells among them are known, and the state contains their joint value.
The other ones are summed out, and the state contains a weight for each of their joint values. This
is a weighted automaton. Chains, n-grams and hidden Markov models are small ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._diagnostics import GmlmError, fail
from ..graph import FactorGraph, joint_count
from ._block_tables import place_values
from ._elimination import Elimination, plan_elimination
from ._stages import listed_by, side_by_side
from .limits import BUDGET, Budget

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class PrefixPlan:
    """The steps through a string of n cells of q values, padded to one shape.

    Attributes:
        members: the cells whose joint values step t enumerates, shape (n, members), padded with the
            number of cells: remembered string cells, the string cell of the step, other remembered
            cells, entering cells.
        radix: their numbers of values, 1 for padding.
        strides: their place values in a joint value, the last member fastest.
        touch: for each group of factors, the instances that step t evaluates, -1 for padding, shape
            (n, width). Each instance is evaluated at the step of its last cell.
        places: the place of the weight of each joint value, shape (n, joint values): (known,
            symbol, from, to) in the step's table.
        follow: the known part after each symbol, shape (n, known, q).
        known: the largest number of joint values of remembered string cells.
        hidden: the largest number of joint values of other remembered cells.
        values: q.
    """

    members: Array
    radix: Array
    strides: Array
    touch: tuple[Array, ...]
    places: Array
    follow: Array
    known: int
    hidden: int
    values: int

    @property
    def entries(self) -> float:
        """The number of entries of the tables of all steps."""
        return float(len(self.follow)) * self.known * self.values * self.hidden**2

    @property
    def words(self) -> str:
        """One line for `gmlm explain`."""
        states = f"{self.known:,} known and {self.hidden:,} summed states"
        return f"{len(self.follow):,} steps, {states} of a prefix, {8 * self.entries / 2**20:.3g} MiB"


def plan_prefixes(graph: FactorGraph, what: str = "the distribution of the next symbol", budget: Budget = BUDGET) -> PrefixPlan:
    """Return the steps through the cells of the model's only `var`, in their order.

    Args:
        graph: the factor graph.
        what: how an error message calls the quantity.
        budget: the limits.

    Raises:
        GmlmError: E601 with the cost, before any work.
    """
    string = graph.observed[0]
    steps = _steps_of(graph, np.arange(string.offset, string.offset + string.size))
    at = _factor_steps(graph, steps)
    last = _last_needed(graph, steps, at)
    parts = [_members(graph, steps, last, t, string.offset) for t in range(string.size)]
    _verify_cost(graph, parts, what, budget)
    return _padded(graph, parts, [listed_by(a, np.arange(len(a)), string.size) for a in at])


def plan_instead(graph: FactorGraph, dear: GmlmError) -> Elimination:
    """Return an elimination of all cells, for a model whose prefixes are too costly to remember.

    Args:
        graph: the factor graph.
        dear: the error that reports this cost.

    Raises:
        GmlmError: `dear` if the elimination is too costly as well.
    """
    try:
        return plan_elimination(graph, None, "the distribution of the next symbol")
    except GmlmError:
        raise dear from None


def _steps_of(graph: FactorGraph, string: Array) -> Array:
    """Return the step at which each cell enters."""
    n, never = graph.n_random, len(string)
    steps = np.full(graph.n_cells, never)
    steps[string] = np.arange(len(string))
    starts, near = graph.neighbours
    first = np.repeat(np.arange(graph.n_cells), np.diff(starts))
    waiting = steps[:n] == never
    while waiting.any():
        least = np.full(graph.n_cells, never)
        np.minimum.at(least, first, steps[near])
        found = waiting & (least[:n] < never)
        if not found.any():
            break
        steps[:n][found] = least[:n][found]
        waiting &= ~found
    # Such a cell shares no factor with the string, not even through others.
    steps[steps == never] = 0
    return steps


def _factor_steps(graph: FactorGraph, steps: Array) -> list[Array]:
    """Return the step of the last cell of each instance of each group."""
    wide = np.append(steps, 0)
    return [wide[np.minimum(g.scope, graph.n_cells)].max(axis=1, initial=0) if g.n else np.zeros(0, int) for g in graph.groups]


def _last_needed(graph: FactorGraph, steps: Array, at: list[Array]) -> Array:
    last = np.append(steps, 0)
    for group, step in zip(graph.groups, at, strict=True):
        scope = np.minimum(group.scope, graph.n_cells)
        np.maximum.at(last, scope, np.repeat(step[:, None], scope.shape[1], axis=1))
    return last[: graph.n_cells]


@dataclass(frozen=True)
class _Step:
    """The cells of a step.

    Attributes:
        known: string cells that are remembered.
        symbol: the string cell of the step.
        hidden: other cells that are remembered.
        entering: other cells that enter.
        known_after: string cells that are remembered after the step.
        hidden_after: other cells that are remembered after the step.
    """

    known: Array
    symbol: int
    hidden: Array
    entering: Array
    known_after: Array
    hidden_after: Array


def _members(graph: FactorGraph, steps: Array, last: Array, t: int, offset: int) -> _Step:
    cells = np.arange(graph.n_random)
    own, steps, last = graph.is_observed[: graph.n_random], steps[: graph.n_random], last[: graph.n_random]
    before, after = (steps < t) & (last >= t), (steps <= t) & (last > t)
    entering = (steps == t) & ~own
    return _Step(cells[before & own], offset + t, cells[before & ~own], cells[entering], cells[after & own], cells[after & ~own])


def _count(graph: FactorGraph, cells: Array) -> float:
    return joint_count(graph.sizes[cells])


def _verify_cost(graph: FactorGraph, parts: list[_Step], what: str, budget: Budget) -> None:
    known = max(max(_count(graph, p.known), _count(graph, p.known_after)) for p in parts)
    hidden = max(max(_count(graph, p.hidden), _count(graph, p.hidden_after)) for p in parts)
    listed = max(_count(graph, np.concatenate([p.known, [p.symbol], p.hidden, p.entering]).astype(int)) for p in parts)
    q = _count(graph, np.array([parts[0].symbol]))
    size = 8.0 * len(parts) * max(known * q * hidden**2, listed)
    if size > budget.bytes:
        message = f"{what} remembers {known:.3g} known and {hidden:.3g} summed states of a prefix: {size / 2**30:.3g} GiB of tables"
        help = "factors that reach back over fewer cells of the string, or latents of fewer values"
        raise fail("E601", f"{message}, above the limit of {budget.bytes / 2**30:.3g} GiB", help=help)


def _padded(graph: FactorGraph, parts: list[_Step], touch: list[Array]) -> PrefixPlan:
    rows = [np.concatenate([p.known, [p.symbol], p.hidden, p.entering]).astype(int) for p in parts]
    members = side_by_side(rows, graph.n_cells)
    radix = np.append(graph.sizes, 1)[members].astype(np.int64)
    q = int(graph.sizes[parts[0].symbol])
    known = int(max(max(_count(graph, p.known), _count(graph, p.known_after)) for p in parts))
    hidden = int(max(max(_count(graph, p.hidden), _count(graph, p.hidden_after)) for p in parts))
    listed = int(radix.prod(axis=1).max())
    places = np.full((len(parts), listed), known * q * hidden * hidden)
    follow = np.zeros((len(parts), known, q), np.int64)
    for t, p in enumerate(parts):
        codes = _codes(rows[t], graph.sizes)
        start, symbol, goal = _index(p.known, codes, graph), codes[p.symbol], _index(p.known_after, codes, graph)
        source, sink = _index(p.hidden, codes, graph), _index(p.hidden_after, codes, graph)
        places[t, : len(start)] = ((start * q + symbol) * hidden + source) * hidden + sink
        follow[t, start, symbol] = goal
    return PrefixPlan(members, radix, place_values(radix), tuple(touch), places, follow, known, hidden, q)


def _codes(cells: Array, sizes: Array) -> dict[int, Array]:
    """Return the code of each cell under every joint value, the last cell fastest."""
    shape = tuple(int(n) for n in sizes[cells])
    grids = np.unravel_index(np.arange(int(np.prod(shape))), shape)
    return {int(c): g for c, g in zip(cells, grids, strict=True)}


def _index(cells: Array, codes: dict[int, Array], graph: FactorGraph) -> Array:
    """Return the number of the joint value of some of the cells, under every joint value."""
    count = len(next(iter(codes.values())))
    found = np.zeros(count, np.int64)
    for c in cells.tolist():
        found = found * int(graph.sizes[c]) + codes[c]
    return found
