"""Edges by their ends: `a[j, i]` is `a[i, j]`, and a pair that is not an edge is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from .._diagnostics import fail, listed
from ..program import ir
from ._graph_arrays import GraphArrays

Array = np.ndarray
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
