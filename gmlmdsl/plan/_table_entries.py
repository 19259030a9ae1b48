"""The entries of factors' tables on the host: their values, and the parameters they depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import FactorGraph, FactorGroup
from ..graph.nodes import Leaves, evaluate, numpy_leaves
from .limits import ENTRIES_AT_ONCE

Array = np.ndarray


@dataclass(frozen=True)
class FactorTable:
    """The place of a group's tables in the vector of all entries.

    Attributes:
        group: the number of the group in the graph.
        sizes: the number of values of each slot, the largest of any factor.
        start: the place of its first table.
        count: the number of tables: 1 if all its factors have the same table, else one for each.
    """

    group: int
    sizes: tuple[int, ...]
    start: int
    count: int

    @property
    def shared(self) -> bool:
        """Whether one table serves all factors."""
        return self.count == 1

    @property
    def values(self) -> int:
        """The number of entries of one table."""
        return int(np.prod(self.sizes, dtype=np.int64))

    @property
    def entries(self) -> int:
        """The number of entries of all its tables."""
        return self.values * self.count

    @property
    def strides(self) -> Array:
        """The place value of each slot, the last one fastest."""
        # A factor without cells has no slot and thus no stride.
        after = np.append(self.sizes, 1)[1:].astype(np.int64)
        return np.cumprod(after[::-1])[::-1]


def entry_values(group: FactorGroup, table: FactorTable, params: Mapping[str, Array]) -> Array:
    """Return the value of every factor under every joint value of its slots.

    The shape is (tables, values). Values are undefined where a cell has fewer values than its slot.
    """
    out = np.empty((table.count, table.values))
    with np.errstate(all="ignore"):
        for rows, leaves in _pieces(group, table, params):
            found = np.asarray(evaluate(group.root, leaves), float)
            out[rows] = np.broadcast_to(found, (rows.stop - rows.start, table.values))
    return out


def entries_at(graph: FactorGraph, tables: Sequence[FactorTable], params: Mapping[str, Array]) -> Array:
    """Return the entries of all tables at some parameters, with a 0 appended."""
    return np.concatenate([*(entry_values(graph.groups[t.group], t, params).ravel() for t in tables), np.zeros(1)])


def entry_parameters(graph: FactorGraph, table: FactorTable) -> tuple[Array, Array]:
    """Return which entries of the flat parameter vector a table's entries mention.

    The result is (entries of the vector of tables, entries of the flat vector). Branches that are
    not taken count too.
    """
    group, first, at = graph.groups[table.group], {}, 0
    for p in graph.parameters:
        first[p.name] = at
        at += p.size
    middle = {p.name: np.full(p.shape, p.middle) for p in graph.parameters}
    found: list[tuple[Array, Array]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    with np.errstate(all="ignore"):
        for rows, leaves in _pieces(group, table, middle):
            count = rows.stop - rows.start
            places = table.start + (rows.start + np.arange(count))[:, None] * table.values + np.arange(table.values)

            def gather(name: str, number: int, index: Array, leaves: Leaves = leaves, places: Array = places) -> Array:
                if name:
                    index = np.asarray(index)
                    whole = np.broadcast_to(index, np.broadcast_shapes(index.shape, places.shape))
                    found.append((np.broadcast_to(places, whole.shape).ravel(), first[name] + whole.ravel()))
                return leaves.gather(name, number, index)

            evaluate(group.root, replace(leaves, gather=gather))
    entry, parameter = (np.concatenate([f[k] for f in found]) for k in (0, 1))
    keys = np.unique(entry * max(at, 1) + parameter)
    return keys // max(at, 1), keys % max(at, 1)


def _pieces(group: FactorGroup, table: FactorTable, params: Mapping[str, Array]) -> Iterator[tuple[slice, Leaves]]:
    """Yield some tables at a time, with the leaves that evaluate them."""
    codes = dict(enumerate(np.unravel_index(np.arange(table.values), table.sizes))) if table.sizes else {}
    step = max(1, ENTRIES_AT_ONCE // table.values)
    for start in range(0, table.count, step):
        rows = slice(start, min(table.count, start + step))
        yield rows, numpy_leaves(group.columns, group.tables, codes, rows, params)
