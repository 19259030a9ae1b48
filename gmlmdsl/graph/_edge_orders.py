"""W825: an input lists edges in another order than parameters and data have their entries in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._diagnostics import Diagnostic, listed
from ..program import ir
from ._bound import Bound
from ._ends import swaps_further

Array = np.ndarray
MOST_SHOWN = 3


def edge_orders(bound: Bound) -> Iterator[Diagnostic]:
    """Yield W825 for each graph that orders its edges differently from the input that lists them.

    A graph counts only if a parameter or a variable runs over its edges.
    """
    for name, graph in bound.graphs.items():
        if graph.given is None or np.array_equal(graph.given, graph.edges):
            continue
        moved = not np.array_equal(np.sort(graph.given, axis=1), graph.edges)
        models = bound.program.models.values()
        parameters = [p.name for m in models for p in m.parameters.values() if _differs(p, name, moved)]
        variables = [v.name for m in models for v in m.variables.values() if _differs(v, name, moved)]
        if parameters or variables:
            help = _naming(name, parameters, bound.program.graphs[name], graph.given)
            yield _note(bound.program.graphs[name], name, [*dict.fromkeys(parameters + variables)], graph.given, graph.edges, help)


def _differs(p: ir.Parameter | ir.Variable, graph: str, moved: bool) -> bool:
    """Return whether the order of the input changes the reading of an array.

    This is so if its entries move, or if the entries of an edge depend on which end is first.
    """
    axes = [a.over for a in p.axes]
    return any(a.graph == graph and a.part == "edges" and (moved or swaps_further(axes[k + 1 :])) for k, a in enumerate(axes))


def _naming(graph: str, parameters: list[str], call: ir.FormCall, given: Array) -> str:
    rows, edges = call.arguments["pairs"], f"`program.graph({graph!r}).edges`"
    if not parameters:
        return f"order data as {edges} lists the pairs; an `input` over `{graph}.edges` has the order of `{rows}`; or sort `{rows}`"
    (i, j), one = given[0].tolist(), parameters[0]
    help = f"name the pairs, `{one} = {{({i}, {j}): .., ..}}`, which may stand in any order; read `fit.params[{one!r}]` beside {edges}; "
    return help + f"an `input` over `{graph}.edges` has the order of `{rows}`; or sort `{rows}`"


def _note(call: ir.FormCall, name: str, arrays: list[str], given: Array, edges: Array, help: str) -> Diagnostic:
    has = "have" if len(arrays) > 1 else "has"
    message = f"{listed(arrays)} {has} one entry an edge in the order of `{name}.edges`, {_shown(edges)}"
    message += f"; the rows of `{call.arguments['pairs']}` are {_shown(given)}"
    return Diagnostic("W825", message, call.span, "sorted here", help=help)


def _shown(pairs: Array) -> str:
    return ", ".join([*(f"({i}, {j})" for i, j in pairs[:MOST_SHOWN].tolist()), *([".."] if len(pairs) > MOST_SHOWN else [])])
