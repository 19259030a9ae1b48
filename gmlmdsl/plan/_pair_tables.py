"""The pair part of log p: how tables of pairs of cells follow from tables of factors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph, FactorGroup, grouped
from ._block_tables import factor_table
from ._table_entries import FactorTable
from .limits import MOST_PAIR_TERMS

if TYPE_CHECKING:
    import scipy.sparse

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class PairTables:
    """All pairs of cells that share a factor, and how their tables follow from tables of factors.

    Attributes:
        pairs: positions i < j, shape (pairs, 2), ascending.
        tables: the tables of the groups with pairs, concatenated in one vector of entries.
        sums: a sparse matrix of shape (pairs * width * width, entries). A pair's table, i slow and
            j fast, is the sum over its factors of their means over the values of the factors' other
            cells. Rows for values that a cell lacks are 0.
        width: the largest number of values of a cell.
        present: a mask of the entries of a pair's table that are joint values of its cells, shape
            (pairs, width, width).
    """

    pairs: Array
    tables: tuple[FactorTable, ...]
    sums: scipy.sparse.csr_array
    width: int
    present: Array


def plan_pair_tables(graph: FactorGraph) -> PairTables:
    """Return the pair tables of a graph; requirements do not contribute to them.

    Raises:
        GmlmError: E555 if no factor joins two cells, or if a factor that does reads given data;
            E601 for too many terms.
    """
    import scipy.sparse

    width, cells = int(graph.sizes.max(initial=1)), graph.n_random
    keys, places, entries, weights, tables, start = [], [], [], [], [], 0
    for k, group in enumerate(graph.factors):
        pieces = list(_patterns(graph, group))
        if not pieces:
            continue
        if group.given is not None:
            why = "a factor that joins two cells reads given data: the coupling is another one in each row"
            raise fail("E555", why, group.span, help="`model.log_conditional(.., given=..)` tells what it does in one row")
        table = factor_table(k, group, np.append(graph.sizes, 1), start)
        terms = sum(float(len(rows)) * len(scope) ** 2 / 2 * np.prod(graph.sizes[group.cells[rows[0], scope]]) for rows, scope, _ in pieces)
        if table is None or terms > MOST_PAIR_TERMS:
            message = f"the couplings of these factors need {terms:.3g} terms"
            raise fail("E601", f"{message}, more than the limit of {MOST_PAIR_TERMS:.3g}", group.span)
        tables.append(table)
        start += table.entries
        for rows, scope, same in pieces:
            for found in _terms(graph, group, table, (rows, scope, same), width):
                for kept, part in zip((keys, places, entries, weights), found, strict=True):
                    kept.append(part.ravel())
    if not keys:
        raise fail("E555", "no factor joins two cells: there are no couplings", help="`fit.summary()` has the estimates")
    key, place, entry, weight = (np.concatenate(a) for a in (keys, places, entries, weights))
    distinct, number = np.unique(key, return_inverse=True)
    pairs = np.stack([distinct // cells, distinct % cells], axis=1)
    shape = len(pairs) * width**2, start
    sums = scipy.sparse.coo_array((weight, (number * width**2 + place, entry)), shape=shape).tocsr()
    values = np.arange(width)
    i, j = (graph.sizes[pairs[:, s], None] > values for s in (0, 1))
    return PairTables(pairs, tuple(tables), sums, width, i[:, :, None] & j[:, None, :])


def _patterns(graph: FactorGraph, group: FactorGroup) -> Iterator[tuple[Array, Array, Array]]:
    """Yield instances with one pattern of slots and at least two cells.

    Each pattern comes as (instances, the slots of distinct cells, for each slot the first slot with
    the same cell).
    """
    cells, sizes = group.cells, np.append(graph.sizes, 1)
    if cells.shape[1] < 2 or not group.n:
        return
    same = (cells[:, :, None] == cells[:, None, :]).argmax(axis=2)
    for pattern, rows in grouped(np.concatenate([same, sizes[cells]], axis=1)):
        first, values = pattern[: cells.shape[1]], pattern[cells.shape[1] :]
        scope = np.flatnonzero((first == np.arange(len(first))) & (values > 1))
        if len(scope) > 1:
            yield rows, scope, first


def _terms(
    graph: FactorGraph, group: FactorGroup, table: FactorTable, alike: tuple[Array, Array, Array], width: int
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield for each two cells of such instances (pair, place in its table, entry, weight).

    Each array has shape (instances, joint values).
    """
    rows, scope, same = alike
    sizes = graph.sizes[group.cells[rows[0], scope]]
    codes = np.indices(sizes.tolist()).reshape(len(scope), -1)
    slot = {int(s): n for n, s in enumerate(scope)}
    inside = sum(table.strides[s] * codes[slot[int(f)]] for s, f in enumerate(same) if int(f) in slot)
    entry = table.start + (0 if table.shared else rows[:, None] * table.values) + np.broadcast_to(inside, (len(rows), codes.shape[1]))
    for a in range(len(scope)):
        for b in range(a + 1, len(scope)):
            i, j = (group.cells[rows, scope[k]].astype(np.int64)[:, None] for k in (a, b))
            place = np.where(i < j, codes[a] * width + codes[b], codes[b] * width + codes[a])
            pair = np.minimum(i, j) * graph.n_random + np.maximum(i, j)
            weight = np.full(place.shape, sizes[a] * sizes[b] / codes.shape[1])
            yield np.broadcast_to(pair, place.shape), place, entry, weight
