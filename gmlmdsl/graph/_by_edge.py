"""Arrays whose entries are named, in any order: a dict, a series, a frame or an xarray array.

Entries over edges are named by pairs of nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .._diagnostics import fail, listed
from .._types import InputLike, Label
from ..program import ir
from ..read import as_frame, has_labels, in_program_order, is_frame, is_series
from ._bound import Bound
from ._graph_arrays import is_unordered, swaps_further
from .limits import MOST_SHOWN_EDGES

Array = np.ndarray


class EdgeNames:
    """The names of the entries along one axis over edges or arcs, built when they are first used.

    Attributes:
        axis: the number of the array's axis.
    """

    def __init__(self, bound: Bound, axes: Sequence[ir.SetOf], axis: int, as_given: bool = False):
        self._bound, self._over, self.axis = bound, axes[axis], axis
        self._swaps = is_unordered(axes[axis], bound.graphs) and swaps_further(list(axes[axis + 1 :]))
        # Entries have the order of the rows of `pairs` if this is True, as in inputs, else that of
        # `G.edges`.
        self._as_given = as_given

    @cached_property
    def pairs(self) -> Array:
        """The pairs in the order of the array's entries."""
        graph = self._bound.graphs[self._over.graph]
        return graph.given if self._as_given and graph.given is not None and self._over.part == "edges" else graph.part(self._over.part)

    @cached_property
    def _places(self) -> dict[Hashable, tuple[int, bool]]:
        """The place of each name's entry, and whether the name states the ends in reverse order."""
        bound, graph = self._bound, self._bound.graphs[self._over.graph]
        left = bound.node_labels(self._over.graph)
        right = bound.right_labels(self._over.graph) if graph.bipartite else left
        # Another function reports labels that do not fit.
        if len(left) < graph.n or len(right) < graph.n_right:
            left = right = tuple(range(max(graph.n, graph.n_right)))
        out: dict[Hashable, tuple[int, bool]] = {}
        for number, (i, j) in enumerate(self.pairs.tolist()):
            for a, b in ((i, j), (left[i], right[j])):  # Labels override numbers.
                names = [((a, b), False), (f"{a}, {b}", False)]
                if is_unordered(self._over, bound.graphs):
                    names += [((b, a), True), (f"{b}, {a}", True)]
                out |= {name: (number, turned) for name, turned in names}
        return out

    def in_order(self, names: Sequence[Label], entries: Sequence[Any], what: str) -> list[Any]:
        """Return named entries in the order of the edges.

        Args:
            names: the name of each entry.
            entries: the entries.
            what: how messages call the array.

        Raises:
            GmlmError: E414 for a name of no edge, E507 for an edge that is named twice or not at
                all.
        """
        out: dict[int, Any] = {}
        graph, pairs = self._over.graph, self.pairs
        for name, entry in zip(names, entries, strict=True):
            key = tuple(e.item() if isinstance(e, np.generic) else e for e in name) if isinstance(name, list | tuple) else name
            if key not in self._places:
                message = f"{what}: {key!r} is not a member of `{graph}.{self._over.part}`"
                raise fail("E414", message, help=f"its members are {_shown(pairs)}; an entry is named by its pair, `(i, j)`")
            place, turned = self._places[key]
            if place in out:
                raise fail(
                    "E507", f"{what} names ({pairs[place, 0]}, {pairs[place, 1]}) twice", help="name each pair once, from either end"
                )
            out[place] = entry.T if turned and self._swaps else entry
        lacking = [k for k in range(len(pairs)) if k not in out]
        if lacking:
            raise fail("E507", f"{what} lacks {_shown(pairs[lacking])}", help=f"name every member of `{graph}.{self._over.part}`")
        return [out[k] for k in range(len(pairs))]


def _shown(pairs: Array) -> str:
    named = [f"({i}, {j})" for i, j in pairs[:MOST_SHOWN_EDGES].tolist()]
    return listed([*named, *[""] * (len(pairs) - len(named))], MOST_SHOWN_EDGES)


def by_name(
    value: InputLike | None,
    edges: Sequence[EdgeNames],
    dims: Sequence[str],
    coords: Sequence[Sequence[Label]],
    what: str,
    code: str = "E506",
) -> InputLike | None:
    """Return a value in the program's order if its entries are named, and unchanged otherwise.

    Entries over edges are named by their pairs.

    Args:
        value: a dict by pair, a series or frame, an xarray array, or an array without names.
        edges: the names along the axes over edges.
        dims: the names of all axes.
        coords: the labels of the entries along each axis.
        what: how messages call the value.
        code: the error code for labels that are not those of the axes.

    Raises:
        GmlmError: E414 or E507 unless every edge is named exactly once; `code` for other labels.
    """
    if isinstance(value, Mapping):
        if not edges:
            return value
        if len(edges) > 1 or edges[0].axis:
            raise fail("E507", f"{what} is a dict by pair, and edges are not its first axis alone", help="give an array, or one of xarray")
        entries = [e if hasattr(e, "T") else np.asarray(e) for e in value.values()]
        return edges[0].in_order(list(value), entries, what)
    if not has_labels(value):
        return value
    own = {name: labels for name in edges if (labels := _labels_of(value, name.axis, dims)) is not None}
    axes = {name.axis: labels for name, labels in own.items()}
    array = in_program_order(value, dims, [axes.get(k, labels) for k, labels in enumerate(coords)], what, code)
    for name, labels in own.items():
        entries = list(np.moveaxis(np.asarray(array), name.axis, 0))
        array = np.moveaxis(np.stack(name.in_order(labels, entries, what)), 0, name.axis)
    return array


def _labels_of(value: Any, axis: int, dims: Sequence[str]) -> list[Label] | None:
    """Return the labels of a value along one axis.

    Return None if the value has no labels there, or if they only count from 0.
    """
    if is_frame(value):
        frame = as_frame(value)
        found = (frame.index, frame.columns)[axis + 2 - len(dims)] if len(dims) <= 2 else None
    elif is_series(value):
        found = value.index if len(dims) == 1 else None
    else:
        dim = dims[axis] if dims[axis] in value.dims else value.dims[axis] if axis < value.ndim else None
        found = value.indexes.get(dim)
    return None if found is None or list(found) == list(range(len(found))) else list(found)
