"""Neighbours of single cells, read directly from the factors' index arrays.

This is possible if no two factors have the same cells around a cell. Each use of a factor by one of
its cells is then a neighbour of that cell. The neighbour consists of the factor's other cells, and
no contexts need to be compared. `plan/_block_tables.py`, which joins equal contexts by sorting,
covers all other cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import FactorGraph
from ._table_entries import FactorTable
from .limits import MOST_KEY

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class CellLists:
    """The entries and neighbours that single cells read.

    Attributes:
        inside: entries of factors of one cell, shape (cells, several, values).
        kinds: neighbours grouped by width, as in `NeighbourLists` without the axis of colours. Each
            kind has three arrays: the other cells, shape (cells, degree, members), with the number
            of cells for none; their place values; and entries, shape (cells, 1, values, degree,
            width).
    """

    inside: Array
    kinds: tuple[tuple[Array, Array, Array], ...]


@dataclass(frozen=True, eq=False)
class _Uses:
    """The uses of a factor's table through one slot.

    Attributes:
        cell: the cell, among those given, of each use.
        first: the first entry of each use's table.
        step: the stride of the cell's value in the table.
        others: the other cells of each use.
        steps: the strides of their values.
        width: the number of joint values of the other cells.
    """

    cell: Array
    first: Array
    step: int
    others: Array
    steps: tuple[int, ...]
    width: Array


def cell_lists(graph: FactorGraph, tables: Sequence[FactorTable], none: int, cells: Array) -> CellLists | None:
    """Return the lists of distinct cells.

    The result is None if a factor contains a cell twice, or if two factors have the same cells
    around a cell.

    Args:
        graph: the factor graph.
        tables: the tables of its factors.
        none: the entry that adds 0.
        cells: the cells, padded with the number of cells.
    """
    sizes, at = np.append(graph.sizes, 1).astype(np.int32), np.full(graph.n_cells + 1, -1)
    at[cells] = np.arange(len(cells))
    at[-1] = -1
    found: list[_Uses] = []
    for t in tables:
        mine = graph.groups[t.group].cells
        if (mine == graph.n_cells).any() or _repeats(mine):
            return None
        found += [_uses(t, s, mine, at, sizes) for s in range(mine.shape[1])]
    values = int(sizes[cells].max(initial=1))
    inside, around = [u for u in found if not u.steps], [u for u in found if u.steps]
    alone = _filled(inside, none, len(cells), graph.n_cells, sizes, values)[2]
    widths = sorted({int(w) for u in around for w in _bounds(u.width)})
    kinds = []
    for low, high in zip([0, *widths], widths, strict=False):
        kind = [k for u in around if len((k := _within(u, low, high)).cell)]
        if kind and _any_equal(kind, graph.n_cells):
            return None
        kinds += [_filled(kind, none, len(cells), graph.n_cells, sizes, values)] if kind else []
    return CellLists(np.moveaxis(alone[:, 0, :, :, 0], 2, 1), tuple(kinds))


def _repeats(cells: Array) -> bool:
    """Return whether a row contains a cell twice."""
    columns = cells.T
    return any((columns[a] == columns[b]).any() for a in range(len(columns)) for b in range(a))


def _uses(table: FactorTable, slot: int, cells: Array, at: Array, sizes: Array) -> _Uses:
    here = at[cells[:, slot]]
    use = np.flatnonzero(here >= 0)
    first = np.full(len(use), table.start, np.int64) if table.shared else table.start + use * table.values
    rest = [s for s in range(cells.shape[1]) if s != slot]
    others, width = np.empty((len(use), len(rest)), np.int32), np.ones(len(use), np.int64)
    for k, s in enumerate(rest):
        others[:, k] = cells[use, s]
        width *= sizes[others[:, k]]
    steps = tuple(int(s) for s in table.strides)
    return _Uses(here[use], first, steps[slot], others, tuple(steps[s] for s in rest), width)


def _bounds(width: Array) -> Array:
    """Return the distinct powers of two at or above the widths."""
    least, most = width.min(initial=1), width.max(initial=1)
    return 2 ** np.unique(np.ceil(np.log2(np.array([least]) if least == most else width))).astype(np.int64)


def _within(u: _Uses, low: int, high: int) -> _Uses:
    """Return the uses whose widths are above `low` and at most `high`."""
    if u.width.min(initial=high) > low and u.width.max(initial=0) <= high:
        return u
    some = (u.width > low) & (u.width <= high)
    return _Uses(u.cell[some], u.first[some], u.step, u.others[some], u.steps, u.width[some])


def _any_equal(uses: Sequence[_Uses], n: int) -> bool:
    """Return whether a cell has two contexts of the same cells.

    The result is True as well if the comparison is too large to make.
    """
    most = max(len(u.steps) for u in uses)
    if (n + 1.0) ** (most + 1) > MOST_KEY:
        return True
    keys = []
    for u in uses:
        key = u.cell
        for column in np.sort(np.pad(u.others, ((0, 0), (0, most - len(u.steps))), constant_values=n), axis=1).T:
            key = key * (n + 1) + column
        keys.append(key)
    found = np.sort(np.concatenate(keys))
    return bool((found[1:] == found[:-1]).any())


def _filled(uses: Sequence[_Uses], none: int, count: int, n: int, sizes: Array, values: int) -> tuple[Array, Array, Array]:
    """Return the uses of each cell side by side: other cells, their place values, and entries.

    If there are no other cells, only the entries are filled.
    """
    cell = np.concatenate([u.cell for u in uses] or [np.zeros(0, np.int64)])
    # The uses are sorted by cell.
    order = np.sort(cell * max(len(cell), 1) + np.arange(len(cell))) % max(len(cell), 1)
    counts = np.bincount(cell, minlength=count)
    degree, members = max(1, int(counts.max(initial=0))), max((len(u.steps) for u in uses), default=0)
    place = np.repeat(np.arange(count) * degree - np.cumsum(counts) + counts, counts) + np.arange(len(cell))

    def side_by_side(columns: Sequence[Array], empty: int) -> Array:
        out = np.full(count * degree, empty, np.int32)
        out[place] = np.concatenate(columns)[order] if columns else 0
        return out.reshape(count, degree)

    def each(values: Sequence[int]) -> list[Array]:
        return [np.broadcast_to(np.int64(v), len(u.cell)) for u, v in zip(uses, values, strict=True)]

    others = [side_by_side([u.others[:, m] if m < len(u.steps) else each([n])[0] for u in uses], n) for m in range(members)]
    radix = [sizes[o] for o in others]
    strides = [np.prod(radix[m + 1 :], axis=0, dtype=np.int32) if m + 1 < members else np.ones_like(radix[m]) for m in range(members)]
    width = max((int(u.width.max(initial=1)) for u in uses), default=1)
    first, step = side_by_side([u.first for u in uses], none), side_by_side(each([u.step for u in uses]), 0)
    entries = (first[:, None, :] + step[:, None, :] * np.arange(values, dtype=np.int32)[:, None])[..., None]
    for m in range(members):
        code = np.arange(width, dtype=np.int32)
        # The code must stay in the table even for values that a context lacks.
        if members > 1 or radix[m].min() < width:
            code = code // strides[m][..., None] % radix[m][..., None]
        of = side_by_side(each([u.steps[m] if m < len(u.steps) else 0 for u in uses]), 0)
        entries = entries + (of[..., None] * code)[:, None]
    empty = np.zeros((count, degree, 0), np.int32)
    # Entries of values that a cell lacks may lie beyond the last table.
    entries = np.minimum(entries, none)
    return np.stack(others, axis=-1) if members else empty, np.stack(strides, axis=-1) if members else empty, entries[:, None]
