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
        n: the number of nodes; for a bipartite graph, of the left side.
        edges: integers of shape (edges, 2), sorted, with i < j. In a bipartite graph i is in `a`
            and j is in `b`.
        rows: node numbers of shape (rows, nodes per row), or None.
        columns: node numbers of shape (columns, nodes per column), or None.
        bipartite: whether the two sides are numbered separately.
        n_right: the number of nodes of the right side of a bipartite graph.
        given: the edges row by row as an input lists them, in any order and from either end; None
            if no input lists them.
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
        """The input row that lists each edge, and whether that row reverses its ends."""
        if self.given is None:
            return np.arange(len(self.edges)), np.zeros(len(self.edges), bool)
        order = np.lexsort((self.given.max(axis=1), self.given.min(axis=1)))
        return order, (self.given[:, 0] > self.given[:, 1])[order]

    def part(self, name: str) -> Array:
        """Return the members of a part: nodes, edges, arcs, triangles, rows or columns."""
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
        """Triples of pairwise joined nodes, i < j < k, sorted, shape (triangles, 3)."""
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
        """The neighbours of each node, ascending, in padded rows, and the degree of each node."""
        both = self.part("arcs")
        degrees = np.bincount(both[:, 0], minlength=self.n) if len(both) else np.zeros(self.n, int)
        out = np.zeros((self.n, int(degrees.max(initial=0))), np.int64)
        out[np.arange(out.shape[1]) < degrees[:, None]] = both[:, 1]
        return out, degrees

    def edge_index(self, i: Array, j: Array, ordered: bool = False) -> Array:
        """Return the number of each edge (of each arc if `ordered`), or -1 if there is none."""
        table = self.part("arcs") if ordered else self.edges
        width = max(self.n, self.n_right)
        low, high = (i, j) if ordered or self.bipartite else (np.minimum(i, j), np.maximum(i, j))
        keys, wanted = table[:, 0] * width + table[:, 1], low * width + high
        if len(keys) == 0:
            return np.full(np.shape(wanted), -1)
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, at, -1)
