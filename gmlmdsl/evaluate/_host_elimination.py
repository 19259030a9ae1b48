"""Elimination in NumPy, for models that are summed in less time than a program takes to compile.

A compiled elimination needs seconds before its first answer. The same sums over the tables of a
Bayesian network with some tens of variables take milliseconds in NumPy. The steps are those of
`plan_elimination`, in float64 whatever the working type is. Known cells are not summed at all:
the tables are restricted to their values.

Reference: Dechter 1999, "Bucket elimination"; Shafer and Shenoy 1990 for the marginals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..graph import FactorGraph, FactorGroup, JointValues, SumLink, alike, grouped, tables_over
from ..plan import Elimination
from . import limits

Array = np.ndarray


class FactorTable(NamedTuple):
    """The values of a factor for all values of its cells.

    Attributes:
        cells: the distinct cells, in the order of the axes.
        values: log p contributions, one axis for each cell; -inf where a requirement fails.
    """

    cells: tuple[int, ...]
    values: Array


def table_entries(graph: FactorGraph) -> float:
    """Return the number of entries of the tables of all factors, an upper bound."""
    sizes = np.append(graph.sizes, 1).astype(float)
    return float(sum(np.prod(sizes[g.cells], axis=1).sum() for g in graph.groups if g.n))


def seconds_of(steps: int, factors: int, entries: float) -> float:
    """Return the estimated time of one row.

    Args:
        steps: the number of cells that are eliminated.
        factors: the number of factors.
        entries: the number of table entries that are visited.
    """
    return limits.STEP_SECONDS * steps + limits.FACTOR_SECONDS * factors + limits.ENTRY_SECONDS * entries


def factor_tables(graph: FactorGraph, params: Mapping[str, Array]) -> list[FactorTable]:
    """Return the tables of all factors and requirements at given parameters.

    Args:
        graph: the factor graph, without given variables.
        params: the parameters.
    """
    return [
        FactorTable(tuple(cells), table)
        for block in table_blocks(graph, params)
        for cells, table in zip(block.cells.tolist(), block.values, strict=True)
    ]


class TableBlock(NamedTuple):
    """The tables of several factors whose cells have the same numbers of values.

    Attributes:
        cells: the distinct cells of each factor, shape (n, k).
        values: log p contributions, shape (n, values of the first cell, .., of the last cell).
    """

    cells: Array
    values: Array


def table_blocks(graph: FactorGraph, params: Mapping[str, Array]) -> Iterator[TableBlock]:
    """Yield the tables of all factors and requirements, grouped by shape.

    Args:
        graph: the factor graph; its given variables, if any, have data.
        params: the parameters.
    """
    for group in graph.groups:
        if group.n:
            yield from _blocks_of(graph, group, params)


def _blocks_of(graph: FactorGraph, group: FactorGroup, params: Mapping[str, Array]) -> Iterator[TableBlock]:
    sizes = np.append(graph.sizes, 0)  # 0 stands for no cell.
    for rows, owners in alike(group.cells, graph.n_cells):
        part = group if len(rows) == group.n else group.take(rows)
        # Instances are evaluated together if their cells have the same numbers of values.
        for shape, some in grouped(sizes[part.cells]):
            found, piece = shape.tolist(), part if len(some) == part.n else part.take(some)
            values = tables_over(piece, JointValues(tuple(max(size, 1) for size in found), owners), params)
            if piece.kind == "require":
                values = np.where(values != 0, 0.0, -np.inf)
            axes = [s for s, owner in enumerate(owners) if s == owner and found[s]]  # A cell has one axis.
            yield TableBlock(piece.cells[:, axes], values.reshape(len(some), *(found[s] for s in axes)))


@dataclass(frozen=True, eq=False)
class HostElimination:
    """Sums, maxima and marginals over the cells of a plan, given the other cells.

    Attributes:
        plan: the order of the free cells.
        tables: the tables of all factors; see `factor_tables`.
        seen: booleans over cells, True for cells of the plan that have their value in `codes`.
    """

    plan: Elimination
    tables: Sequence[FactorTable]
    seen: Array = field(default_factory=lambda: np.zeros(0, bool))

    @cached_property
    def scopes(self) -> list[list[int]]:
        """The cells of each step's table, the eliminated cell first."""
        return [[c for c in scope if c < self.plan.n_cells] for scope in self.plan.scopes.tolist()]

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each step's table."""
        return [tuple(radix[: len(scope)]) for scope, radix in zip(self.scopes, self.plan.radix.tolist(), strict=True)]

    @cached_property
    def place(self) -> dict[int, int]:
        """Twice the step that eliminates each free cell; one less for a partial sum that follows in its table."""
        found = {scope[0]: 2 * k for k, scope in enumerate(self.scopes)}
        return found | {link.cell: 2 * k - 1 for k, link in enumerate(self.plan.links) if link is not None}

    @cached_property
    def free(self) -> Array:
        """The positions of the free cells, ascending."""
        return np.sort(self.plan.cells)

    def log_sums(self, codes: Array) -> HostSums:
        """Return the log of the sum of exp(log_potential) over the free cells.

        Args:
            codes: the values of the other cells, shape (cells, rows).
        """
        return _sums([_Pass(self, row, _log_sum, keep=False) for row in codes.T])

    def laws(self, codes: Array, values: int) -> tuple[HostSums, Array]:
        """Return the log sums, and p(x_i = v | the other cells) of every free cell.

        Args:
            codes: the values of the other cells, shape (cells, rows).
            values: the length of the second axis of the result.

        Returns:
            The log sums, and an array of shape (free cells, values, rows) in the order of `free`.
            It is 0 beyond the values of a cell, and in a row without a possible value. Of a cell
            with more values the first ones are kept.
        """
        done = [_Pass(self, row, _log_sum) for row in codes.T]
        found = np.zeros((len(self.scopes), values, len(done)))
        place = np.searchsorted(self.free, self.plan.cells)
        for r, one in enumerate(done):
            for step, law in one.laws():
                found[place[step], : len(law), r] = law[:values]
        return _sums(done), found

    def modes(self, codes: Array) -> tuple[HostSums, Array]:
        """Return the maxima of log_potential over the free cells, and codes that reach them.

        Among equal values a cell takes the first one, given the cells that are eliminated later.

        Args:
            codes: the values of the other cells, shape (cells, rows).
        """
        done = [_Pass(self, row, _maximum) for row in codes.T]
        return _sums(done), np.stack([one.mode() for one in done], axis=1)


class HostSums(NamedTuple):
    """Log sums or maxima of rows.

    Attributes:
        values: the sums of all factors, shape (rows,).
        rest: the part of the factors without a free cell, shape (rows,).
    """

    values: Array
    rest: Array


def _sums(done: Sequence[_Pass]) -> HostSums:
    return HostSums(np.array([one.value for one in done]), np.array([one.rest for one in done]))


class _Pass:
    """The tables and messages of one elimination, from the first step to the last.

    Attributes:
        value: the log sum, or the maximum, over the free cells.
        rest: the part of `value` of factors without a free cell.
        joint: the table of each step, with the messages that it received. Unless `keep`, a table
            exists only from its first term to its sum.
        sent: the message of each step, if `keep`.
    """

    def __init__(self, of: HostElimination, codes: Array, combine: Callable[[Array], Array], keep: bool = True):
        self.of, self.codes = of, codes
        self.parents = of.plan.parents.tolist()
        self.value = 0.0
        self.joint: dict[int, Array] = {}
        self.sent: list[Array] = []
        self._waiting: dict[int, list[tuple[list[int], Array]]] = {}
        for cells, values in of.tables:
            order, table = self._restricted(cells, values)
            if order:
                self._waiting.setdefault(_step(of.place[order[0]]), []).append((order, table))
            else:
                self.value += float(table)
        self.rest = self.value
        for cell in np.flatnonzero(of.seen).tolist():
            values = np.full(of.shapes[_step(of.place[cell])][0], -np.inf)
            values[codes[cell]] = 0.0
            self._add([cell], values)
        for step, scope in enumerate(of.scopes):
            table = self._table(step)
            message = combine(table) if keep else _consumed(table)
            self._add(scope[1:], message)
            if keep:
                self.sent.append(message)
            else:
                del self.joint[step]

    def _restricted(self, cells: tuple[int, ...], values: Array) -> tuple[list[int], Array]:
        """Return the free cells of a factor, ordered by their steps, and its table over them."""
        place, codes = self.of.place, self.codes
        here = values[tuple(slice(None) if c in place else codes[c] for c in cells)]
        free = [c for c in cells if c in place]
        order = sorted(range(len(free)), key=lambda k: place[free[k]])
        return [free[k] for k in order], here.transpose(order)

    def _table(self, step: int) -> Array:
        """Return the table of a step, which begins as the sum of its factors."""
        if step not in self.joint:
            self.joint[step] = np.zeros(self.of.shapes[step])
            for order, table in self._waiting.pop(step, ()):
                self._add(order, table)
        return self.joint[step]

    def _add(self, cells: list[int], values: Array) -> None:
        """Add a table, whose cells are ordered by their steps, to the table of the first step."""
        if not cells:
            self.value += float(values)
            return
        step = _step(self.of.place[cells[0]])
        link = self._link(step, cells[0])
        if link is not None:
            cells, values = self._followed(step, link, cells[1:], values)
        inside = iter(values.shape)
        table = self._table(step)
        table += values.reshape([next(inside) if c in cells else 1 for c in self.of.scopes[step]])

    def _link(self, step: int, cell: int) -> SumLink | None:
        """Return the link by which a cell follows in the table of a step, if it does."""
        link = self.of.plan.links[step] if self.of.plan.links else None
        return None if link is None or link.cell != cell else link

    def _codes(self, step: int, link: SumLink) -> Array:
        """Return the codes that follow, with an axis for each cell of the table of a step."""
        scope = self.of.scopes[step]
        order = sorted(range(len(link.cells)), key=lambda k: scope.index(link.cells[k]))
        inside = iter(link.codes.transpose(order).shape)
        return link.codes.transpose(order).reshape([next(inside) if c in link.cells else 1 for c in scope])

    def _followed(self, step: int, link: SumLink, rest: list[int], values: Array) -> tuple[list[int], Array]:
        """Return a table over a partial sum and other cells where the partial sum follows.

        The result has the cells of the link and the others, in the order of the step's table.
        """
        scope, codes = self.of.scopes[step], self._codes(step, link)
        cells = [c for c in scope if c in link.cells or c in rest]
        codes = codes.reshape([n for c, n in zip(scope, codes.shape, strict=True) if c in cells])
        places = [np.arange(n).reshape([-1 if c == cell else 1 for c in cells]) for cell, n in zip(rest, values.shape[1:], strict=True)]
        return cells, np.where(codes < 0, -np.inf, values[(np.maximum(codes, 0), *places)])

    def laws(self) -> Iterator[tuple[int, Array]]:
        """Yield each step with the distribution of the cell that it eliminates, last steps first.

        The joint distribution of a step's table is the distribution of the first cell given the
        others, times the distribution of the others. The table of the receiving step holds the
        latter.
        """
        laws: list[Array] = [np.zeros(0)] * len(self.parents)
        for step in reversed(range(len(self.parents))):
            message = self.sent[step]
            law = np.exp(self.joint[step] - np.where(np.isfinite(message), message, 0.0))
            parent = self.parents[step]
            if parent >= 0:
                own, theirs = self.of.scopes[step], self.of.scopes[parent]
                link = self._link(parent, own[1])
                if link is None:
                    law *= laws[parent].sum(axis=tuple(k for k, c in enumerate(theirs) if c not in own))
                else:
                    law *= self._law_of_sums(parent, link, own[2:], laws[parent], law.shape[1:])
            laws[step] = law
            yield step, law.sum(axis=tuple(range(1, law.ndim)))

    def _law_of_sums(self, step: int, link: SumLink, rest: list[int], law: Array, shape: tuple[int, ...]) -> Array:
        """Return the distribution of a partial sum and of other cells of the table in which it follows."""
        scope, place = self.of.scopes[step], np.maximum(self._codes(step, link), 0)
        for cell, n in zip(rest, shape[1:], strict=True):
            place = place * n + np.arange(n).reshape([-1 if c == cell else 1 for c in scope])
        weights = law.sum(axis=tuple(k for k, n in enumerate(place.shape) if n == 1), keepdims=True)
        return np.bincount(place.ravel(), weights.ravel(), minlength=int(np.prod(shape))).reshape(shape)

    def mode(self) -> Array:
        """Return the codes of all cells, with the free ones at the values of the maximum."""
        codes = self.codes.copy()
        if np.isfinite(self.value):
            for step in reversed(range(len(self.parents))):
                cell, *others = self.of.scopes[step]
                codes[cell] = np.argmax(self.joint[step][(slice(None), *(codes[c] for c in others))])
                link = self.of.plan.links[step] if self.of.plan.links else None
                if link is not None:
                    codes[link.cell] = link.codes[tuple(codes[c] for c in link.cells)]
        return codes


def _step(place: int) -> int:
    """Return the step of a place, see `HostElimination.place`."""
    return (place + 1) // 2


def _log_sum(table: Array) -> Array:
    """Return the log of the sum of exp over the first axis."""
    top = table.max(axis=0)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(table - top).sum(axis=0)) + top


def _consumed(table: Array) -> Array:
    """Return `_log_sum` of a table whose memory is used on the way."""
    top = table.max(axis=0)
    top = np.where(np.isfinite(top), top, 0.0)
    table -= top
    np.exp(table, out=table)
    with np.errstate(divide="ignore"):
        return np.log(table.sum(axis=0)) + top


def _maximum(table: Array) -> Array:
    """Return the maximum over the first axis."""
    return table.max(axis=0)
