"""Sum-product and max-product message passing on the factor graph given the clamped cells.

A message from factor f to cell i is m_fi(v) = log sum over the other cells of f of exp(log f(x) +
sum over these cells j of m_jf(x_j)). A message from cell i to factor f is the sum of the messages
to i from its other factors. For the mode a maximum stands in place of log sum exp. All messages are
sent at once (a flooding schedule), each scaled to a maximum of 0. Messages between the partial sums
of a gate are sent along the gate before.

Messages are in the log domain. A sum over the other factors is a difference of the sum over all
factors if that sum is small. If it is large or infinite, it is made of the sums before and after
the left-out factor, so that -inf and large penalties do no harm. Without a cycle it always is, since
a message must not depend on the one that it answers, not even by rounding.

A gate of many cells is a path of partial sums, each joined to the one before it and to the cells of
one term. If all messages are sent at once, news of a term reaches the end of its gate after as many
iterations as the path has cells. Forward and backward sweeps along all paths make one iteration of
the other messages see the whole gate, as if it were one factor.

Reference: Pearl 1988; Kschischang, Frey and Loeliger 2001; Potetz and Lee 2008 for factors of sums;
Yedidia, Freeman and Weiss 2005 for the Bethe value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..graph import rank_within
from . import limits
from ._clamped_tables import ClampedTables

Array = np.ndarray
Messages = list[Array]  # by size class of the cells, each of shape (values, edges of the class)


class Edges(NamedTuple):
    """The edges between the cells of one size class and their factors.

    An edge is a pair of a factor and one of its cells. The edges of cells of the same degree are
    consecutive: the first edge of each of these cells, then the second edge of each, and so on.

    Attributes:
        degrees: for each degree, the first edge, the degree, and the places of the cells in the
            class.
        place: the edge of each slot of each factor, the slots of a group one after another.
        inverse: the place in `place` of each edge.
    """

    degrees: list[tuple[int, int, Array]]
    place: Array
    inverse: Array


@dataclass(frozen=True, eq=False)
class Flooding:
    """Messages between the free cells and the factors of a model.

    Attributes:
        tables: the factors.
        combine: the log sum exp, or the maximum, over the first axes of an array but the last two.
        inner: booleans over the free cells: the partial sums of gates, along which messages are
            sent in sweeps; None if there are none.
    """

    tables: ClampedTables
    combine: Callable[[Array], Array]
    inner: Array | None = None

    @cached_property
    def _layout(self) -> tuple[list[Edges], list[list[slice]]]:
        """The edges of each size class, and the span in `place` of each slot of each group."""
        tables = self.tables
        slots = [(g, s) for g, group in enumerate(tables.groups) for s in range(group.cells.shape[1])]
        spans = [[slice(0)] * group.cells.shape[1] for group in tables.groups]
        layout = []
        for k, c in enumerate(tables.classes):
            cells, start = [np.zeros(0, int)], 0
            for g, s in slots:
                if self._class_of_slot(g, s) == k:
                    cells.append(tables.groups[g].cells[:, s] - c.start)
                    spans[g][s] = slice(start, start := start + len(cells[-1]))
            layout.append(_edges(np.concatenate(cells), c.unary.shape[1]))
        return layout, spans

    def _edges_of(self, g: int, s: int, rows: slice = slice(None)) -> Array:
        """Return the edges of one slot of some factors of a group."""
        edges, spans = self._layout
        return edges[self._class_of_slot(g, s)].place[spans[g][s]][rows]

    @cached_property
    def _sweeps(self) -> Sweeps:
        if self.inner is None:
            return Sweeps([], [])
        slots = [range(group.cells.shape[1]) for group in self.tables.groups]
        edges = [[self._edges_of(g, s) for s in some] for g, some in enumerate(slots)]
        return path_sweeps(self.tables, edges, self.inner)

    def swept(self, to_factors: Messages) -> Messages:
        """Return messages to factors that have passed along the gates; see `Sweeps`."""
        return self._sweeps.swept(to_factors, self.combine, self._scaled)

    @cached_property
    def _spans(self) -> Array:
        """The differences between the largest and the smallest finite value of every factor."""
        spans = []
        for found in (*(c.unary for c in self.tables.classes), *(g.values for g in self.tables.groups)):
            flat = found.reshape(-1, found.shape[-1])
            top, low = (np.where(np.isfinite(flat), flat, fill) for fill in (-np.inf, np.inf))
            spans.append(np.maximum(top.max(axis=0, initial=-np.inf) - low.min(axis=0, initial=np.inf), 0.0))
        return np.concatenate([np.zeros(0), *spans])

    @cached_property
    def _floor(self) -> float:
        """The least value of a message that is not -infinity.

        log p of two configurations differs by at most the sum of the spans of all factors. With
        cycles, messages count some factors again and again, and would otherwise grow without bound
        until they overflow. On a forest no message is that low.
        """
        return -float(self._spans.sum()) - float(np.log(self.tables.sizes).sum()) - 1.0

    def _scaled(self, messages: Array) -> Array:
        """Return messages with a maximum of 0, and none of them between -infinity and the floor."""
        found = _scaled(messages)
        if self.tables.is_forest or found.min(initial=0.0) >= self._floor:
            return found
        return np.where(found == -np.inf, found, np.maximum(found, self._floor))

    def uniform(self) -> Messages:
        """Return messages that say nothing."""
        return [np.zeros((len(c.unary), len(e.place))) for c, e in zip(self.tables.classes, self._layout[0], strict=True)]

    def random(self, rng: np.random.Generator) -> Messages:
        """Return half-normal messages on the scale of the mean span of a factor."""
        some = self._spans[self._spans > 0]
        scale = some.mean() if len(some) else 1.0
        return [-scale * np.abs(rng.normal(size=m.shape)) for m in self.uniform()]

    def to_factors(self, to_cells: Messages) -> tuple[Messages, list[Array]]:
        """Return the messages from cells to factors, and the beliefs of cells.

        Args:
            to_cells: the messages from factors to cells.

        Returns:
            The messages; and the unnormalised log beliefs of the cells of each size class, shape
                (values, cells).
        """
        out, beliefs = [], []
        for c, edges, messages in zip(self.tables.classes, self._layout[0], to_cells, strict=True):
            found, belief = np.empty_like(messages), c.unary.copy()
            for start, degree, cells in edges.degrees:
                span = slice(start, start + degree * len(cells))
                into = messages[:, span].reshape(len(c.unary), degree, len(cells))
                others, belief[:, cells] = self._sums(c.unary[:, cells], into)
                found[:, span] = others.reshape(len(c.unary), -1)
            out.append(found)
            beliefs.append(belief)
        return [self._scaled(m) for m in out], beliefs

    def _sums(self, first: Array, into: Array) -> tuple[Array, Array]:
        """Return the sums of `first` and all terms but one, and of `first` and all terms.

        Args:
            first: shape (values, n).
            into: the terms, shape (values, k, n). None is positive.

        Returns:
            Arrays of shapes (values, k, n) and (values, n).
        """
        total = first + into.sum(axis=1)
        if not self.tables.is_forest and np.abs(total).max(initial=0.0) <= limits.SUBTRACTED:
            return total[:, None] - into, total
        before = _running(first, into)
        after = _running(np.zeros_like(first), into[:, ::-1])
        return before[:, :-1] + after[:, -2::-1], before[:, -1]

    def to_cells(self, to_factors: Messages) -> Messages:
        """Return the messages from factors to cells."""
        edges, spans = self._layout
        out = [np.empty_like(m) for m in to_factors]
        for g, rows in self._pieces():
            values = self.tables.groups[g].values[..., rows]
            sent = each_slot(values, self._incoming(g, to_factors, rows), self.combine)
            for s, found in enumerate(sent):
                out[self._class_of_slot(g, s)][:, spans[g][s]][:, rows] = self._scaled(found)
        return [np.take(m, e.inverse, axis=1) for m, e in zip(out, edges, strict=True)]

    def _pieces(self) -> Iterator[tuple[int, slice]]:
        """Yield each group with some of its factors, whose tables fit into a processor's cache."""
        for g, group in enumerate(self.tables.groups):
            *shape, n = group.values.shape
            step = max(1, limits.TABLES_AT_ONCE // int(np.prod(shape)))
            yield from ((g, slice(start, start + step)) for start in range(0, n, step))

    def _incoming(self, g: int, to_factors: Messages, rows: slice) -> list[Array]:
        """Return the messages to each slot of some factors, of shape (values, factors)."""
        slots = range(self.tables.groups[g].cells.shape[1])
        return [np.take(to_factors[self._class_of_slot(g, s)], self._edges_of(g, s, rows), axis=1) for s in slots]

    def _class_of_slot(self, g: int, s: int) -> int:
        return int(self.tables.class_of[self.tables.groups[g].cells[0, s]])

    def decided(self, to_factors: Messages, codes: Array, known: Array) -> Messages:
        """Return messages to factors that are sure of the values of known cells.

        Args:
            to_factors: the messages.
            codes: the codes of the cells, shape (cells,).
            known: booleans over cells.
        """
        out = []
        for c, edges, messages in zip(self.tables.classes, self._layout[0], to_factors, strict=True):
            some = [np.tile(cells, degree) for _, degree, cells in edges.degrees]
            cells = np.concatenate([np.zeros(0, int), *some]) + c.start
            sure = np.where(np.arange(len(messages))[:, None] == codes[cells], 0.0, -np.inf)
            out.append(np.where(known[cells], sure, messages))
        return out

    def value(self, to_cells: Messages) -> float:
        """Return the Bethe value: sum_i log Z_i + sum_f log Z_f - sum over edges of log Z_fi.

        Z_i sums exp(belief) over the values of cell i, Z_f sums f times its incoming messages, and
        Z_fi sums the product of the two messages of an edge. At a fixed point this equals
        sum_f (E[log f] + H(b_f)) + sum_i (1 - degree of i) H(b_i). On a forest it is log Z, or the
        maximum of log_potential.

        Reference: Yedidia, Freeman and Weiss 2005, equation 36; Wainwright and Jordan 2008,
        section 4.1.
        """
        to_factors, beliefs = self.to_factors(to_cells)
        total = self.tables.constant
        for belief, own, back in zip(beliefs, to_cells, to_factors, strict=True):
            total += self.combine(belief[:, None]).sum() - self.combine((own + back)[:, None]).sum()
        for g, rows in self._pieces():
            told = outer(self._incoming(g, to_factors, rows))
            joint = self.tables.groups[g].values[..., rows].reshape(told.shape) + told
            total += self.combine(joint[:, None]).sum()
        return float(total)


class Passed(NamedTuple):
    """The messages after the last iteration.

    Attributes:
        to_cells: the messages from factors to cells.
        converged: whether `residual` is at most the tolerance.
        iterations: the number of iterations.
        residual: the largest change in the last iteration of a marginal or of exp(message). It is
            measured before damping, so that it is 0 at a fixed point only.
    """

    to_cells: Messages
    converged: bool
    iterations: int
    residual: float


class Contradiction(Exception):
    """No value of some cell has positive probability. The messages prove it, cycles or not."""


def passed(flooding: Flooding, iterations: int, tolerance: float, damping: float, first: Messages | None = None) -> Passed:
    """Send messages until they change by at most `tolerance`.

    If the factor graph has no cycle, the messages stop changing after as many iterations as its
    longest path has cells. They are then sent until nothing changes, without damping. A smaller
    change might still matter, such as that of a rare value for which there is evidence elsewhere.

    Args:
        flooding: the messages' graph.
        iterations: the largest number of iterations.
        tolerance: the largest change at which messages count as converged.
        damping: the share of the previous message that a new one keeps, from 0 to below 1.
        first: the first messages from factors to cells; None for messages that say nothing.

    Raises:
        Contradiction: if no configuration has positive probability.
    """
    if flooding.tables.is_forest:
        tolerance = damping = 0.0
    now, residual, laws = flooding.uniform() if first is None else first, np.inf, list[Array]()
    for done in range(1, iterations + 1):
        to_factors, beliefs = flooding.to_factors(now)
        new = flooding.to_cells(flooding.swept(to_factors))
        new_laws = [_normalised(np.exp(_scaled(b))) for b in beliefs]
        # The first beliefs have none before them; they follow from the messages anyway.
        residual = _change(new_laws, laws)
        if residual <= tolerance or done == iterations:  # else the change of messages decides nothing
            residual = max(residual, _change([np.exp(m) for m in new], [np.exp(m) for m in now]))
        if residual <= tolerance:
            return Passed(new, True, done, residual)
        for a, b in zip(new, now, strict=True) if damping else ():
            a *= 1 - damping
            a += damping * b
        now, laws = new, new_laws
    return Passed(now, False, iterations, residual)


def _change(new: Sequence[Array], old: Sequence[Array]) -> float:
    """Return the largest difference of arrays of the same size classes."""
    return max([0.0, *(float(np.abs(a - b).max(initial=0.0)) for a, b in zip(new, old, strict=False))])


def _normalised(weights: Array) -> Array:
    return weights / weights.sum(axis=0)


def log_sum(values: Array) -> Array:
    """Return the log of the sum of exp over all axes but the last two."""
    axes = tuple(range(values.ndim - 2))
    safe = np.maximum(values.max(axis=axes), np.finfo(float).min)  # -inf - -inf would be nan.
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - safe).sum(axis=axes)) + safe


def maximum(values: Array) -> Array:
    """Return the maximum over all axes but the last two."""
    return values.max(axis=tuple(range(values.ndim - 2)))


def _running(first: Array, terms: Array) -> Array:
    """Return `first` plus the first 0, 1, .. of some terms.

    Args:
        first: shape (values, n).
        terms: shape (values, k, n).

    Returns:
        An array of shape (values, k + 1, n).
    """
    values, k, n = terms.shape
    found = np.empty((values, k + 1, n))
    if k > n:  # one sum over adjacent numbers, in place of many over a few
        found[:] = np.cumsum(np.concatenate([first[..., None], terms.transpose(0, 2, 1)], axis=2), axis=2).transpose(0, 2, 1)
        return found
    found[:, 0] = first
    for m in range(k):
        np.add(found[:, m], terms[:, m], out=found[:, m + 1])
    return found


def _scaled(messages: Array) -> Array:
    """Return messages with a maximum of 0 over the first axis.

    Raises:
        Contradiction: if a message is -inf at every value.
    """
    top = messages.max(axis=0)
    if not np.isfinite(top).all():
        raise Contradiction
    return messages - top


def _edges(cells: Array, count: int) -> Edges:
    """Return the edges of a size class.

    Args:
        cells: the place in the class of the cell of each slot of each factor.
        count: the number of cells.
    """
    degree = np.bincount(cells, minlength=count)
    inverse = np.lexsort((cells, rank_within(cells), degree[cells]))
    place = np.empty(len(cells), int)
    place[inverse] = np.arange(len(cells))
    degrees, start = [], 0
    for d in np.unique(degree[degree > 0]).tolist():
        some = np.flatnonzero(degree == d)
        degrees.append((start, d, some))
        start += d * len(some)
    return Edges(degrees, place, inverse)


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
