"""Messages along the partial sums of gates, from one end to the other and back.

A gate of many cells is a path of partial sums, each joined to the one before it and to the cells of
one term. If all messages are sent at once, news of a term reaches the end of its gate after as many
iterations as the path has cells. Forward and backward sweeps along all paths make one iteration of
the other messages see the whole gate, as if it were one factor.

Reference: Potetz and Lee 2008, for factors of sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ._clamped_tables import ClampedTables

Array = np.ndarray
Messages = list[Array]
Combine = Callable[[Array], Array]
Edge = tuple[int, int, int]  # the group of a factor, the slot of the cell, the factor's place in the group


class Joint(NamedTuple):
    """Tables of factors on paths, of which the cells outside the paths are combined first.

    Attributes:
        values: the tables, shape (values of the cells on the path, joint values of the others, n).
        shape: the numbers of values of one or two cells on the path.
        others: for each other slot its size class, and the edges from there.
    """

    values: Array
    shape: tuple[int, ...]
    others: tuple[tuple[int, Array], ...]

    def combined(self, to_factors: Messages, combine: Combine) -> Array:
        """Return the tables of the cells on the path given other messages, shape (*shape, n)."""
        found = self.values[:, 0]
        if self.others:
            told = outer([np.take(to_factors[k], edges, axis=1) for k, edges in self.others])
            found = combine(np.moveaxis(self.values + told, 1, 0))
        return found.reshape(*self.shape, -1)


class Send(NamedTuple):
    """Messages of one step: along factors to the cells behind them, and on to their next factors.

    Attributes:
        joint: the place of the tables of the factors in a list of joints.
        rows: the places of the factors in it.
        before: the size class of the cells before, and the edges from them to the factors; None for
            the first cells of paths.
        is_first: whether the receiving cells are the first of the two cells of the joint.
        onward: the size class of the receiving cells, and the edges from them to their next
            factors.
        unary: the factors of one cell of the receiving cells, shape (values, n).
    """

    joint: int
    rows: Array
    before: tuple[int, Array] | None
    is_first: bool
    onward: tuple[int, Array]
    unary: Array


class Sweeps(NamedTuple):
    """The steps of forward and backward sweeps along all paths, in their order."""

    joints: list[Joint]
    steps: list[Send]

    def swept(self, to_factors: Messages, combine: Combine, scaled: Callable[[Array], Array]) -> Messages:
        """Return the messages from cells to factors, with those from partial sums sent again.

        Args:
            to_factors: the messages.
            combine: the log sum exp, or the maximum, over the first axes but the last two.
            scaled: shifts messages to a maximum of 0.
        """
        if not self.steps:
            return to_factors
        out, combined = [m.copy() for m in to_factors], dict[int, Array]()
        for step in self.steps:
            if step.joint not in combined:
                combined[step.joint] = self.joints[step.joint].combined(out, combine)
            total = np.take(combined[step.joint], step.rows, axis=-1)
            if step.before is not None:
                message = np.take(out[step.before[0]], step.before[1], axis=1)
                total = combine(np.moveaxis(total + message, 1, 0) if step.is_first else total + message[:, None])
            k, edges = step.onward
            out[k][:, edges] = scaled(total + step.unary)
        return out


def outer(messages: Sequence[Array]) -> Array:
    """Return the sums of messages (values, n) at all joint values, shape (joint values, n)."""
    total = messages[0]
    for message in messages[1:]:
        total = (total[:, None] + message).reshape(-1, message.shape[-1])
    return total


def each_slot(values: Array, into: Sequence[Array], combine: Combine) -> list[Array]:
    """Return the messages of factors to each of their slots, which combine all other slots.

    Either half of the slots is combined once for all slots of the other half.

    Args:
        values: the tables, shape (values of the first slot, .., of the last slot, n).
        into: the messages to each slot, shape (values, n).
        combine: the log sum exp, or the maximum, over the first axes but the last two.
    """
    if len(into) == 1:
        return [values.reshape(into[0].shape)]
    halves = into[: len(into) // 2], into[len(into) // 2 :]
    first, second = (outer(half) for half in halves)
    joint = values.reshape(len(first), len(second), -1)
    return [
        *each_slot(combine(np.moveaxis(joint + second, 1, 0)), halves[0], combine),
        *each_slot(combine(joint + first[:, None]), halves[1], combine),
    ]


def path_sweeps(tables: ClampedTables, edges: list[list[Array]], inner: Array) -> Sweeps:
    """Return the steps of forward and backward sweeps along the paths of inner cells.

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
    places: dict[tuple[int, ...], dict[int, int]] = {}  # by group and slots on the path, of each factor
    steps = [step for sweep in (paths, [_reversed(p) for p in paths]) for step in _steps(tables, edges, sweep, places)]
    return Sweeps([_joint(tables, edges, key, np.array(list(rows))) for key, rows in places.items()], steps)


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


def _steps(
    tables: ClampedTables, edges: list[list[Array]], paths: list[Path], places: dict[tuple[int, ...], dict[int, int]]
) -> Iterable[Send]:
    """Yield the steps of one direction: the first cells of all paths, then the second, and so on.

    Args:
        tables: the factors.
        edges: the edges of each slot of each group of factors.
        paths: the paths.
        places: the factors of each joint, which are added here.
    """
    for t in range(max(map(len, paths), default=0)):
        kinds: dict[tuple[int, ...], list[tuple[int, Edge, Edge]]] = defaultdict(list)
        for path in paths:
            if t < len(path):
                cell, (g, slot, _), _ = path[t]
                last = (path[t - 1][2][1], int(tables.class_of[path[t - 1][0]])) if t else ()
                kinds[g, slot, int(tables.class_of[cell]), *last].append(path[t])
        for (g, slot, k, *last), some in kinds.items():
            key = (g, *sorted([slot, *last[:1]]))
            place = places.setdefault(key, {})
            rows = np.array([before[2] for _, before, _ in some])
            here = np.array([place.setdefault(row, len(place)) for row in rows.tolist()])
            onward = np.array([edges[after[0]][after[1]][after[2]] for _, _, after in some])
            unary = tables.classes[k].unary[:, np.array([cell for cell, _, _ in some]) - tables.classes[k].start]
            before = (last[1], edges[g][last[0]][rows]) if last else None
            yield Send(list(places).index(key), here, before, slot == key[1], (k, onward), unary)


def _joint(tables: ClampedTables, edges: list[list[Array]], key: tuple[int, ...], rows: Array) -> Joint:
    """Return the tables of some factors; the key is their group and the slots on the path."""
    g, *slots = key
    group = tables.groups[g]
    others = [s for s in range(group.cells.shape[1]) if s not in slots]
    values = np.moveaxis(group.values[..., rows], slots, range(len(slots)))
    shape = values.shape[: len(slots)]
    sent = tuple((int(tables.class_of[group.cells[0, s]]), edges[g][s][rows]) for s in others)
    return Joint(np.ascontiguousarray(values).reshape(int(np.prod(shape)), -1, len(rows)), shape, sent)
