"""Construction of the arrays of a graph: edges, arcs, rows and columns."""

from __future__ import annotations

import math

import numpy as np

from .._diagnostics import fail
from ..program import ir
from ._bound import Bound, sizes_help
from ._graph_arrays import GraphArrays
from .limits import MOST_GRAPH_SIZE

Array = np.ndarray


def build_graph(call: ir.FormCall, bound: Bound) -> GraphArrays:
    """Return the arrays of a graph form."""
    arguments = call.arguments
    wrap = bool(arguments.get("wrap", False))
    match call.form.name:
        case "grid":
            return _grid(_lengths(call, bound), wrap, call)
        case "triangular":
            return _triangular(_lengths(call, bound), wrap, call)
        case "chain":
            n = _size(arguments["n"], bound)
            _verify_count(n - (not wrap), call)
            _verify_wrap(n, wrap, call)
            return GraphArrays(n, _sorted_edges(_line(np.arange(n)[None, :], wrap)))
        case "complete":
            n = _size(arguments["nodes"], bound)
            _verify_count(n * (n - 1) // 2, call)
            return GraphArrays(n, np.stack(np.triu_indices(n, 1), axis=1))
        case "bipartite":
            a, b = _size(arguments["a"], bound), _size(arguments["b"], bound)
            _verify_count(a * b, call)
            return GraphArrays(a, np.stack(np.divmod(np.arange(a * b), b), axis=1), bipartite=True, n_right=b)
        case _:
            return _from_input(call, bound)


def graph_size(call: ir.FormCall, bound: Bound) -> int:
    """Return the approximate number of edges of a graph form, before its arrays are built.

    For a form that only states nodes it is the number of nodes.

    Raises:
        GmlmError: E406 for a size below 1, E412 if there are more edges than any program may have.
    """
    found = {name: _size(call.arguments[name], bound) for name in ("n", "m", "nodes", "a", "b") if name in call.arguments}
    match call.form.name:
        case "grid":
            size = len(_lengths(call, bound)) * math.prod(_lengths(call, bound))
        case "triangular":
            size = 3 * math.prod(_lengths(call, bound))
        case "complete":
            size = found["nodes"] * (found["nodes"] - 1) // 2
        case "bipartite":
            size = found["a"] * found["b"]
        case _:
            return sum(found.values())
    _verify_count(size, call)
    return size


def _size(value: object, bound: Bound) -> int:
    if isinstance(value, ir.SetOf):
        return bound.set_size(value)
    size = bound.integer(value)  # type: ignore[arg-type]
    if size < 1:
        message = f"this graph has {size} nodes along an axis, less than 1"
        raise fail("E406", message, value.span, f"size {size}", help=sizes_help(value))  # type: ignore[attr-defined]
    return size


def _lengths(call: ir.FormCall, bound: Bound) -> tuple[int, ...]:
    """Return the length of each axis of a lattice."""
    found = call.arguments
    return tuple(_size(size, bound) for size in (found["n"], found["m"], *found.get("axes", ())))  # type: ignore[misc]


def _verify_count(edges: int, call: ir.FormCall) -> None:
    if edges > MOST_GRAPH_SIZE:
        message = f"the graph has {edges:,} edges, more than {MOST_GRAPH_SIZE:,}"
        raise fail("E412", message, call.span, "too large")


def _line(nodes: Array, wrap: bool) -> Array:
    """Return the pairs of neighbours along the last axis of `nodes`."""
    pairs = [np.stack([nodes[..., :-1], nodes[..., 1:]], axis=-1).reshape(-1, 2)]
    if wrap:
        pairs.append(np.stack([nodes[..., -1], nodes[..., 0]], axis=-1).reshape(-1, 2))
    return np.concatenate(pairs)


def _sorted_edges(pairs: Array) -> Array:
    """Return each unordered pair once, sorted, with i < j.

    A wrapped axis of length two therefore gives one edge.
    """
    return np.unique(np.sort(pairs, axis=1), axis=0).reshape(-1, 2)


def _verify_wrap(n: int, wrap: bool, call: ir.FormCall) -> None:
    if wrap and n == 1:
        raise fail(
            "E405",
            "an axis of length 1 wraps each node onto itself",
            call.span,
            "a self-loop",
            help="leave `wrap` out, or use a longer axis",
        )


def _grid(lengths: tuple[int, ...], wrap: bool, call: ir.FormCall) -> GraphArrays:
    n = math.prod(lengths)
    _verify_count(len(lengths) * n, call)
    _verify_wrap(min(lengths), wrap, call)
    nodes = np.arange(n).reshape(lengths)
    edges = _sorted_edges(np.concatenate([_line(np.moveaxis(nodes, axis, -1), wrap) for axis in range(len(lengths))]))
    if len(lengths) > 2:
        return GraphArrays(n, edges)
    return GraphArrays(n, edges, rows=nodes, columns=np.ascontiguousarray(nodes.T))


def _triangular(lengths: tuple[int, ...], wrap: bool, call: ir.FormCall) -> GraphArrays:
    """Return a triangular lattice.

    In a wrapped lattice with two rows or columns, coinciding edges are one edge.
    """
    n, m = lengths
    _verify_count(3 * n * m, call)
    lattice = _grid(lengths, wrap, call)
    row, column = np.divmod(np.arange(n * m), m)
    inside = np.full(n * m, True) if wrap else (row < n - 1) & (column < m - 1)
    diagonal = np.stack([np.arange(n * m), (row + 1) % n * m + (column + 1) % m], axis=1)[inside]
    return GraphArrays(n * m, _sorted_edges(np.concatenate([lattice.edges, diagonal])))


def _from_input(call: ir.FormCall, bound: Bound) -> GraphArrays:
    name = call.arguments["pairs"]
    assert isinstance(name, str)
    pairs, n = bound.inputs[name], _size(call.arguments["nodes"], bound)
    where = call.span
    if n > MOST_GRAPH_SIZE:
        message = f"the graph has {n:,} nodes, more than {MOST_GRAPH_SIZE:,}"
        raise fail("E412", message, where, "too large")
    if pairs.shape[1] != 2:
        raise fail("E405", f"`{name}` must have shape (edges, 2), got {pairs.shape}", where)
    if pairs.size and (pairs.min() < 0 or pairs.max() >= n):
        row = int(np.argmax(((pairs < 0) | (pairs >= n)).any(axis=1)))
        message = f"row {row} of `{name}` is ({pairs[row, 0]}, {pairs[row, 1]}): the nodes are 0..{n - 1}"
        help = f"nodes are counted from 0; for all that `{name}` names write `nodes = {int(pairs.max()) + 1}`"
        raise fail("E405", message, where, "a node that is not there", help=help if pairs.min() >= 0 else "nodes are counted from 0")
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(loops):
        message = f"row {loops[0]} of `{name}` joins node {pairs[loops[0], 0]} to itself"
        raise fail("E405", message, where, "a self-loop", help="a field on one cell is a factor of its own")
    ends = np.sort(pairs, axis=1)
    edges, counts = np.unique(ends, axis=0, return_counts=True)
    if (counts > 1).any():
        i, j = edges[np.argmax(counts > 1)]
        message = f"`{name}` holds the pair ({i}, {j}) more than once"
        raise fail("E405", message, where, "a repeated pair", help="list each unordered pair once")
    return GraphArrays(n, edges.reshape(-1, 2), given=pairs)
