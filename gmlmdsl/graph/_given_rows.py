"""Given variables: data that come with each row, as tables that factors read by row number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..program import CODES, Scale
from ._factor_graph import FactorGraph, FactorGroup
from ._graph_variables import GivenArray
from .nodes import Add, Apply, CellValue, Column, Gather, If, Node, Pick, mapped, nodes_in

Array = np.ndarray
COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
# These attributes of a graph do not depend on data and are computed once.
KEPT = ("incidences", "neighbours", "sizes")


@dataclass(frozen=True)
class GivenRows:
    """The data of all given variables of a model.

    Attributes:
        arrays: numbers, or codes of letters and labels, by variable, each of shape (rows, size).
        rows: the number of rows. A single row that serves every configuration has the number 0.
        shape: the axes before those of the variables; () for one row.
    """

    arrays: Mapping[str, Array]
    rows: int
    shape: tuple[int, ...]


def group_with(group: FactorGroup, data: GivenRows) -> FactorGroup:
    """Return a group with data in its tables.

    Data without rows leave the group unchanged, because an empty table cannot be read.
    """
    if group.given is None or not data.rows:
        return group
    arrays = group.given.arrays
    tables = tuple(t if v is None else np.ravel(data.arrays[v.name]) for t, v in zip(group.tables, arrays, strict=True))

    def sized(node: Node) -> Node:
        if isinstance(node, Gather) and not node.name and arrays[node.table] is not None:
            return replace(node, size=len(tables[node.table]))
        return node

    return replace(group, root=mapped(group.root, sized), tables=tables, given=replace(group.given, rows=data.rows))


def graph_with(graph: FactorGraph, data: GivenRows) -> FactorGraph:
    """Return a graph with data in the tables of its groups."""
    factors, requires = (tuple(group_with(g, data) for g in groups) for groups in (graph.factors, graph.requires))
    found = replace(graph, factors=factors, requires=requires, model=graph.without_data)
    found.__dict__.update({k: getattr(graph, k) for k in KEPT})
    return found


def rows_of(group: FactorGroup, start: int, stop: int) -> FactorGroup:
    """Return a group with the rows `start` to `stop` of its data, numbered from 0."""
    assert group.given is not None
    parts = zip(group.tables, group.given.arrays, strict=True)
    tables = tuple(t if v is None else t[start * v.size : stop * v.size] for t, v in parts)
    return replace(group, tables=tables, given=replace(group.given, rows=stop - start))


def reads_real(group: FactorGroup) -> bool:
    """Return whether a group mentions a given variable of real numbers."""
    return group.given is not None and any(v is not None and v.real for v in group.given.arrays)


def group_over_domains(group: FactorGroup, sizes: Sequence[int]) -> tuple[FactorGroup, list[int]]:
    """Replace each given value in a group by a slot, so that all its values can be tried.

    None of the given variables may be real. The new slots do not stand for cells.

    Args:
        group: a group that reads given variables.
        sizes: the numbers of values of its own slots.

    Returns:
        The group, and the numbers of values of all slots.
    """
    assert group.given is not None
    known = {k: v for k, v in enumerate(group.given.arrays) if v is not None}
    (root,), found = over_domains([group.root], known, group.columns, sizes)
    cells = np.pad(group.cells, ((0, 0), (0, len(found) - len(sizes))))
    return replace(group, root=root, cells=cells, given=None), found


def over_domains(
    nodes: Sequence[Node], given: Mapping[int, GivenArray], columns: Sequence[Array], sizes: Sequence[int]
) -> tuple[list[Node], list[int]]:
    """Replace given values in trees by slots, so that all their values can be tried without data.

    A comparison of real numbers becomes a slot with two values, because it may hold or not.

    Args:
        nodes: trees. Equal parts of them become one slot.
        given: the given variable of each table that holds one.
        columns: the columns of the group.
        sizes: the number of values of each slot.

    Returns:
        The trees, and the sizes with those of the new slots appended.
    """
    sizes, known = list(sizes), {}

    def variable(node: Node) -> GivenArray | None:
        return given.get(node.table) if isinstance(node, Gather) and not node.name else None

    def new(node: Node, values: int, scale: Scale | None) -> CellValue:
        if node not in known:
            shape = _lead(node, columns)
            known[node] = CellValue(len(sizes), shape, scale or CODES)
            sizes.extend([values] * int(np.prod(shape, dtype=np.int64)))
        return known[node]

    def is_real(node: Node) -> bool:
        v = variable(node)
        return v is not None and v.real

    def change(node: Node) -> Node:
        v = variable(node)
        if v is not None and not v.real:
            return new(node, len(v.labels), v.scale)
        if isinstance(node, Apply) and node.operator in COMPARISONS and any(is_real(n) for n in nodes_in(node)):
            return new(node, 2, None)
        return node

    return [mapped(n, change) if given else n for n in nodes], sizes


def _lead(node: Node, columns: Sequence[Array]) -> tuple[int, ...]:
    """Return the lengths of a tree's leading axes, which belong to the sums around it."""
    match node:
        case Column():
            return columns[node.k].shape[1:]
        case CellValue():
            return node.shape
        case Apply():
            parts: tuple[Node, ...] = node.operands
        case If():
            parts = (node.test, node.yes, node.no)
        case Gather():
            parts = (node.base, *(t for t, _ in node.terms))
        case Add() | Pick():
            return _lead(node.body, columns)[: node.depth]
        case _:
            parts = ()
    return np.broadcast_shapes(*(_lead(p, columns) for p in parts))
