"""Blocks of free cells that share no factor, with the tables that each of them touches.

Updates of single cells, as in coordinate ascent or heat baths, are made for a whole block at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

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
    """

    tables: ClampedTables
    cells: Array
    edges: tuple[tuple[int, int, Array], ...]

    @cached_property
    def unary(self) -> Array:
        """The factors of one cell, shape (values, n)."""
        of: SizeClass = self.tables.classes[self.tables.class_of[self.cells[0]]]
        return of.unary[:, self.cells - of.start]

    @cached_property
    def _order(self) -> tuple[Array, Array, Array]:
        """The edges in the order of their cells, the first edge of each cell, and the cells with edges."""
        found = [self.tables.groups[g].cells[rows, s] for g, s, rows in self.edges]
        cells = np.searchsorted(self.cells, np.concatenate([np.zeros(0, int), *found]))
        order = np.argsort(cells, kind="stable")
        touched, first = np.unique(cells[order], return_index=True)
        return order, first, touched

    def summed(self, parts: Sequence[Array], unary: Array) -> Array:
        """Return the sums over the factors of each cell, plus the factors of one cell.

        Args:
            parts: for each entry of `edges`, an array of shape (values, factors, *rest).
            unary: the factors of one cell, shape (values, n, *ones).
        """
        if not parts:
            return unary
        order, first, touched = self._order
        sums = np.add.reduceat(np.concatenate(parts, axis=1)[:, order], first, axis=1)
        if len(touched) == len(self.cells):
            return sums + unary
        found = np.zeros((len(unary), len(self.cells), *sums.shape[2:]))
        found[:, touched] = sums
        return found + unary


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
    return [ColourBlock(tables, np.flatnonzero(which == k), tuple(edges[k])) for k in range(len(kinds))]


def _edges(tables: ClampedTables, block: Array, count: int) -> Iterator[tuple[int, int, Array, int]]:
    """Yield the group, the slot, the factors and the block of the edges of each block."""
    for g, group in enumerate(tables.groups):
        for s in range(group.cells.shape[1]):
            mine = block[group.cells[:, s]]
            order = np.argsort(mine, kind="stable")
            ends = np.searchsorted(mine[order], np.arange(count + 1))
            for k in np.flatnonzero(np.diff(ends)).tolist():
                yield g, s, order[ends[k] : ends[k + 1]], k
