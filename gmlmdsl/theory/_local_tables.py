"""Factors as tables over the cells that each mentions, in float64, for closed-form results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph, FactorGroup
from ..graph.nodes import evaluate, numpy_leaves
from .limits import MOST_TABLE_ENTRIES

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class LocalTables:
    """Factors whose tables have one shape.

    Attributes:
        group: the factors.
        cells: the distinct cells of each factor, ascending, shape (factors, axes).
        sizes: the number of values along each axis.
        axes: the axis of each slot of the group; -1 for a slot without a cell.
    """

    group: FactorGroup
    cells: Array
    sizes: tuple[int, ...]
    axes: tuple[int, ...]

    def values(self, params: Mapping[str, Array]) -> Array:
        """Return the tables at parameters, shape (factors, *sizes).

        A `require` is 0 at values that satisfy it, and -inf elsewhere.
        """
        count = int(np.prod(self.sizes, dtype=np.int64))
        grid = [*np.unravel_index(np.arange(count), self.sizes)] if self.sizes else []
        nothing = np.zeros(count, np.int64)
        codes = {slot: grid[axis] if axis >= 0 else nothing for slot, axis in enumerate(self.axes)}
        leaves = numpy_leaves(self.group.columns, self.group.tables, codes, slice(0, self.group.n), params)
        with np.errstate(all="ignore"):
            found = np.asarray(evaluate(self.group.root, leaves))
        if self.group.kind == "require":
            found = np.where(found.astype(bool), 0.0, -np.inf)
        return np.broadcast_to(found.astype(np.float64), (self.group.n, count)).reshape(self.group.n, *self.sizes)


def local_tables(graph: FactorGraph, what: str) -> list[LocalTables]:
    """Return the tables of all factors and requirements of a graph.

    Raises:
        GmlmError: E601 with the number of entries if tables are too large.
    """
    return [t for group in graph.groups for t in _of_group(graph, group, what)]


def _of_group(graph: FactorGraph, group: FactorGroup, what: str) -> list[LocalTables]:
    if not group.cells.shape[1]:
        return [LocalTables(group, group.cells, (), ())]
    none = graph.n_random  # the row cell and the padding are not cells of variables
    slots = np.minimum(group.cells, none)
    ordered = np.sort(slots, axis=1)
    repeated = np.concatenate([np.zeros((group.n, 1), bool), ordered[:, 1:] == ordered[:, :-1]], axis=1)[:, : slots.shape[1]]
    distinct = np.sort(np.where(repeated, none, ordered), axis=1)
    axis_of = np.where(slots < none, (slots[:, :, None] == distinct[:, None, :]).argmax(axis=2), -1)
    sizes = np.append(graph.sizes[:none], 1)[distinct]
    kinds, kind = np.unique(np.concatenate([axis_of, sizes, distinct < none], axis=1), axis=0, return_inverse=True)
    out = []
    for k, row in enumerate(kinds):
        members, width = np.flatnonzero(kind.reshape(-1) == k), slots.shape[1]
        used = int(row[2 * width :].sum())
        shape = tuple(row[width : width + used].tolist())
        entries = len(members) * float(np.prod(np.array(shape, float)))
        if entries > MOST_TABLE_ENTRIES:
            message = f"{what} lists the tables of all factors: {len(members):,} of shape {shape} have {entries:.3g} entries"
            help = "take factors over fewer cells"
            raise fail("E601", f"{message}, more than the limit of {MOST_TABLE_ENTRIES:,}", group.span, help=help)
        out.append(LocalTables(group.take(members), distinct[members, :used], shape, tuple(row[:width].tolist())))
    return out
