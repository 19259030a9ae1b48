"""The numbers of edges whose ends are known; a pair that is not an edge is an error."""

from __future__ import annotations

import numpy as np

from .._diagnostics import fail, listed
from ..program import ir
from ._graph_arrays import GraphArrays

Array = np.ndarray


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
