"""W825: the rows of an input of edges are not in the order in which parameters have their entries."""

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
    """A note for each graph with a parameter over its edges that has another order than the input that lists them."""
    for name, graph in bound.graphs.items():
        if graph.given is None or np.array_equal(graph.given, graph.edges):
            continue
        moved = not np.array_equal(np.sort(graph.given, axis=1), graph.edges)
        names = [p.name for m in bound.program.models.values() for p in m.parameters.values() if _differs(p, name, moved)]
        if names:
            yield _note(bound.program.graphs[name], name, sorted(set(names)), graph.given, graph.edges)


def _differs(p: ir.Parameter, graph: str, moved: bool) -> bool:
    """Whether an array of a parameter reads otherwise: its entries are moved, or those of an edge depend on which end is first."""
    axes = [a.over for a in p.axes]
    return any(a.graph == graph and a.part == "edges" and (moved or swaps_further(axes[k + 1 :])) for k, a in enumerate(axes))


def _note(call: ir.FormCall, name: str, parameters: list[str], given: Array, edges: Array) -> Diagnostic:
    rows = call.arguments["pairs"]
    one = parameters[0]
    message = f"{listed([f'`{p}`' for p in parameters])} has one entry an edge in the order of `{name}.edges`, {_shown(edges)}"
    message += f"; the rows of `{rows}` are {_shown(given)}"
    i, j = given[0].tolist()
    help = f"name the pairs, `{one} = {{({i}, {j}): .., ..}}`, which may stand in any order; read `fit.params[{one!r}]` beside "
    help += f"`program.graph({name!r}).edges`; an `input` over `{name}.edges` has the order of `{rows}`; or sort `{rows}`"
    return Diagnostic("W825", message, call.span, "sorted here", help=help)


def _shown(pairs: Array) -> str:
    return ", ".join([*(f"({i}, {j})" for i, j in pairs[:MOST_SHOWN].tolist()), *([".."] if len(pairs) > MOST_SHOWN else [])])
