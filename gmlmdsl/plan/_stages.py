"""Steps of an elimination as arrays.

A stage holds tables of one shape on several levels, which depend on one another, and runs as one
loop. A table's axes are the cells of its step in the order of their elimination. A factor or
message that is added into the table therefore covers some of its axes in the same order. Such a set
of axes is stored as bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from ..graph import SumLink, grouped, rank_within
from .limits import FEW_LEVELS, LARGE_LEVEL, LITTLE_WASTE, MOST_ALONE, MOST_CHILDREN, MOST_LEVEL_WASTE, SMALL_LEVEL

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Feed:
    """Messages from one stage into tables of another, over one set of axes.

    The receiving stage may also be the sending one, at a later level.

    Attributes:
        source: the number of the stage that sends the messages.
        axes: the axes of the receiving table, ascending.
        slots: the places of the messages in the sending stage, with its `size` for none: shape
            (levels, width, each), or (levels, edges) if `to` is given.
        to: the column that takes each message, shape (levels, edges), `width` for none; None if
            `slots` lists the messages by column.
        follower: the number of the `Follower` of the receiving stage whose partial sums are the
            first axis of the messages, before those in `axes`; None if they have no such axis.
    """

    source: int
    axes: tuple[int, ...]
    slots: Array
    to: Array | None
    follower: int | None = None


@dataclass(frozen=True, eq=False)
class Follower:
    """Partial sums that follow from the cells of a stage's tables.

    Attributes:
        axes: the axes of the tables from which they follow, ascending.
        codes: their codes at the values of these axes, -1 where there is none, shape (levels,
            width, values of the axes); 0 in places without a partial sum.
        cells: the partial sum that follows in each place, -1 for none, shape (levels, width).
    """

    axes: tuple[int, ...]
    codes: Array
    cells: Array


@dataclass(frozen=True, eq=False)
class Stage:
    """Tables of one shape, `levels` times `width` of them.

    Attributes:
        radix: the shape of each table, with the values of the eliminated cell first.
        steps: the step in each place, shape (levels, width), -1 for none.
        slots: the number of places in the stages before this one, from which its places are
            numbered.
        feeds: the messages that it takes.
        followers: the partial sums that follow in its places.
    """

    radix: tuple[int, ...]
    steps: Array
    slots: int
    feeds: tuple[Feed, ...] = field(default=())
    followers: tuple[Follower, ...] = field(default=())

    @property
    def levels(self) -> int:
        return self.steps.shape[0]

    @property
    def width(self) -> int:
        return self.steps.shape[1]

    def axes(self, feed: Feed) -> tuple[int, ...]:
        """Return the axes of the tables that a message covers, read where partial sums follow."""
        return tuple(sorted({*feed.axes, *(() if feed.follower is None else self.followers[feed.follower].axes)}))

    @property
    def size(self) -> int:
        """The number of places."""
        return self.steps.size

    @property
    def entries(self) -> float:
        """The number of entries of one table."""
        return float(np.prod(np.array(self.radix, float)))


def plan_stages(
    scopes: Array, radix: Array, parents: Array, levels: Array, n_cells: int, links: Sequence[SumLink | None] = ()
) -> tuple[Stage, ...]:
    """Return stages in the order in which they run.

    Args:
        scopes: the cells of each step, padded with `n_cells`, shape (steps, width).
        radix: the number of values of each cell, 1 for padding.
        parents: the step that takes each message, -1 for none.
        levels: the level of each step, ascending. Steps of one level do not depend on one another.
        n_cells: the number of cells of the graph, which is the padding.
        links: the link of each step, see `Elimination`.
    """
    stages, before = [], 0
    for shape, runs in _runs(radix, (scopes < n_cells).sum(axis=1), levels):
        steps = side_by_side(runs, -1)
        stages.append(Stage(shape, steps, before))
        before += steps.size
    followers = [_followers(s, scopes, links) if links else () for s in stages]
    feeds = _feeds(stages, followers, scopes, parents, n_cells, links)
    return tuple(Stage(s.radix, s.steps, s.slots, f, own) for s, f, own in zip(stages, feeds, followers, strict=True))


def in_turn(stages: Sequence[Stage], radix: Array) -> Stage:
    """Return one stage with the places of all stages one after another.

    Every axis has as many values as the largest cell.
    """
    steps = np.concatenate([s.steps.ravel() for s in stages])
    return Stage((int(radix.max(initial=1)),) * radix.shape[1], steps[:, None], 0)


def places(stages: Sequence[Stage], n_steps: int) -> tuple[Array, Array]:
    """Return the stage of each step, and its place there, counted level by level."""
    stage, place = np.zeros(n_steps, np.int64), np.zeros(n_steps, np.int64)
    for k, s in enumerate(stages):
        at = np.flatnonzero(s.steps.ravel() >= 0)
        stage[s.steps.ravel()[at]], place[s.steps.ravel()[at]] = k, at
    return stage, place


@dataclass
class _Run:
    """Levels that may become one stage, with tables padded to one shape."""

    shape: list[int]
    width: int
    actual: float
    runs: list[Array]

    @property
    def level(self) -> float:
        """The number of padded entries of one level."""
        return float(self.width * math.prod(self.shape))

    @property
    def is_wasteful(self) -> bool:
        padded = self.level * len(self.runs)
        return self.level > SMALL_LEVEL and padded > MOST_LEVEL_WASTE * self.actual

    def takes(self, other: _Run, most: float, waste: float, small: float) -> bool:
        """Join the one level of another run if the cost of padding permits.

        The padded tables of a level must stay at or below `most`, and little may be wasted.

        Args:
            other: a run of one level.
            most: the largest number of padded entries of a level.
            waste: the largest ratio of padded to real entries.
            small: the number of padded entries of a level up to which waste does not count.

        Returns:
            Whether the level was joined.
        """
        shape = [max(a, b) for a, b in zip_longest(self.shape, other.shape, fillvalue=1)]
        width, actual = max(self.width, other.width), self.actual + other.actual
        level = width * math.prod(shape)
        if level > most or (level > small and level * (len(self.runs) + 1) > waste * actual):
            return False
        self.shape, self.width, self.actual = shape, width, actual
        self.runs += other.runs
        return True


def _runs(radix: Array, arity: Array, levels: Array) -> list[tuple[tuple[int, ...], list[Array]]]:
    """Return for each stage the shape of its tables, and the steps of each of its levels."""
    if not len(levels):
        return []
    entries = np.prod(radix.astype(float), axis=1)
    starts = np.flatnonzero(np.diff(levels, prepend=-1))
    widest = np.maximum.reduceat(radix, starts, axis=0).tolist()
    members = np.maximum.reduceat(arity, starts).tolist()
    actual = np.add.reduceat(entries, starts).tolist()
    ends = [*starts[1:].tolist(), len(levels)]
    most = LARGE_LEVEL if sum(a > LARGE_LEVEL for a in actual) <= MOST_ALONE else math.inf
    padding = (MOST_LEVEL_WASTE, SMALL_LEVEL) if len(starts) > FEW_LEVELS else (LITTLE_WASTE, 0.0)
    out: list[_Run] = []
    open_ = False  # It tells whether the last run may take another level.
    for k, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True)):
        level = _Run(widest[k][: members[k]], end - start, actual[k], [np.arange(start, end)])
        if level.is_wasteful:
            out += _alike(radix, arity, entries, level.runs[0])
            open_ = False
        elif not (open_ and out[-1].takes(level, most, *padding)):
            out.append(level)
            open_ = True
    return [(tuple(r.shape), r.runs) for r in out]


def side_by_side(rows: Sequence[Array | tuple[int, ...]], value: int) -> Array:
    """Return rows of different lengths as one array, padded with `value`."""
    out = np.full((len(rows), max(map(len, rows))), value, np.int64)
    for k, row in enumerate(rows):
        out[k, : len(row)] = row
    return out


def listed_by(target: Array, values: Array, count: int) -> Array:
    """Return the values of each target side by side, in their order, padded with -1."""
    most = int(np.bincount(target, minlength=count).max(initial=0))
    out = np.full((count, most), -1, np.int64)
    out[target, rank_within(target)] = values
    return out


def _alike(radix: Array, arity: Array, entries: Array, steps: Array) -> list[_Run]:
    """Return the steps of one level, grouped by the shape of their tables."""
    found = ((shape, steps[at]) for shape, at in grouped(radix[steps]))
    return [_Run(shape[: int(arity[mine].max())].tolist(), len(mine), float(entries[mine].sum()), [mine]) for shape, mine in found]


def _followers(stage: Stage, scopes: Array, links: Sequence[SumLink | None]) -> tuple[Follower, ...]:
    """Return the partial sums that follow in a stage, one set for each set of axes."""
    found: dict[tuple[int, ...], Follower] = {}
    for level, column in np.argwhere(stage.steps >= 0).tolist():
        step = int(stage.steps[level, column])
        link = links[step]
        if link is None:
            continue
        at = [scopes[step].tolist().index(c) for c in link.cells]
        axes = tuple(sorted(at))
        codes = link.codes.transpose(np.argsort(at))
        shape = tuple(stage.radix[a] for a in axes)
        if axes not in found:
            empty = np.zeros((*stage.steps.shape, *shape), np.int32)
            found[axes] = Follower(axes, empty, np.full(stage.steps.shape, -1))
        found[axes].codes[(level, column, *(slice(n) for n in codes.shape))] = codes
        found[axes].cells[level, column] = link.cell
    return tuple(Follower(f.axes, f.codes.reshape(*stage.steps.shape, -1), f.cells) for _, f in sorted(found.items()))


def _feeds(
    stages: Sequence[Stage],
    followers: Sequence[tuple[Follower, ...]],
    scopes: Array,
    parents: Array,
    n_cells: int,
    links: Sequence[SumLink | None],
) -> list[tuple[Feed, ...]]:
    stage, place = places(stages, len(parents))
    children = np.flatnonzero(parents >= 0)
    sets = axes_of(scopes[children, 1:], scopes[parents[children]], n_cells)
    # the number of the set of partial sums that is the first axis of a message, -1 for none
    through = np.full(len(children), -1)
    for k in range(len(children)) if links else ():
        step = int(parents[children[k]])
        link = links[step]
        if link is not None and link.cell == scopes[children[k], 1]:
            own = followers[stage[step]]
            through[k] = next(n for n, f in enumerate(own) if f.cells.ravel()[place[step]] == link.cell)
    keys = np.column_stack([stage[parents[children]], stage[children], sets, through])
    kinds, inverse = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(inverse.reshape(-1), kind="stable")
    bounds = np.searchsorted(inverse.reshape(-1)[order], np.arange(len(kinds) + 1))
    out: list[list[Feed]] = [[] for _ in stages]
    for k, (target, source, bits, number) in enumerate(kinds.tolist()):
        mine = children[order[bounds[k] : bounds[k + 1]]]
        slots, to = _listed(place[mine], place[parents[mine]], stages[source].size, stages[target])
        out[target].append(Feed(source, bits_to_axes(bits), slots, to, None if number < 0 else number))
    return [tuple(f) for f in out]


def axes_of(cells: Array, scopes: Array, n_cells: int) -> Array:
    """Return the axes of each scope that contain some of the cells, as bits.

    A cell `n_cells` is padding and is ignored.
    """
    bits = np.zeros(len(cells), np.int64)
    powers = 1 << np.arange(scopes.shape[1], dtype=np.int64)
    for column in cells.T:
        bits |= ((scopes == column[:, None]) & (column < n_cells)[:, None]) @ powers
    return bits


def bits_to_axes(bits: int) -> tuple[int, ...]:
    """Return the numbers of the bits that are set."""
    return tuple(k for k in range(bits.bit_length()) if bits >> k & 1)


def _listed(source: Array, target: Array, none: int, stage: Stage) -> tuple[Array, Array | None]:
    """Return messages by the place that takes them.

    If few places take many messages, they are returned as a list with the column of each instead.
    """
    order = np.argsort(target, kind="stable")
    source, target = source[order], target[order]
    each = int(np.bincount(target).max())
    if each <= MOST_CHILDREN:
        slots = np.full((stage.size, each), none)
        slots[target, rank_within(target)] = source
        return slots.reshape(stage.levels, stage.width, each), None
    level = target // stage.width
    shape, rank = (stage.levels, int(np.bincount(level).max())), rank_within(level)
    slots, to = np.full(shape, none), np.full(shape, stage.width)
    slots[level, rank], to[level, rank] = source, target % stage.width
    return slots, to
