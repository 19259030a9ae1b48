"""Edges that may be named from either end: `a[j, i]` is `a[i, j]`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

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
