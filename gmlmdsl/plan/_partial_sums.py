"""Partial sums as cells, for factors that depend on many cells only through a sum of terms.

`require count(x[i] == 1 for i in cell) == 20` is a factor of 60 cells. Its table is too large for
any order of elimination. With the partial sums as cells it is a chain: each partial sum is the one
before it plus a term of one cell. Sums, maxima and draws over the larger graph equal those of the
model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..graph import FactorGraph, FactorGroup, VariableArray, joint_count
from ..graph.nodes import Add, Apply, CellValue, Column, Constant, Gather, Node, evaluate, mapped, nodes_in, numpy_leaves
from ..program import Scale

Array = np.ndarray
# Partial sums are considered if a factor's cells have more joint values than this.
LEAST_VALUES = 1 << 12
MOST_SUMS = 1 << 13  # A partial sum has at most this many distinct values.
MOST_TERM_VALUES = 1 << 10  # The cells of one term have at most this many joint values.


@dataclass(frozen=True)
class _Chain:
    """The partial sums of one instance.

    Attributes:
        values: the values of the partial sum after each number of terms.
        steps: for each term, the code of the sum after it, shape (sums before, joint values of the
            term). The code is -1 if the sum was pruned.
        cells: the cells of each term.
        sizes: the numbers of values of these cells.
    """

    values: list[Array]
    steps: list[Array]
    cells: list[Array]
    sizes: list[tuple[int, ...]]


def with_partial_sums(graph: FactorGraph) -> FactorGraph:
    """Return the graph with cells for partial sums appended.

    The graph is unchanged if no factor is both large and a sum, or if it has given variables or a
    network.
    """
    if graph.given or graph.network is not None:
        return graph
    sizes = np.append(graph.sizes, 1)
    factors: list[FactorGroup] = []
    requires: list[FactorGroup] = []
    chains: list[_Chain] = []
    for group in graph.groups:
        found = _counted(group, sizes, graph.n_cells)
        into = requires if group.kind == "require" else factors
        if found is None:
            into.append(group)
            continue
        # The places of these cells are filled in below.
        into.append(replace(group, cells=np.arange(len(chains), len(chains) + group.n)[:, None]))
        chains += found
    if not chains:
        return graph
    return _joined(graph, factors, requires, chains)


def _counted(group: FactorGroup, sizes: Array, none: int) -> list[_Chain] | None:
    """Return the chains of a group's instances.

    The result is None if the group is small, is not a sum, or has too many partial sums.
    """
    add = _only_sum(group)
    if add is None or joint_count(sizes[group.cells].max(axis=0)) <= LEAST_VALUES:
        return None
    out = []
    for k in range(group.n):
        one = group.take(np.array([k]))
        chain = _chain(one, add, sizes, none)
        if chain is None:
            return None
        out.append(_pruned(chain, one, add))
    return out


def _only_sum(group: FactorGroup) -> Add | None:
    """Return the single sum through which a group depends on its cells, else None.

    Its terms mention no parameter, and each term has cells of its own.
    """
    if not group.n or group.given is not None:
        return None
    sums = {n for n in nodes_in(group.root) if isinstance(n, Add) and any(isinstance(x, CellValue) for x in nodes_in(n.body))}
    if len(sums) != 1:
        return None
    (add,) = sums
    inside = nodes_in(add.body)
    outside = mapped(group.root, lambda n: Constant(0) if n == add else n)
    if add.operator != "+" or add.depth != 0 or any(isinstance(n, CellValue) for n in nodes_in(outside)):
        return None
    plain = all(isinstance(n, Constant | Column | CellValue | Apply | Gather) and not (isinstance(n, Gather) and n.name) for n in inside)
    slots = [n for n in inside if isinstance(n, CellValue)]
    return add if plain and all(len(n.shape) == 1 and n.shape[0] > 1 for n in slots) else None


def _chain(group: FactorGroup, add: Add, sizes: Array, none: int) -> _Chain | None:
    """Return the partial sums of one instance.

    The result is None if there are too many, or if a cell occurs in two terms.
    """
    assert isinstance(add.mask, Column)
    starts = list(dict.fromkeys(n.start for n in nodes_in(add.body) if isinstance(n, CellValue)))
    count = next(n.shape[0] for n in nodes_in(add.body) if isinstance(n, CellValue))
    here = np.broadcast_to(group.columns[add.mask.k].astype(bool).reshape(-1), (count,))
    cells = np.stack([group.cells[0, s : s + count] for s in starts], axis=1)
    used = cells[here].ravel()
    if len(np.unique(used)) < used.size or (used >= none).any():
        return None
    widest = tuple(int(sizes[cells[here]][:, k].max(initial=1)) for k in range(len(starts)))
    if np.prod(widest) > MOST_TERM_VALUES:
        return None
    codes = np.unravel_index(np.arange(int(np.prod(widest))), widest)
    by_slot = {s + m: codes[k] for k, s in enumerate(starts) for m in range(count)}
    leaves = numpy_leaves(group.columns, group.tables, by_slot, slice(0, 1))
    with np.errstate(all="ignore"):
        terms = np.asarray(evaluate(add.body, leaves, 1), float)
    terms = np.broadcast_to(terms, (count, 1, len(codes[0])))[:, 0]
    chain = _Chain([np.zeros(1)], [], [], [])
    for m in np.flatnonzero(here):
        own = tuple(int(q) for q in sizes[cells[m]])
        mine = terms[m].reshape(widest)[tuple(slice(q) for q in own)].ravel()
        sums = np.round(chain.values[-1][:, None] + mine, 9)
        values = np.unique(sums)
        if not np.isfinite(values).all() or len(values) > MOST_SUMS:
            return None
        chain.values.append(values)
        chain.steps.append(np.searchsorted(values, sums))
        chain.cells.append(cells[m])
        chain.sizes.append(own)
    return chain


def never_holds(group: FactorGroup, graph: FactorGraph) -> bool:
    """Return whether a requirement of one instance depends on a sum that can never satisfy it."""
    add = _only_sum(group)
    chain = None if add is None else _chain(group, add, np.append(graph.sizes, 1), graph.n_cells)
    return add is not None and chain is not None and not _satisfied(chain, group, add).any()


def _satisfied(chain: _Chain, group: FactorGroup, add: Add) -> Array:
    """Return the values of its sum at which a requirement holds, as a mask."""
    last = len(chain.values[-1])
    table = mapped(group.root, lambda n: Gather("", len(group.tables), last, CellValue(0, ()), ()) if n == add else n)
    leaves = numpy_leaves(group.columns, (*group.tables, chain.values[-1]), {0: np.arange(last)}, slice(0, 1))
    return np.array(np.broadcast_to(np.asarray(evaluate(table, leaves), bool).reshape(-1), (last,)))


def _pruned(chain: _Chain, group: FactorGroup, add: Add) -> _Chain:
    """Return a chain without the partial sums from which the requirement cannot be satisfied."""
    alive = np.ones(len(chain.values[-1]), bool)
    if group.kind == "require" and (satisfied := _satisfied(chain, group, add)).any():
        alive = satisfied
    for m in reversed(range(len(chain.steps))):
        kept = np.cumsum(alive) - 1
        chain.steps[m] = np.where(alive[chain.steps[m]], kept[chain.steps[m]], -1)
        chain.values[m + 1] = chain.values[m + 1][alive]
        alive = np.asarray((chain.steps[m] >= 0).any(axis=1))
        chain.steps[m] = chain.steps[m][alive]
    return replace(chain, values=[chain.values[0][alive], *chain.values[1:]])


def _joined(graph: FactorGraph, factors: list[FactorGroup], requires: list[FactorGroup], chains: list[_Chain]) -> FactorGraph:
    """Return the graph with the cells of all chains appended.

    Requirements join these cells, and the last cells replace the sums.
    """
    variables, ends, links = list(graph.variables), [], []
    at = graph.n_cells
    for k, chain in enumerate(chains):
        places = []
        for m, values in enumerate(chain.values):
            scale = Scale(size=len(values))
            variables.append(VariableArray(f"sum {k}, {m}", "latent", at, (), "range", scale.numbers, (), (), scale=scale))
            places.append(at)
            at += 1
        ends.append(places[-1])
        links += [(places[m + 1], places[m], chain.cells[m], chain.sizes[m], step) for m, step in enumerate(chain.steps)]
    none = at

    def moved(group: FactorGroup) -> FactorGroup:
        """Renumber the padding, which comes after the new cells too."""
        return replace(group, cells=np.where(group.cells == graph.n_cells, none, group.cells).astype(np.int32))

    def ended(group: FactorGroup) -> FactorGroup:
        add = _only_sum(group)
        assert add is not None
        mine = [chains[int(c)].values[-1] for c in group.cells[:, 0]]
        base = np.cumsum([0, *(len(v) for v in mine)])[:-1]
        table, column = np.concatenate(mine), len(group.columns)
        entry = Gather("", len(group.tables), len(table), Column(column), ((CellValue(0, ()), Constant(1)),))
        root = mapped(group.root, lambda n: entry if n == add else n)
        cells = np.array([[ends[int(c)]] for c in group.cells[:, 0]], np.int32)
        return replace(group, root=root, cells=cells, columns=(*group.columns, base), tables=(*group.tables, table))

    old = {id(g) for g in graph.groups}
    parts = [[moved(g) if id(g) in old else ended(g) for g in groups] for groups in (factors, requires)]
    for width in sorted({len(cells) for _, _, cells, _, _ in links}):
        parts[1].append(_links([x for x in links if len(x[2]) == width], width, graph))
    return replace(graph, variables=tuple(variables), factors=tuple(parts[0]), requires=tuple(parts[1]))


def _links(links: list[tuple[int, int, Array, tuple[int, ...], Array]], width: int, graph: FactorGraph) -> FactorGroup:
    """Return the requirement that each partial sum is the one before it plus its term.

    The sum is read from a table.
    """
    base = np.cumsum([0, *(step.size for *_, step in links)])[:-1]
    table = np.concatenate([step.ravel() for *_, step in links])
    strides = np.array([[step.shape[1], *(int(np.prod(own[k + 1 :])) for k in range(width))] for *_, own, step in links])
    cells = np.array([[after, before, *terms] for after, before, terms, *_ in links], np.int32)
    terms: tuple[tuple[Node, Node], ...] = tuple((CellValue(k + 1, ()), Column(k + 1)) for k in range(width + 1))
    entry = Gather("", 0, len(table), Column(0), terms)
    columns = (base, *(strides[:, k] for k in range(width + 1)))
    root = Apply("==", (CellValue(0, ()), entry))
    span = graph.groups[0].span
    return FactorGroup(root, len(links), cells, columns, (table,), "require", span)
