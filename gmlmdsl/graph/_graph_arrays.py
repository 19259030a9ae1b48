"""A bound graph: its edges, arcs, rows and columns as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class GraphArrays:
    """A bound graph.

    Attributes:
        n: number of nodes (of the left side, for a bipartite graph).
        edges: integers of shape (edges, 2), i < j and sorted; for a bipartite graph (i in a, j in
            b).
        rows: node numbers of shape (rows, nodes per row), or None.
        columns: likewise.
        bipartite: whether the two ends are numbered apart.
        given: the edges as an input lists them, row by row, in whatever order and from either end;
            None where none does.
    """

    n: int
    edges: Array
    rows: Array | None = None
    columns: Array | None = None
    bipartite: bool = False
    n_right: int = 0
    given: Array | None = None

    @cached_property
    def rows_given(self) -> tuple[Array, Array]:
        """Of each edge the row of the input that lists it, and whether that row has its ends the other way round."""
        if self.given is None:
            return np.arange(len(self.edges)), np.zeros(len(self.edges), bool)
        order = np.lexsort((self.given.max(axis=1), self.given.min(axis=1)))
        return order, (self.given[:, 0] > self.given[:, 1])[order]

    def part(self, name: str) -> Array:
        """The members of `.nodes`, `.edges`, `.arcs`, `.triangles`, `.rows` or `.columns`."""
        match name:
            case "nodes":
                return np.arange(self.n)
            case "edges":
                return self.edges
            case "arcs":
                both = np.concatenate([self.edges, self.edges[:, ::-1]])
                return both[np.lexsort((both[:, 1], both[:, 0]))]
            case "triangles":
                return self.triangles
            case "rows":
                assert self.rows is not None
                return self.rows
            case _:
                assert self.columns is not None
                return self.columns

    @cached_property
    def triangles(self) -> Array:
        """Three nodes of which each two are joined, i < j < k, sorted, shape (triangles, 3)."""
        nodes, degrees = self.neighbours
        first, second = self.edges.T if len(self.edges) else np.zeros((2, 0), int)
        third = nodes[second] if nodes.size else np.zeros((len(second), 0), int)
        there = np.arange(third.shape[1]) < degrees[second][:, None]
        keep = there & (third > second[:, None]) & (self.edge_index(first[:, None] + 0 * third, third) >= 0)
        row, column = np.nonzero(keep)
        found = np.stack([first[row], second[row], third[row, column]], axis=1)
        return found[np.lexsort(found.T[::-1])]

    @cached_property
    def neighbours(self) -> tuple[Array, Array]:
        """The neighbours of each node, ascending, in rows of one length, and how many of each row count."""
        both = self.part("arcs")
        degrees = np.bincount(both[:, 0], minlength=self.n) if len(both) else np.zeros(self.n, int)
        out = np.zeros((self.n, int(degrees.max(initial=0))), np.int64)
        out[np.arange(out.shape[1]) < degrees[:, None]] = both[:, 1]
        return out, degrees

    def edge_index(self, i: Array, j: Array, ordered: bool = False) -> Array:
        """The number of each edge (of each arc if `ordered`), -1 where there is none."""
        table = self.part("arcs") if ordered else self.edges
        width = max(self.n, self.n_right)
        low, high = (i, j) if ordered or self.bipartite else (np.minimum(i, j), np.maximum(i, j))
        keys, wanted = table[:, 0] * width + table[:, 1], low * width + high
        if len(keys) == 0:
            return np.full(np.shape(wanted), -1)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, at, -1)
