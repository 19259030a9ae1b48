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
        edges: integers of shape (edges, 2), i < j and sorted; for a bipartite graph (i in a, j in b).
        rows: node numbers of shape (rows, nodes per row), or None.
        columns: likewise.
        bipartite: whether the two ends are numbered apart.
        given: the edges as an input lists them, row by row, in whatever order and from either end; None where none does.
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
        """The members of `.nodes`, `.edges`, `.arcs`, `.rows` or `.columns`."""
        match name:
            case "nodes":
                return np.arange(self.n)
            case "edges":
                return self.edges
            case "arcs":
                both = np.concatenate([self.edges, self.edges[:, ::-1]])
                return both[np.lexsort((both[:, 1], both[:, 0]))]
            case "rows":
                assert self.rows is not None
                return self.rows
            case _:
                assert self.columns is not None
                return self.columns

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
