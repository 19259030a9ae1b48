"""Messages along the partial sums of gates, from one end to the other and back.

A gate of many cells is a path of partial sums, each joined to the one before it and to the cells of
one term. If all messages are sent at once, news of a term reaches the end of its gate after as many
iterations as the path has cells. Forward and backward sweeps along all paths make one iteration of
the other messages see the whole gate, as if it were one factor.

Reference: Potetz and Lee 2008, for factors of sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ._clamped_tables import ClampedTables

Array = np.ndarray
Messages = list[Array]
Edge = tuple[int, int, int]  # the group of a factor, the slot of the cell, the factor's place in the group


class Send(NamedTuple):
    """Messages of one step: from factors of one group to the cells of one slot, and on.

    Attributes:
        group: the group.
        slot: the slot of the receiving cells.
        values: the tables of the factors.
        incoming: for each other slot its size class, and the edges from there.
        onward: the size class of the receiving cells, and the edges from them to their next
            factors.
        unary: the factors of one cell of the receiving cells, shape (values, n).
    """

    group: int
    slot: int
    values: Array
    incoming: tuple[tuple[int, int, Array], ...]
    onward: tuple[int, Array]
    unary: Array


def swept(steps: Iterable[Send], to_factors: Messages, combine: Callable[[Array], Array], scaled: Callable[[Array], Array]) -> Messages:
    """Return the messages from cells to factors, with those from partial sums sent anew.

    Args:
        steps: the steps of `path_sweeps`.
        to_factors: the messages.
        combine: the log sum exp, or the maximum, over the first axes but the last two.
        scaled: shifts messages to a maximum of 0.
    """
    out = [m.copy() for m in to_factors]
    for step in steps:
        total = step.values
        axes = total.ndim - 1
        for slot, k, edges in step.incoming:
            message = out[k][:, edges]
            total = total + message.reshape(*(len(message) if j == slot else 1 for j in range(axes)), -1)
        found = combine(np.moveaxis(total, step.slot, -2))
        k, edges = step.onward
        out[k][:, edges] = scaled(found + step.unary)
    return out


def path_sweeps(tables: ClampedTables, edges: list[list[Array]], inner: Array) -> list[Send]:
    """Return the steps of forward and backward sweeps along the paths of inner cells, in their order.

    Args:
        tables: the factors.
        edges: the edges of each slot of each group of factors.
        inner: booleans over the free cells: the partial sums. An inner cell with more than two
            factors, or a factor with more than two inner cells, ends a path.
    """
    touching: dict[int, list[Edge]] = defaultdict(list)
    for g, group in enumerate(tables.groups):
        for s in range(group.cells.shape[1]):
            for row in np.flatnonzero(inner[group.cells[:, s]]).tolist():
                touching[int(group.cells[row, s])].append((g, s, row))
    between = {c: found for c, found in touching.items() if len(found) == 2}
    inside: dict[tuple[int, int], list[int]] = defaultdict(list)
    for c, found in between.items():
        for g, _, row in found:
            inside[g, row].append(c)
    paths = list(_paths(between, {f for f, cells in inside.items() if len(cells) > 2}, inside))
    return [step for sweep in (paths, [_reversed(p) for p in paths]) for step in _steps(tables, edges, sweep)]


Path = list[tuple[int, Edge, Edge]]  # each cell with its edge to the factor before it, and to the one after it


def _paths(between: dict[int, list[Edge]], ends: set[tuple[int, int]], inside: dict[tuple[int, int], list[int]]) -> Iterable[Path]:
    """Yield maximal paths of cells; cells on a cycle are left out."""
    done: set[int] = set()

    def following(cell: int, edge: Edge) -> tuple[int, Edge] | None:
        """Return the next inner cell behind the factor of an edge, and its edge to that factor."""
        factor = edge[0], edge[2]
        others = [c for c in inside[factor] if c != cell]
        if factor in ends or not others:
            return None
        return others[0], next(e for e in between[others[0]] if (e[0], e[2]) == factor)

    for first in sorted(between):
        if first in done:
            continue
        cell, edge, seen = first, between[first][0], {first}
        while (found := following(cell, edge)) is not None and found[0] not in seen:  # back to an end of the path
            cell, there = found
            seen.add(cell)
            edge = _other(between[cell], there)
        if found is not None:
            done |= seen
            continue
        path, before = [], edge
        while True:
            after = _other(between[cell], before)
            path.append((cell, before, after))
            done.add(cell)
            found = following(cell, after)
            if found is None:
                break
            cell, before = found
        yield path


def _other(pair: list[Edge], edge: Edge) -> Edge:
    return pair[1] if pair[0] == edge else pair[0]


def _reversed(path: Path) -> Path:
    return [(cell, after, before) for cell, before, after in reversed(path)]


def _steps(tables: ClampedTables, edges: list[list[Array]], paths: list[Path]) -> Iterable[Send]:
    """Yield the steps of one direction: the first cells of all paths, then the second, and so on."""
    for t in range(max(map(len, paths), default=0)):
        kinds: dict[tuple[int, int, int], list[tuple[int, Edge, Edge]]] = defaultdict(list)
        for path in paths:
            if t < len(path):
                cell, before, _ = path[t]
                kinds[before[0], before[1], int(tables.class_of[cell])].append(path[t])
        for (g, slot, k), some in kinds.items():
            rows = np.array([before[2] for _, before, _ in some])
            group, c = tables.groups[g], tables.classes[k]
            others = [s for s in range(group.cells.shape[1]) if s != slot]
            incoming = tuple((s, int(tables.class_of[group.cells[0, s]]), edges[g][s][rows]) for s in others)
            onward = np.array([edges[after[0]][after[1]][after[2]] for _, _, after in some])
            unary = c.unary[:, np.array([cell for cell, _, _ in some]) - c.start]
            yield Send(g, slot, np.ascontiguousarray(group.values[..., rows]), incoming, (k, onward), unary)
