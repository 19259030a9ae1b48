"""Sum-product and max-product message passing on the factor graph given the clamped cells.

A message from factor f to cell i is m_fi(v) = log sum over the other cells of f of exp(log f(x) +
sum over these cells j of m_jf(x_j)). A message from cell i to factor f is the sum of the messages
to i from its other factors. For the mode a maximum stands in place of log sum exp. All messages are
sent at once (a flooding schedule), each scaled to a maximum of 0. Messages between the partial sums
of a gate are sent along the gate before; see `_path_sweeps.py`.

Messages are in the log domain. A sum over the other factors is made of the sums before and after
the left-out factor. It is never a difference, so that -inf and large penalties do no harm.

Reference: Pearl 1988; Kschischang, Frey and Loeliger 2001; Yedidia, Freeman and Weiss 2005 for the
Bethe value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from . import limits
from ._clamped_tables import ClampedTables
from ._path_sweeps import Sweeps, each_slot, outer, path_sweeps

Array = np.ndarray
Messages = list[Array]  # by size class of the cells, each of shape (values, edges of the class)


class Edges(NamedTuple):
    """The edges between the cells of one size class and their factors.

    An edge is a pair of a factor and one of its cells. The edges of cells of the same degree are
    consecutive: the first edge of each of these cells, then the second edge of each, and so on.

    Attributes:
        total: the number of edges.
        degrees: for each degree, the first edge, the degree, and the places of the cells in the
            class.
    """

    total: int
    degrees: list[tuple[int, int, Array]]


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
    def _layout(self) -> tuple[list[Edges], list[list[Array]]]:
        """The edges of each size class, and the edges of each slot of each group, shape (n,)."""
        tables = self.tables
        slots = [(g, s) for g, group in enumerate(tables.groups) for s in range(group.cells.shape[1])]
        place = [[np.zeros(0, int)] * group.cells.shape[1] for group in tables.groups]
        layout = []
        for k, c in enumerate(tables.classes):
            mine = [(g, s) for g, s in slots if tables.class_of[tables.groups[g].cells[0, s]] == k]
            cells = np.concatenate([np.zeros(0, int), *(tables.groups[g].cells[:, s] - c.start for g, s in mine)])
            edges, position = _edges(cells, c.unary.shape[1])
            layout.append(edges)
            start = 0
            for g, s in mine:
                n = len(tables.groups[g].cells)
                place[g][s] = position[start : start + n]
                start += n
        return layout, place

    @cached_property
    def _sweeps(self) -> Sweeps:
        return Sweeps([], []) if self.inner is None else path_sweeps(self.tables, self._layout[1], self.inner)

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
        return found if self.tables.is_forest else np.where(found == -np.inf, found, np.maximum(found, self._floor))

    def uniform(self) -> Messages:
        """Return messages that say nothing."""
        return [np.zeros((len(c.unary), e.total)) for c, e in zip(self.tables.classes, self._layout[0], strict=True)]

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
                before = _running(c.unary[:, cells], into)
                after = _running(np.zeros_like(into[:, 0]), into[:, ::-1])
                found[:, span] = (before[:, :-1] + after[:, -2::-1]).reshape(len(c.unary), -1)
                belief[:, cells] = before[:, -1]
            out.append(found)
            beliefs.append(belief)
        return [self._scaled(m) for m in out], beliefs

    def to_cells(self, to_factors: Messages) -> Messages:
        """Return the messages from factors to cells."""
        out = [np.empty_like(m) for m in to_factors]
        for g, rows in self._pieces():
            values = self.tables.groups[g].values[..., rows]
            sent = each_slot(values, self._incoming(g, to_factors, rows), self.combine)
            for s, (edges, found) in enumerate(zip(self._layout[1][g], sent, strict=True)):
                out[self._class_of_slot(g, s)][:, edges[rows]] = self._scaled(found)
        return out

    def _pieces(self) -> Iterator[tuple[int, slice]]:
        """Yield each group with some of its factors, whose tables fit into a processor's cache."""
        for g, group in enumerate(self.tables.groups):
            *shape, n = group.values.shape
            step = max(1, limits.TABLES_AT_ONCE // int(np.prod(shape)))
            yield from ((g, slice(start, start + step)) for start in range(0, n, step))

    def _incoming(self, g: int, to_factors: Messages, rows: slice) -> list[Array]:
        """Return the messages to each slot of some factors, of shape (values, factors)."""
        slots = enumerate(self._layout[1][g])
        return [np.take(to_factors[self._class_of_slot(g, s)], edges[rows], axis=1) for s, edges in slots]

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
    weights = [np.exp(m) for m in now]
    for done in range(1, iterations + 1):
        to_factors, beliefs = flooding.to_factors(now)
        new = flooding.to_cells(flooding.swept(to_factors))
        new_laws = [_normalised(np.exp(_scaled(b))) for b in beliefs]
        new_weights = [np.exp(m) for m in new]
        # The first beliefs have none before them; they follow from the messages anyway.
        residual = max(_change(new_weights, weights), _change(new_laws, laws))
        if residual <= tolerance:
            return Passed(new, True, done, residual)
        if damping:
            new = [(1 - damping) * a + damping * b for a, b in zip(new, now, strict=True)]
            new_weights = [np.exp(m) for m in new]
        now, laws, weights = new, new_laws, new_weights
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


def _edges(cells: Array, count: int) -> tuple[Edges, Array]:
    """Return the edges of a size class, and the place of each among them.

    Args:
        cells: the place in the class of the cell of each edge.
        count: the number of cells.
    """
    degree = np.bincount(cells, minlength=count)
    order = np.argsort(cells, kind="stable")
    rank = np.empty(len(cells), int)
    rank[order] = np.arange(len(cells)) - np.repeat(np.cumsum(degree) - degree, degree)
    place = np.empty(len(cells), int)
    place[np.lexsort((cells, rank, degree[cells]))] = np.arange(len(cells))
    degrees, start = [], 0
    for d in np.unique(degree[degree > 0]).tolist():
        some = np.flatnonzero(degree == d)
        degrees.append((start, d, some))
        start += d * len(some)
    return Edges(len(cells), degrees), place
