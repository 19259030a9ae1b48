"""A bound graph: its edges, arcs, rows and columns as arrays, and its edges by their ends.

`a[j, i]` is `a[i, j]`, and a pair that is not an edge is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from .._diagnostics import fail, listed
from ..program import ir

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


Index = TypeVar("Index")


def ends(axes: list[ir.SetOf], indices: Sequence[Index]) -> Iterator[tuple[ir.SetOf, Index, Index]]:
    """Yield each axis over edges or arcs with the two indices along it."""
    at = 0
    for over in axes:
        if over.is_edges:
            yield over, indices[at], indices[at + 1]
        at += over.arity


def is_unordered(over: ir.SetOf, graphs: Mapping[str, GraphArrays]) -> bool:
    """Return whether the members of a set are pairs that may be named from either end.

    This is so if both ends are nodes of one set.
    """
    return over.part == "edges" and not graphs[over.graph].bipartite


def swaps_further(axes: list[ir.SetOf]) -> bool:
    """Return whether reversing an edge swaps the axes after it.

    These must be exactly two axes over one domain.
    """
    return len(axes) == 2 and all(a.arity == 1 for a in axes) and _domain(axes[0]) == _domain(axes[1])


def lower_end_first(axes: list[ir.SetOf], indices: Sequence[Array], graphs: Mapping[str, GraphArrays]) -> list[Array]:
    """Return the indices of an array's entry with each edge named from its lower end."""
    out, at = list(indices), 0
    for k, over in enumerate(axes):
        if is_unordered(over, graphs):
            i, j = out[at : at + 2]
            turned = i > j
            out[at], out[at + 1] = np.minimum(i, j), np.maximum(i, j)
            if turned.any() and swaps_further(axes[k + 1 :]):
                p, q = out[at + 2 :]
                out[at + 2 :] = [np.where(turned, q, p), np.where(turned, p, q)]
        at += over.arity
    return out


def _domain(over: ir.SetOf) -> tuple[object, ...]:
    """Return what a set runs over as it is written, without its name.

    Sizes that are equal only for some inputs are different domains.
    """
    d = over.domain
    if d is None:
        return "range", over.size, over.graph, over.part
    return (d.kind, d.start, d.size, *d.labels) if d.of is None else _domain(d.of)


def edge_places(graph: GraphArrays, over: ir.SetOf, i: Array, j: Array, taken: Array | bool, e: ir.Expression) -> Array:
    """Return the place of each pair among the members of `over`.

    The place is 0 for a pair that does not count and is not an edge.

    Args:
        graph: the graph of the edges.
        over: the set of the axis, edges or arcs.
        i: the first ends.
        j: the second ends.
        taken: a mask of the pairs that count.
        e: the expression that is reported.

    Raises:
        GmlmError: E414 if a pair that counts is not an edge.
    """
    place = graph.edge_index(i, j, over.part == "arcs")
    bad = (place < 0) & np.asarray(taken)
    if bad.any():
        a, b = (int(np.broadcast_to(v, bad.shape)[bad][0]) for v in (i, j))
        help = _edges_at(graph, over, a, b)
        raise fail("E414", f"({a}, {b}) is not an edge of `{over.graph}`", e.span, "not an edge", help=help)
    return np.maximum(place, 0)


def entry_places(graph: GraphArrays, over: ir.SetOf, place: Array, turned: Array, as_given: bool) -> tuple[Array, Array]:
    """Return the places of edges in an array, and a mask of the edges that are reversed there.

    Args:
        graph: the graph of the edges.
        over: the set of the axis.
        place: the numbers of edges.
        turned: a mask of the edges that are named from their upper end.
        as_given: whether the array has the order and the ends of the input that lists the edges, as
            inputs have, instead of those of `G.edges`.
    """
    if not as_given or over.part != "edges":
        return place, turned
    rows, other = graph.rows_given
    return rows[place], turned ^ other[place]


def _edges_at(graph: GraphArrays, over: ir.SetOf, a: int, b: int) -> str:
    """Return the suggested fix for a pair that is not an edge: the edges near it."""
    if graph.edge_index(np.array([b]), np.array([a]), over.part == "arcs")[0] >= 0:
        return f"({b}, {a}) is one: write the node of the first kind first"
    pairs = graph.part(over.part)
    here = [f"({i}, {j})" for i, j in pairs[(pairs == a).any(axis=1)].tolist()]
    near = f"those of node {a} are {listed(here, 4)}" if here else f"node {a} has none"
    return f"{near}; a loop meets all: `for (i, j) in {over.graph}.{over.part}`"
