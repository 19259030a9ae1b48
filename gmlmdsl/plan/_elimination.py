"""Variable elimination: an order in which cells are summed out or drawn, and its cost.

The cost is known before the work starts. One order serves sums, maxima and draws. Chains and trees
are the orders whose tables have two cells; on a chain, elimination is forward filtering and
backward sampling.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._diagnostics import GmlmError, fail
from ..graph import FactorGraph, SumLink
from ..graph import neighbours as neighbours_of
from ._stages import Stage, in_turn, plan_stages
from .limits import (
    BUDGET,
    CHEAPER_SHARE,
    DEAR_OPERATIONS,
    FEW_KINDS,
    FEW_LOOP_ENTRIES,
    MOST_COMPARED_CELLS,
    MOST_CORE,
    MOST_FILLED,
    MOST_LOOP_ENTRIES,
    MOST_PADDED,
    MOST_STAGE_KINDS,
    WORTH_FEWER_LEVELS,
    Budget,
)

Array = np.ndarray
ADVICE = (
    '`annealed_log_partition` estimates log Z; `marginals(.., method="belief-propagation")` and `map(.., method="anneal")` '
    "approximate; or hold some cells fixed with `clamp=`, so that those left have fewer neighbours; conditionals, losses and samplers "
    "need no log Z"
)


@dataclass(frozen=True, eq=False)
class Elimination:
    """An order of the free cells that have more than one value.

    Steps are sorted by level. Steps of one level do not depend on one another.

    Attributes:
        n_cells: the number of cells of the graph, which pads `scopes`.
        scopes: the cells of each step's table, shape (steps, width): the eliminated cell, then the
            others in the order in which they are eliminated. The step's message is a table over the
            others. It is sent to the step of the second cell.
        parents: the step that receives the message of each step; -1 if the table has one cell, at
            the end of a component.
        levels: the level of each step, 0 for steps that depend on no other.
        components: the component of each step, numbered by their lowest cell. A component is a set
            of free cells joined by factors.
        radix: the number of values of each cell of `scopes`, 1 for padding.
        may_loop: whether one loop may serve all steps. It may not if cells differ so much in size
            that its tables would be mostly padding, or if there are links.
        links: for each step, the link by which a partial sum follows from the cells of its table,
            or None; empty if there is no link. That partial sum has no step and no axis: a message
            over it is read at the values that follow.
    """

    n_cells: int
    scopes: Array
    parents: Array
    levels: Array
    components: Array
    radix: Array
    may_loop: bool = True
    links: tuple[SumLink | None, ...] = ()

    @property
    def cells(self) -> Array:
        """The eliminated cells, in order."""
        return self.scopes[:, 0]

    @property
    def n_components(self) -> int:
        """The number of components."""
        return int(self.components.max(initial=-1)) + 1

    @property
    def arity(self) -> Array:
        """The number of cells of each table."""
        return (self.scopes < self.n_cells).sum(axis=1)

    @cached_property
    def step_of(self) -> Array:
        """The step of each cell, or of the table that a partial sum follows in; the number of steps for others."""
        found = np.full(self.n_cells + 1, len(self.parents))
        found[self.cells] = np.arange(len(self.parents))
        for step, link in enumerate(self.links):
            if link is not None:
                found[link.cell] = step
        return found

    @cached_property
    def entries(self) -> Array:
        """The number of entries of each step's table, as floats."""
        return np.prod(self.radix.astype(float), axis=1)

    @property
    def flops(self) -> float:
        """The number of table entries visited, for one row."""
        return float(self.entries.sum())

    @property
    def largest(self) -> float:
        """The number of entries of the largest table."""
        return float(self.entries.max(initial=0.0))

    @property
    def method(self) -> str:
        """The structure of the order: product, chain, tree or elimination."""
        if len(self.parents) == 0 or (self.parents < 0).all():
            return "product"
        if self.scopes.shape[1] > 2:
            return "elimination"
        children = np.bincount(self.parents[self.parents >= 0], minlength=len(self.parents))
        return "chain" if (children + (self.parents >= 0)).max() <= 2 else "tree"

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The steps as arrays of tables of one shape; a single stage if `is_looped`."""
        return (in_turn(self._stages, self.radix),) if self.is_looped else self._stages

    @property
    def is_looped(self) -> bool:
        """Whether one loop over blocks of table entries serves all steps; see `plan_loop`.

        Such a loop does not depend on how much the tables differ.
        """
        if not self.may_loop or not 0 < self.flops <= MOST_LOOP_ENTRIES:
            return False
        # This is the number of arrays, of which a chain of equal cells has two.
        kinds = sum(1 + len(s.feeds) for s in self._stages)
        return kinds > (FEW_KINDS if self.flops <= FEW_LOOP_ENTRIES else MOST_STAGE_KINDS)

    @cached_property
    def _stages(self) -> tuple[Stage, ...]:
        return plan_stages(self.scopes, self.radix, self.parents, self.levels, self.n_cells, self.links)

    @property
    def words(self) -> str:
        """One line for `gmlm explain`."""
        depth = int(self.levels.max(initial=-1)) + 1
        size = 8 * self.largest
        table = f"{size / 2**20:.3g} MiB" if size >= 2**20 else f"{size / 2**10:.3g} KiB"
        where = f" in {self.n_components:,} parts" if self.n_components > 1 else ""
        cells, levels = (f"{n:,} {what}{'s' * (n != 1)}" for n, what in ((len(self.parents), "cell"), (depth, "level")))
        return f"{self.method}: {cells}{where}, {levels}, {self.flops:.3g} operations, largest table {table}"


def plan_elimination(
    graph: FactorGraph, free: Array | None = None, what: str = "log Z", budget: Budget = BUDGET, help: str = ""
) -> Elimination:
    """Return an elimination order.

    Cells with at most one neighbour are eliminated first, as long as there are any. After them,
    each step eliminates the cell with the smallest table.

    Args:
        graph: the factor graph.
        free: the cells to eliminate; the others are known. None means all cells. Cells that are
            `linked` are eliminated even if they are known.
        what: how an error message calls the quantity.
        budget: the limits.
        help: the suggested fix of an error.

    Raises:
        GmlmError: E601 with the cost of the first table that does not fit.
    """
    free = np.arange(graph.n_cells) if free is None else np.unique(np.asarray(free, np.int64))
    free = np.union1d(free, np.flatnonzero(graph.linked)) if graph.links else free
    free = free[graph.sizes[free] > 1]  # A cell with one value is known.
    _verify_scopes(graph, free, what, budget, help)
    found: list[_Search] = []
    faults: list[GmlmError] = []

    def tried(eliminate: Callable[[_Search], None]) -> int:
        search = _Search(graph, free, what, budget, help)
        search.strip_leaves()
        core = search.done.count(False)
        try:
            eliminate(search)
            found.append(search)
        except GmlmError as error:
            faults.append(error)
        return core

    core = tried(lambda s: s.eliminate_core(shallow=True))
    if 0 < core <= MOST_COMPARED_CELLS:
        tried(lambda s: s.eliminate_core(shallow=False))
    # Fewer levels justify more work, because all steps of one level run at once.
    shallow = found and found[0].flops <= WORTH_FEWER_LEVELS * found[-1].flops
    greedy = found[0 if shallow else -1] if found else None
    dear = None if found else faults[-1]
    if core <= MOST_CORE and not graph.links and (greedy is None or greedy.flops > DEAR_OPERATIONS):
        tried(lambda s: s.eliminate_listed(s.banded()))
        if core <= MOST_COMPARED_CELLS and int((np.diff(graph.neighbours[0]) ** 2).sum()) <= MOST_FILLED:
            tried(lambda s: s.eliminate_least_filled())
    if dear is not None and not found:
        raise dear
    best = min(found, key=lambda s: s.flops)
    return (best if greedy is None or best.flops <= CHEAPER_SHARE * greedy.flops else greedy).result()


class _Search:
    """The search for an order; cells are numbered within the free cells."""

    def __init__(self, graph: FactorGraph, free: Array, what: str, budget: Budget, help: str):
        self.graph, self.free, self.what, self.budget, self.help = graph, free, what, budget, help
        self.starts, self.near = _adjacency(graph, free)
        self.sizes = graph.sizes[free].tolist()
        self.order: list[int] = []
        self.others: list[tuple[int, ...]] = []  # These are the other cells of each table.
        self.done = [False] * len(free)
        self.level = [0] * len(free)
        self.flops, self.largest = 0.0, 0.0
        local = np.full(graph.n_cells, -1, np.int64)
        local[free] = np.arange(len(free))
        self.links = {int(local[k.cells[0]]): k for k in graph.links}  # by the cell whose step uses the link
        self.sums = {cell: int(local[k.cell]) for cell, k in self.links.items()}
        self.follows = {sum_: cell for cell, sum_ in self.sums.items()}
        self.open = [0] * len(free)  # the number of links of each cell that no step has used yet
        for k in graph.links:
            for cell in (k.cell, *k.cells):
                self.open[local[cell]] += 1
        joined = neighbours_of((g.scope for g in graph.groups), graph.n_cells) if graph.links else (np.zeros(0, np.int64), self.near)
        # the cells that share a factor with a partial sum that follows
        self.before = {c: local[joined[1][slice(*joined[0][[free[c], free[c] + 1]])]].tolist() for c in self.follows}

    def follower(self, cell: int) -> int | None:
        """Return the partial sum that follows in the step of a cell, if its link is still to be used."""
        return self.sums.get(cell) if self.open[cell] else None

    def is_ready(self, cell: int) -> bool:
        """Return whether a cell may be eliminated next.

        The cells of a link wait until the link is used. It is used by the step of its first cell,
        after all other links of this cell and of the partial sum that follows. No factor of that
        partial sum may be left.
        """
        if not self.open[cell]:
            return True
        sum_ = self.follower(cell)
        if sum_ is None or self.open[cell] > 1 or self.open[sum_] > 1:
            return False
        return all(c < 0 or self.done[c] for c in self.before[sum_])

    def add(self, cell: int, others: tuple[int, ...], entries: float) -> None:
        """Append one step, and raise E601 if it is too costly."""
        self.flops, self.largest = self.flops + entries, max(self.largest, entries)
        if 8 * self.largest > self.budget.bytes or self.flops > self.budget.flops:
            raise _too_costly(self.what, len(others) + 1, entries, self.flops, self.budget, self.help)
        self.done[cell] = True
        self.order.append(cell)
        self.others.append(others)

    def strip_leaves(self) -> None:
        """Eliminate cells with at most one remaining neighbour: whole trees, in linear time."""
        degree = np.diff(self.starts).tolist()
        # `total` is the sum of the remaining neighbours of a cell. If there is one neighbour, it is
        # that neighbour.
        source = np.repeat(np.arange(len(self.free)), np.diff(self.starts))
        total = np.bincount(source, weights=self.near, minlength=len(self.free)).astype(np.int64).tolist()
        waiting = deque(c for c, d in enumerate(degree) if d <= 1)
        while waiting:
            cell = waiting.popleft()
            if degree[cell] == 0:
                self.add(cell, (), self.sizes[cell])
                continue
            parent = total[cell]
            self.add(cell, (parent,), self.sizes[cell] * self.sizes[parent])
            degree[parent] -= 1
            total[parent] -= cell
            self.level[parent] = max(self.level[parent], self.level[cell] + 1)
            if degree[parent] == 1:
                waiting.append(parent)

    def eliminate_core(self, shallow: bool) -> None:
        """Eliminate the remaining cells by the smallest table.

        Among equal tables, the cell with the lowest level is chosen if `shallow`, else the first
        cell.
        """
        left = [c for c, done in enumerate(self.done) if not done]
        if len(left) > MOST_CORE:
            message = f"{self.what} has {len(left):,} cells on cycles of factors, more than the {MOST_CORE:,} whose order is sought"
            raise fail("E601", message, help=self.help or ADVICE)
        near = self._remaining()
        logs = [round(1e12 * math.log(s)) for s in self.sizes]  # integers, whose sums do not depend on their order
        weight = {c: logs[c] + sum(logs[o] for o in near[c]) for c in left}

        def key(cell: int) -> tuple[int, int]:
            sum_ = self.follower(cell)
            size = weight[cell] if sum_ is None else logs[cell] + sum(logs[o] for o in (near[cell] | near[sum_]) - {cell, sum_})
            return round(size, -3), self.level[cell] * shallow

        heap = [(*key(c), c) for c in left if self.is_ready(c)]
        heapq.heapify(heap)
        while heap:
            *found, cell = heapq.heappop(heap)
            if self.done[cell] or tuple(found) != key(cell):
                continue
            sum_ = self.follower(cell)
            if sum_ is not None:
                self.level[cell] = max(self.level[cell], self.level[sum_])
            for other, joined in self._eliminate(cell, near).items():
                self.level[other] = max(self.level[other], self.level[cell] + 1)
                if sum_ is None:
                    weight[other] += sum(logs[o] for o in joined) - logs[cell]
                else:
                    weight[other] = logs[other] + sum(logs[o] for o in near[other])
                for waiting in (other, self.follows.get(other, other)):
                    if not self.done[waiting] and self.is_ready(waiting):
                        heapq.heappush(heap, (*key(waiting), waiting))

    def _remaining(self) -> dict[int, set[int]]:
        """Return the remaining neighbours of the remaining cells."""
        left = (c for c, done in enumerate(self.done) if not done)
        return {c: {o for o in self.near[self.starts[c] : self.starts[c + 1]].tolist() if not self.done[o]} for c in left}

    def _eliminate(self, cell: int, near: dict[int, set[int]]) -> dict[int, set[int]]:
        """Eliminate a cell, join its neighbours, and return the new neighbours of each."""
        around, sum_ = near.pop(cell), self.follower(cell)
        if sum_ is not None:
            around = (around | near.pop(sum_)) - {cell, sum_}
            self.done[sum_] = True
            for used in np.searchsorted(self.free, (self.links[cell].cell, *self.links[cell].cells)).tolist():
                self.open[used] -= 1
        logs = math.log(self.sizes[cell]) + sum(math.log(self.sizes[o]) for o in around)
        self.add(cell, tuple(around), math.exp(min(logs, 700.0)))
        joined = {other: around - near[other] - {other} for other in around}
        for other, new in joined.items():
            near[other] |= new
            near[other] -= {cell, -1 if sum_ is None else sum_}
        return joined

    def eliminate_listed(self, order: Array) -> None:
        """Eliminate the remaining cells in an order of all free cells."""
        near = self._remaining()
        for cell in order.tolist():
            if not self.done[cell]:
                self._eliminate(cell, near)

    def banded(self) -> Array:
        """Return the order of Cuthill and McKee 1969, in which neighbours have near places."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import reverse_cuthill_mckee

        n = len(self.free)
        joined = csr_array((np.ones(len(self.near), np.int8), self.near, self.starts), shape=(n, n))
        return reverse_cuthill_mckee(joined, symmetric_mode=True)

    def eliminate_least_filled(self) -> None:
        """Eliminate the remaining cells by the fewest new pairs of neighbours ("min-fill")."""
        near = self._remaining()

        def lacking(cell: int) -> int:
            around = near[cell]
            return sum(len(around - near[o]) - 1 for o in around) // 2

        fill = {c: lacking(c) for c in near}
        heap = [(n, c) for c, n in fill.items()]
        heapq.heapify(heap)
        while heap:
            n, cell = heapq.heappop(heap)
            if self.done[cell] or n != fill[cell]:
                continue
            around = set(self._eliminate(cell, near))
            for other in around.union(*(near[o] for o in around)):
                fill[other] = lacking(other)
                heapq.heappush(heap, (fill[other], other))

    def result(self) -> Elimination:
        """Return the order as arrays, with steps sorted by level."""
        assert all(self.done)
        n, width = len(self.order), max((len(o) + 1 for o in self.others), default=1)
        # `place` is twice the place of each free cell in the order, and one less for a partial sum
        # that follows in its table; the padding comes after all of them.
        place = np.full(len(self.free) + 1, 2 * n)
        place[self.order] = 2 * np.arange(n)
        for sum_, cell in self.follows.items():
            place[sum_] = place[cell] - 1
        lengths = np.array([len(o) for o in self.others], np.int64)
        row = np.repeat(np.arange(n), lengths)
        column = 1 + np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        scopes = np.full((n, width), len(self.free))
        scopes[:, 0] = self.order
        scopes[row, column] = np.fromiter((c for o in self.others for c in o), np.int64, len(row))
        scopes = np.take_along_axis(scopes, np.argsort(place[scopes], axis=1, kind="stable"), axis=1)
        parents = np.where(lengths > 0, (place[scopes[:, min(1, width - 1)]] + 1) // 2, -1) if width > 1 else np.full(n, -1)
        levels = _levels(parents)
        components = _components(parents, scopes[:, 0])
        order = np.argsort(levels, kind="stable")
        back = np.empty(n, np.int64)
        back[order] = np.arange(n)
        cells = np.append(self.free, self.graph.n_cells)[scopes[order]]
        radix = np.append(self.graph.sizes, 1)[cells].astype(np.int64)
        return Elimination(
            self.graph.n_cells,
            cells,
            np.where(parents[order] >= 0, back[parents[order]], -1),
            levels[order],
            components[order],
            radix,
            not self.links and _pads_little(self.graph, self.free, radix),
            tuple(self.links.get(self.order[k]) for k in order.tolist()) if self.links else (),
        )


def _verify_scopes(graph: FactorGraph, free: Array, what: str, budget: Budget, help: str) -> None:
    """Raise E601 for a factor whose table is too large, before its pairs of cells are listed."""
    logs = np.zeros(graph.n_cells + 1)
    logs[free] = np.log(graph.sizes[free])
    for group in graph.groups:
        if group.n and logs.max() * group.cells.shape[1] > math.log(budget.bytes / 8):
            scopes = np.sort(group.cells, axis=1)
            again = np.concatenate([np.zeros((group.n, 1), bool), scopes[:, 1:] == scopes[:, :-1]], axis=1)
            tables = np.where(again, 0.0, logs[scopes])
            worst = int(np.argmax(tables.sum(axis=1)))
            size = math.exp(min(700.0, float(tables[worst].sum())))
            if 8 * size > budget.bytes:
                raise _too_costly(what, int((tables[worst] > 0).sum()), size, size, budget, help)


def _too_costly(what: str, members: int, entries: float, flops: float, budget: Budget, help: str) -> GmlmError:
    message = (
        f"{what} needs a table over {members} cells: {8 * entries / 2**30:.3g} GiB and at least {flops:.3g} operations, "
        f"above the limit of {budget.bytes / 2**30:.3g} GiB and {budget.flops:.3g} operations"
    )
    return fail("E601", message, help=help or ADVICE)


def _pads_little(graph: FactorGraph, free: Array, radix: Array) -> bool:
    """Return whether one loop works on few entries beyond the real ones.

    Its places then fit into 32 bits too. In such a loop own tables, factor tables and the
    eliminated axis of each step have as many values as the largest cell; messages are not padded.
    """
    sizes = np.ones(graph.n_cells + 1)
    sizes[free] = graph.sizes[free]
    values = float(sizes.max())
    if (sizes[free] == values).all():
        return True
    sent = np.prod(radix[:, 1:].astype(float), axis=1)
    real, padded = float(((sent + 1) * radix[:, 0]).sum()), float((sent + 1).sum()) * values
    for group in graph.groups:
        cells = np.sort(np.where(sizes[group.cells] > 1, group.cells, graph.n_cells), axis=1)
        cells[:, 1:][cells[:, 1:] == cells[:, :-1]] = graph.n_cells
        tables = np.unique(np.sort(cells, axis=1), axis=0)
        members = (tables < graph.n_cells).sum(axis=1)
        # Tables over one cell are added into the cell's own table.
        tables, members = tables[members > 1], members[members > 1]
        real, padded = real + float(sizes[tables].prod(axis=1).sum()), padded + float((values**members).sum())
    return padded <= min(max(MOST_PADDED * real, FEW_LOOP_ENTRIES), MOST_LOOP_ENTRIES)


def _levels(parents: Array) -> Array:
    """Return the level of each step: one more than the highest level of its children.

    Parents come after their children.
    """
    levels = [0] * len(parents)
    for step, parent in enumerate(parents.tolist()):
        if parent >= 0 and levels[parent] <= levels[step]:
            levels[parent] = levels[step] + 1
    return np.array(levels, np.int64)


def _components(parents: Array, cells: Array) -> Array:
    """Return the component of each step, numbered by its lowest cell."""
    root = list(range(len(parents)))
    for step in range(len(parents) - 1, -1, -1):
        if parents[step] >= 0:
            root[step] = root[int(parents[step])]
    least = np.full(len(parents), int(cells.max(initial=0)))
    np.minimum.at(least, root, cells)
    return np.unique(least[root], return_inverse=True)[1].reshape(-1) if len(parents) else np.zeros(0, np.int64)


def _adjacency(graph: FactorGraph, free: Array) -> tuple[Array, Array]:
    """Return neighbours among the free cells, numbered within them: (starts, neighbours)."""
    starts, near = graph.neighbours
    if len(free) == graph.n_cells:
        return starts, near
    local = np.full(graph.n_cells, -1, np.int64)
    local[free] = np.arange(len(free))
    lengths = starts[free + 1] - starts[free]
    first = np.repeat(starts[free] - (np.cumsum(lengths) - lengths), lengths)
    found = local[near[first + np.arange(int(lengths.sum()))]]
    source = np.repeat(np.arange(len(free)), lengths)[found >= 0]
    return np.searchsorted(source, np.arange(len(free) + 1)), found[found >= 0]
