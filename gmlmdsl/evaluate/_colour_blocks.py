"""Blocks of free cells that share no factor, with the tables that each of them touches.

Updates of single cells, as in coordinate ascent or heat baths, are made for a whole block at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # submodules of SciPy load at first use

from ..graph import FactorGraph
from ..graph.colours import colour
from ._clamped_tables import ClampedTables, SizeClass

Array = np.ndarray


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
