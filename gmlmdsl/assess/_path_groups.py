"""The penalised parameters of a path: the parameters of couplings, grouped by pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._diagnostics import fail
from ..evaluate import verify_names
from ..fit import Groups
from ..graph import FactorGraph
from ..plan import PairTables, entry_parameters, plan_pair_tables

Array = np.ndarray


@dataclass(frozen=True)
class Edges:
    """The groups of a path.

    Attributes:
        groups: the groups of entries of parameters.
        pairs: for each group, the pairs of positions i < j that it couples.
        names: the names of the groups.
        degrees: the number of free directions of each group.
        cells: the number of cells that have a coupling.
    """

    groups: Groups
    pairs: tuple[tuple[tuple[int, int], ...], ...]
    names: tuple[str, ...]
    degrees: Array
    cells: int


def edges_of(graph: FactorGraph, on: Sequence[str] | None) -> Edges:
    """Return the groups of a path.

    They contain the entries of real parameters in factors of two or more cells. Entries that stand
    in the tables of the same pairs form a group.

    Raises:
        GmlmError: E507 unless `on` is a list of names, E506 for unknown names, E555 if nothing is
            left to penalise.
    """
    names = [p.name for p in graph.parameters]
    if on is not None and (not isinstance(on, list | tuple) or not all(isinstance(name, str) for name in on)):
        raise fail(
            "E507", f"on must be a list of names of parameters, got {on!r}", help=f'`on=["{on}"]`' if isinstance(on, str) else '`on=["J"]`'
        )
    if on is not None:
        verify_names(dict.fromkeys(on), names, "on")
    plan = plan_pair_tables(graph)
    wanted = np.concatenate([np.full(p.size, p.kind == "real" and (on is None or p.name in on)) for p in graph.parameters])
    places, owners = _pairs_of_entries(graph, plan)
    members: dict[bytes, list[int]] = {}
    for k, start, end in zip(*_runs(places), strict=True):
        if wanted[k]:
            members.setdefault(owners[start:end].tobytes(), []).append(int(k))
    if not members:
        why = "no real parameter stands in a factor of two cells: there is nothing to penalise"
        raise fail("E555", why, help="give couplings a parameter of their own, such as `param J[(i, j) in G.edges]`")
    of, pairs = np.full(len(wanted), -1), []
    for number, (key, entries) in enumerate(members.items()):
        of[entries] = number
        pairs.append(tuple((int(i), int(j)) for i, j in plan.pairs[np.frombuffer(key, owners.dtype)]))
    shaped, at = {}, 0
    for p in graph.parameters:
        shaped[p.name] = of[at : at + p.size].reshape(p.shape)
        at += p.size
    counts = np.bincount(of[of >= 0], minlength=len(pairs))
    free = [np.prod(graph.sizes[list(own[0])] - 1) if len(own) == 1 else n for own, n in zip(pairs, counts, strict=True)]
    cell = graph.cell_name
    labels = tuple(f"{cell(own[0][0])} - {cell(own[0][1])}" if len(own) == 1 else f"{len(own)} pairs" for own in pairs)
    return Edges(Groups(shaped, np.sqrt(counts)), tuple(pairs), labels, np.minimum(counts, free), len(np.unique(plan.pairs)))


def _pairs_of_entries(graph: FactorGraph, plan: PairTables) -> tuple[Array, Array]:
    """Return entries of the flat parameter vector and the pairs in whose tables they stand.

    Both are sorted in ascending order.
    """
    import scipy.sparse

    entry, parameter = (np.concatenate(a) for a in zip(*(entry_parameters(graph, t) for t in plan.tables), strict=True))
    size, entries = sum(p.size for p in graph.parameters), plan.tables[-1].start + plan.tables[-1].entries
    mentions = scipy.sparse.coo_array((np.ones(len(entry)), (entry, parameter)), shape=(entries, size)).tocsr()
    row, column = (abs(plan.sums) @ mentions).nonzero()
    keys = np.unique(column.astype(np.int64) * len(plan.pairs) + row // plan.width**2)
    return keys // len(plan.pairs), keys % len(plan.pairs)


def _runs(values: Array) -> tuple[Array, Array, Array]:
    """Return the distinct values of an ascending array, with the start and end of each."""
    distinct, starts = np.unique(values, return_index=True)
    return distinct, starts, np.append(starts[1:], [len(values)] * bool(len(values))).astype(np.int64)
