"""The factor graph given the clamped cells, as arrays: tables of the free cells, by shape.

A table is restricted to the values of its clamped cells. Tables of the same cells are added, so
that they make no cycle of their own. A search for a mode needs no tables of the largest factors,
which it evaluates where it stands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy

from .._diagnostics import fail
from ..graph import FactorGraph, FactorGroup, grouped, values_at
from ..graph.colours import colour
from . import limits
from ._host_elimination import TableBlock, table_blocks, table_entries

Array = np.ndarray


@dataclass(frozen=True)
class TableGroup:
    """The tables of n factors of k free cells, k >= 2, whose cells have the same numbers of values.

    Attributes:
        cells: the numbers of the cells, ascending and distinct, shape (n, k).
        values: log p contributions, shape (values of the first cell, .., of the last cell, n).
    """

    cells: Array
    values: Array


@dataclass(frozen=True)
class SizeClass:
    """The free cells with the same number of values.

    Attributes:
        start: the number of the first of these cells; the others follow it.
        unary: the sums of the factors of one cell, shape (values, cells).
    """

    start: int
    unary: Array

    @property
    def cells(self) -> slice:
        """The numbers of the cells."""
        return slice(self.start, self.start + self.unary.shape[1])


@dataclass(frozen=True, eq=False)
class DenseFactor:
    """A factor of too many cells for a table.

    Attributes:
        factor: a group of one instance.
        params: the parameters.
        numbers: the number of the free cell in each slot, -1 for a known cell, shape (slots,).
        known: the code of the known cell in each slot, shape (slots,).
    """

    factor: FactorGroup
    params: Mapping[str, Array]
    numbers: Array
    known: Array

    def log_potential(self, codes: Array) -> Array:
        """Return the values of the factor at the codes of the free cells, (cells, configurations)."""
        slots = np.where((self.numbers < 0)[:, None], self.known[:, None], codes[self.numbers])
        found = values_at(self.factor, slots, self.params)
        return np.where(found != 0, 0.0, -np.inf) if self.factor.kind == "require" else found


@dataclass(frozen=True)
class ClampedTables:
    """The factors of a model given the values of clamped cells.

    Free cells are numbered in the order of their number of values. A cell with one value is not
    free.

    Attributes:
        free: the position of each free cell in the graph.
        constant: the sum of the factors without a free cell.
        classes: the free cells by number of values, ascending.
        groups: the factors of several free cells.
        dense: the factors that have no table.
    """

    free: Array
    constant: float
    classes: tuple[SizeClass, ...]
    groups: tuple[TableGroup, ...]
    dense: tuple[DenseFactor, ...] = ()

    @cached_property
    def sizes(self) -> Array:
        """The number of values of each free cell."""
        return np.concatenate([np.zeros(0, int), *(np.full(c.unary.shape[1], len(c.unary)) for c in self.classes)])

    @cached_property
    def class_of(self) -> Array:
        """The place in `classes` of each free cell."""
        return np.repeat(np.arange(len(self.classes)), [c.unary.shape[1] for c in self.classes])

    @cached_property
    def is_forest(self) -> bool:
        """Whether the graph whose nodes are free cells and factors has no cycle."""
        nodes, ends = len(self.free), [np.zeros((0, 2), int)]
        for group in self.groups:
            n, k = group.cells.shape
            ends.append(np.stack([group.cells.ravel(), np.repeat(nodes + np.arange(n), k)], axis=1))
            nodes += n
        a, b = np.concatenate(ends).T
        links = scipy.sparse.coo_matrix((np.ones(len(a), np.int8), (a, b)), shape=(nodes, nodes))
        parts = scipy.sparse.csgraph.connected_components(links, directed=False, return_labels=False)
        return len(a) == nodes - parts

    def log_potential(self, codes: Array) -> Array:
        """Return the unnormalised log p of configurations.

        Args:
            codes: the codes of the free cells, shape (cells, configurations).
        """
        total = np.full(codes.shape[1], self.constant)
        for c in self.classes:
            total += c.unary[codes[c.cells], np.arange(c.unary.shape[1])[:, None]].sum(axis=0)
        for g in self.groups:
            at = tuple(codes[g.cells[:, k]] for k in range(g.cells.shape[1]))
            total += g.values[(*at, np.arange(len(g.cells))[:, None])].sum(axis=0)
        return sum((d.log_potential(codes) for d in self.dense), total)


def clamped_tables(graph: FactorGraph, params: Mapping[str, Array], held: Array, codes: Array, evaluates: bool = False) -> ClampedTables:
    """Return the tables of all factors, restricted to the values of the clamped cells.

    Args:
        graph: the factor graph; its given variables, if any, have one row of data.
        params: the parameters.
        held: booleans over cells, True for clamped cells.
        codes: the values of the clamped cells, shape (cells,).
        evaluates: whether factors may be left without a table, where all tables are too large.

    Raises:
        GmlmError: E601 for more than `MOST_APPROXIMATED` table entries.
    """
    large: list[FactorGroup] = []
    if evaluates and not table_entries(graph) <= limits.MOST_ANNEALED:
        graph, large = _without_large(graph)
    _verify_entries(graph)
    known = held | (graph.sizes == 1)
    codes = np.where(held, codes, 0)
    sizes = np.where(known, 0, graph.sizes)
    free = np.argsort(sizes, kind="stable")[np.count_nonzero(known) :]
    number = np.full(graph.n_cells, -1)
    number[free] = np.arange(len(free))
    restricted = (part for block in table_blocks(graph, params) for part in _restricted(block, known, codes))
    constant, found = 0.0, defaultdict(list)
    for block in restricted:
        if block.cells.shape[1]:
            for cells, values in _in_order(number[block.cells], block.values):
                found[values.shape[1:]].append((cells, values))
        else:
            constant += float(block.values.sum())
    merged = {shape: _merged(parts) for shape, parts in found.items()}
    classes, start = [], 0
    for size, count in zip(*np.unique(sizes[free], return_counts=True), strict=True):
        unary = np.zeros((size, count))
        if (size,) in merged:
            cells, values = merged[size,]
            unary[:, cells[:, 0] - start] = values.T
        classes.append(SizeClass(start, unary))
        start += int(count)
    groups = [TableGroup(c, np.ascontiguousarray(np.moveaxis(v, 0, -1))) for s, (c, v) in merged.items() if len(s) > 1]
    dense = (DenseFactor(f, params, np.append(number, -1)[f.cells[0]], np.append(codes, 0)[f.cells[0]]) for f in large)
    return ClampedTables(free, constant, tuple(classes), tuple(groups), tuple(dense))


def _without_large(graph: FactorGraph) -> tuple[FactorGraph, list[FactorGroup]]:
    """Return the graph without the factors whose tables are large, and each of these factors."""
    sizes, large = np.append(graph.sizes, 1).astype(float), []

    def small(groups: tuple[FactorGroup, ...]) -> tuple[FactorGroup, ...]:
        kept = []
        for group in groups:
            with np.errstate(over="ignore"):
                is_large = np.prod(sizes[group.cells], axis=1) > limits.LARGE_FACTOR
            large.extend(group.take(np.array([k])) for k in np.flatnonzero(is_large))
            kept.append(group.take(np.flatnonzero(~is_large)) if is_large.any() else group)
        return tuple(kept)

    return replace(graph, factors=small(graph.factors), requires=small(graph.requires)), large


def _verify_entries(graph: FactorGraph) -> None:
    entries = table_entries(graph)
    if not entries <= limits.MOST_APPROXIMATED:
        most = max(graph.groups, key=lambda g: np.prod(np.append(graph.sizes, 1)[g.cells].astype(float), axis=1).max(initial=0))
        largest = np.prod(np.append(graph.sizes, 1)[most.cells].astype(float), axis=1).max()
        message = f"the factors have tables of {entries:.3g} entries together, the largest of {largest:.3g}"
        help = "write factors of fewer cells; `map(.., method='anneal')` and `model.sample(params, ..)` need no tables"
        raise fail("E601", f"{message}: up to {limits.MOST_APPROXIMATED:,} are tabled", most.span, "the largest table", help=help)


def _restricted(block: TableBlock, known: Array, codes: Array) -> Iterator[TableBlock]:
    """Yield the tables of a block over their free cells, those with the same free axes together."""
    for pattern, rows in grouped(known[block.cells]):
        cells, fixed = block.cells[rows], np.flatnonzero(pattern)
        values = np.moveaxis(block.values[rows], fixed + 1, np.arange(len(fixed)) + 1)
        yield TableBlock(cells[:, ~pattern], values[(np.arange(len(rows)), *(codes[cells[:, s]] for s in fixed))])


def _in_order(cells: Array, values: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the tables with their axes in the ascending order of their cells.

    Args:
        cells: shape (n, k).
        values: shape (n, values of the first cell, .., of the last cell).
    """
    for order, rows in grouped(np.argsort(cells, axis=1)):
        yield cells[rows][:, order], values[rows].transpose(0, *(order + 1))


def _merged(parts: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return tables of the same shape, with tables of the same cells added."""
    cells, values = (np.concatenate(a) for a in zip(*parts, strict=True))
    order = np.lexsort(cells.T[::-1])
    cells = cells[order]
    first = np.flatnonzero(np.append(True, (cells[1:] != cells[:-1]).any(axis=1)))
    if len(first) == len(cells):
        return cells, values[order]
    return cells[first], np.add.reduceat(values[order], first, axis=0)


@dataclass(frozen=True, eq=False)
class ColourBlock:
    """Free cells with the same number of values, no two of which share a factor.

    Attributes:
        tables: the factors.
        cells: the numbers of the cells, shape (n,).
        edges: the group, the slot and the factors of the group that touch a cell of the block in
            this slot.
        dense: the cell and the number of each factor without a table that touches it.
    """

    tables: ClampedTables
    cells: Array
    edges: tuple[tuple[int, int, Array], ...]
    dense: tuple[tuple[int, int], ...] = ()

    @cached_property
    def unary(self) -> Array:
        """The factors of one cell, shape (values, n)."""
        of: SizeClass = self.tables.classes[self.tables.class_of[self.cells[0]]]
        return of.unary[:, self.cells - of.start]

    @cached_property
    def columns(self) -> list[Array]:
        """For each entry of `edges`, the place in the block of the cell of each factor."""
        return [np.searchsorted(self.cells, self.tables.groups[g].cells[rows, s]) for g, s, rows in self.edges]

    @cached_property
    def _sums(self) -> list[scipy.sparse.csr_array]:
        """For each entry of `edges`, 1 for a cell and each factor that touches it, (n, factors)."""
        shapes = [(len(self.cells), len(columns)) for columns in self.columns]
        pairs = zip(shapes, self.columns, strict=True)
        return [scipy.sparse.csr_array((np.ones(s[1]), (columns, np.arange(s[1]))), shape=s) for s, columns in pairs]

    def summed(self, parts: Sequence[Array], unary: Array) -> Array:
        """Return the sums over the factors of each cell, plus the factors of one cell.

        Args:
            parts: for each entry of `edges`, an array of shape (values, factors, *rest).
            unary: the factors of one cell, shape (values, n, *ones).
        """
        if not parts:
            return unary
        found = np.broadcast_to(unary, (*unary.shape[:2], *parts[0].shape[2:])).copy()
        for sums, part in zip(self._sums, parts, strict=True):
            for v in range(len(unary)):
                found[v] += sums @ part[v]
        return found


def colour_blocks(graph: FactorGraph, tables: ClampedTables) -> list[ColourBlock]:
    """Return the free cells in blocks, in the order of colours and numbers of values.

    Args:
        graph: the factor graph.
        tables: the factors given the clamped cells.
    """
    order = np.argsort(tables.free)
    colours = np.zeros(len(order), int)
    if len(order):
        colours[order] = colour(graph, tables.free[order, None].astype(np.int64))
    keys = colours * (len(tables.classes) + 1) + tables.class_of
    kinds, which = np.unique(keys, return_inverse=True)
    edges = [list[tuple[int, int, Array]]() for _ in kinds]
    for g, s, rows, k in _edges(tables, which, len(kinds)):
        edges[k].append((g, s, rows))
    dense = [list[tuple[int, int]]() for _ in kinds]
    for number, factor in enumerate(tables.dense):
        for cell in np.unique(factor.numbers[factor.numbers >= 0]).tolist():
            dense[which[cell]].append((cell, number))
    return [ColourBlock(tables, np.flatnonzero(which == k), tuple(edges[k]), tuple(dense[k])) for k in range(len(kinds))]


def _edges(tables: ClampedTables, block: Array, count: int) -> Iterator[tuple[int, int, Array, int]]:
    """Yield the group, the slot, the factors and the block of the edges of each block."""
    for g, group in enumerate(tables.groups):
        for s in range(group.cells.shape[1]):
            mine = block[group.cells[:, s]]
            order = np.argsort(mine, kind="stable")
            ends = np.searchsorted(mine[order], np.arange(count + 1))
            for k in np.flatnonzero(np.diff(ends)).tolist():
                yield g, s, order[ends[k] : ends[k + 1]], k
