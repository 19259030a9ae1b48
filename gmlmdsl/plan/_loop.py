"""An elimination as one loop over blocks of equal size.

The size of the compiled program does not grow with the tables. Messages are stored one after
another in one array, after the factor tables. Terms of a table are read from this array by strides.
The place of an entry is a number plus the sum, over axes, of the value on the axis times a stride.
A block is the part of a message that its last axes span, at most `lanes` entries. The places of its
entries are one number plus a pattern, and there are few patterns.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._elimination import Elimination
from ._stages import side_by_side
from ._tables import FactorTables, TableUse
from .limits import MOST_LOOP_PLACES, PICKED, SOURCES, TURN_ENTRIES

Array = np.ndarray
LANES = tuple(1 << k for k in range(2, 13))  # Blocks can have these lengths.
TOGETHER = tuple(1 << k for k in range(8))  # One iteration can take these numbers of blocks.


@dataclass(frozen=True, eq=False)
class Loop:
    """Iterations that send messages, and iterations that pick values.

    Places count through the own tables of all steps, the factor tables in `uses`, and the messages,
    in this order. Own tables are over the eliminated cell alone. Two more own tables follow those
    of the steps: one of which only the first value is possible, and one that adds 0.

    Attributes:
        lanes: the length of a block.
        own: the number of values of each own table, shape (steps + 2,).
        uses: for each of the `FactorTables`, the number of the table that each use takes; empty if
            they are over one axis.
        single: for each of the `FactorTables` over one axis, the steps that take them and the table
            that each takes: shape (2, uses).
        component: the component of each place before the messages; the number of components for
            none.
        base: for each block of an iteration and each term added there, the place of the first
            entry, shape (turns, blocks, SOURCES).
        stride: the distance to the next value of the eliminated cell, of the same shape.
        pattern: the number of the pattern, in `patterns`, that the entries follow, of the same
            shape.
        patterns: places relative to the first entry, shape (patterns, lanes).
        roots: the place of the sum of each component.
        picks: the steps that each iteration picks, their number for none, shape (turns, PICKED).
        others: the steps that pick the other cells of each step's table, shape (steps + 1, axes -
            1).
        bases: the places of the terms of each step's table, shape (steps + 1, SOURCES).
        strides: the strides of these terms, shape (steps + 1, SOURCES, axes).
    """

    lanes: int
    own: Array
    uses: tuple[Array, ...]
    single: tuple[Array, ...]
    component: Array
    base: Array
    stride: Array
    pattern: Array
    patterns: Array
    roots: Array
    picks: Array
    others: Array
    bases: Array
    strides: Array

    @property
    def messages(self) -> int:
        """The number of places of all messages."""
        return self.base.shape[0] * self.base.shape[1] * self.lanes

    @property
    def turn(self) -> int:
        """The number of terms in one iteration: the entries of its tables times `SOURCES`."""
        return self.base.shape[1] * self.base.shape[2] * self.lanes * int(self.own.max())


@dataclass(frozen=True)
class _Source:
    """A term of a table.

    Attributes:
        axes: the axes of the table over which the term runs.
        node: the node whose message it is, or -1.
        place: its first place, if it is not a message.
        strides: its strides, if it is not a message.
    """

    axes: tuple[int, ...]
    node: int
    place: int = 0
    strides: tuple[int, ...] = ()


@dataclass
class _Node:
    """A table that sends a message.

    It belongs to a step, or it only adds up terms over an eliminated axis of one value.
    """

    radix: tuple[int, ...]
    sources: list[_Source]
    level: int = 0


def plan_loop(plan: Elimination, tables: Sequence[FactorTables], uses: Sequence[TableUse]) -> Loop:
    """Return the loop of an elimination.

    Args:
        plan: the elimination. Its only stage has as many values on every axis as the largest cell.
        tables: its factor tables.
        uses: the tables that each step takes.
    """
    n, values = len(plan.parents), int(plan.radix.max(initial=1))
    taken, single, sources, component = _factors(plan, tables, uses, values)
    nodes = _nodes(plan, sources, values)
    radix = side_by_side([k.radix for k in nodes], 1)
    levels = np.array([k.level for k in nodes], np.int64)
    lanes, together = _shape(radix, levels)
    kept = _Messages(radix, levels, lanes, together, len(component))
    assert len(component) + kept.turns * together * lanes <= MOST_LOOP_PLACES, "an elimination of so many entries takes no loop"
    bases, strides = _places(nodes, kept, values * (n + 1))
    at = np.full(plan.n_cells + 1, n)
    at[plan.cells] = np.arange(n)
    others = np.concatenate([at[plan.scopes[:, 1:]], np.full((1, plan.scopes.shape[1] - 1), n)])
    steps, width = np.append(np.arange(n), len(nodes)), plan.scopes.shape[1]
    roots = np.flatnonzero(plan.parents < 0)
    return Loop(
        lanes,
        np.concatenate([plan.radix[:, 0], [1, values]]),
        taken,
        single,
        component,
        *kept.blocks(bases, strides),
        kept.start[roots[np.argsort(plan.components[roots])]],
        _picks(plan.levels),
        others,
        bases[steps],
        strides[steps][:, :, :width],
    )


def _factors(
    plan: Elimination, tables: Sequence[FactorTables], uses: Sequence[TableUse], values: int
) -> tuple[tuple[Array, ...], tuple[Array, ...], list[list[_Source]], Array]:
    """Return `uses`, `single`, the terms of each step except messages, and `component`."""
    n = len(plan.parents)
    step_of = plan.stages[0].steps.ravel() if n else np.zeros(0, np.int64)
    sources = [[_Source((0,), -1, values * k, (1,))] for k in range(n)]
    component = [np.repeat(np.append(plan.components, [plan.n_components] * 2), values)]
    taken, single, place = [], [], values * (n + 2)
    for number, t in enumerate(tables):
        size, numbers, alone = values ** len(t.radix), [np.zeros(0, np.int64)], [np.zeros((2, 0), np.int64)]
        strides = tuple(values**k for k in range(len(t.radix) - 1, -1, -1))
        for use in uses:
            slots = use.slots.ravel()
            here = np.flatnonzero(slots < len(t.cells)) if use.tables == number else np.zeros(0, np.int64)
            steps = step_of[here]
            if use.axes == (0,):
                alone.append(np.stack([steps, slots[here]]))
                continue
            for k in steps.tolist():
                sources[k].append(_Source(use.axes, -1, place, strides))
                place += size
            numbers.append(slots[here])
            component.append(np.repeat(plan.components[steps], size))
        taken.append(np.concatenate(numbers))
        single.append(np.concatenate(alone, axis=1))
    return tuple(taken), tuple(single), sources, np.concatenate(component)


def _nodes(plan: Elimination, sources: list[list[_Source]], values: int) -> list[_Node]:
    """Return the nodes of the steps, then those that add up terms for steps with too many."""
    n = len(plan.parents)
    scopes = [[c for c in s if c < plan.n_cells] for s in plan.scopes.tolist()]
    nodes = [_Node(tuple(r[: len(s)]), found) for r, s, found in zip(plan.radix.tolist(), scopes, sources, strict=True)]
    for k, parent in enumerate(plan.parents.tolist()):
        _bundle(nodes, k, values * n)
        if parent >= 0:
            axis = {c: a for a, c in enumerate(scopes[parent])}
            nodes[parent].sources.append(_Source(tuple(axis[c] for c in scopes[k][1:]), k))
    return nodes


def _bundle(nodes: list[_Node], number: int, only_first: int) -> None:
    """Add up the smallest terms of a table until there are at most `SOURCES`, and set its level.

    The table's own table, its first term, stays, because it says which values are possible.
    """
    radix, (own, *others) = nodes[number].radix, nodes[number].sources
    waiting = [(math.prod(radix[a] for a in s.axes), i, s) for i, s in enumerate(others)]
    heapq.heapify(waiting)
    while len(waiting) > SOURCES - 1:
        some = [heapq.heappop(waiting)[2] for _ in range(min(SOURCES - 1, len(waiting) - SOURCES + 2))]
        axes = tuple(sorted({a for s in some for a in s.axes}))
        inside = [_Source(tuple(1 + axes.index(a) for a in s.axes), s.node, s.place, s.strides) for s in some]
        nodes.append(_Node((1, *(radix[a] for a in axes)), [_Source((0,), -1, only_first, (1,)), *inside]))
        nodes[-1].level = _level(nodes, inside)
        heapq.heappush(waiting, (math.prod(radix[a] for a in axes), len(nodes) + len(others), _Source(axes, len(nodes) - 1)))
    nodes[number].sources = [own, *(s for _, _, s in sorted(waiting))]
    nodes[number].level = _level(nodes, nodes[number].sources)


def _level(nodes: list[_Node], sources: list[_Source]) -> int:
    return 1 + max((nodes[s.node].level for s in sources if s.node >= 0), default=-1)


class _Messages:
    """The places of the nodes' messages.

    They are stored in blocks, level by level, and each level is padded to whole iterations.

    Attributes:
        start: the place of each message's first entry.
        strides: the strides of a table's axes in its message, shape (nodes, axes); 0 for the
            eliminated axis.
    """

    def __init__(self, radix: Array, levels: Array, lanes: int, together: int, first: int):
        self.radix, self.lanes, self.together = radix, lanes, together
        self.inner, self.length, self.count = _split(radix, lanes)
        of_level = np.bincount(levels, weights=self.count).astype(np.int64)
        turns = -(-of_level // together)
        self.turns = int(turns.sum())
        order = np.argsort(levels, kind="stable")
        # `before` is the number of blocks before each message, without padding.
        before = np.cumsum(self.count[order]) - self.count[order]
        filled = np.cumsum(turns * together - of_level) - (turns * together - of_level)
        self.block = np.empty(len(levels), np.int64)
        self.block[order] = before + filled[levels[order]]
        self.start = first + self.block * lanes
        behind = _products(radix) // np.maximum(radix, 1)
        self.strides = np.where(self.inner, behind, lanes * (behind // self.length[:, None]))
        self.strides[:, 0] = 0

    def blocks(self, bases: Array, strides: Array) -> tuple[Array, Array, Array, Array]:
        """Return `base`, `stride`, `pattern` and `patterns` from those of each node's terms.

        The last node is that of blocks without a node.
        """
        n = len(self.radix)
        node = np.full(self.turns * self.together, n)
        number = np.zeros(len(node), np.int64)  # This is the number of each block in its message.
        within = np.arange(self.count.sum()) - np.repeat(np.cumsum(self.count) - self.count, self.count)
        place = np.repeat(self.block, self.count) + within
        node[place], number[place] = np.repeat(np.arange(n), self.count), within
        radix = np.concatenate([self.radix, np.ones_like(self.radix[:1])])
        outer = np.concatenate([np.where(self.inner, 0, self.strides // self.lanes), np.zeros_like(self.strides[:1])])
        inner = np.concatenate([self.inner, np.zeros_like(self.inner[:1])])
        base = bases[node]
        for a in range(1, radix.shape[1]):
            digit = number // np.maximum(outer[node, a], 1) % radix[node, a]
            base = base + np.where(outer[node, a] > 0, digit, 0)[:, None] * strides[node, :, a]
        shape = (self.turns, self.together, bases.shape[1])
        pattern, patterns = _patterns(np.where(inner, radix, 1), np.where(inner[:, None], strides, 0), self.lanes)
        return base.reshape(shape), strides[node, :, 0].reshape(shape), pattern[node].reshape(shape), patterns


def _products(radix: Array) -> Array:
    """Return for each axis the number of entries over it and the axes after it."""
    return np.cumprod(radix[:, ::-1], axis=1)[:, ::-1]


def _split(radix: Array, lanes: int) -> tuple[Array, Array, Array]:
    """Return the axes inside a block, its number of entries, and the blocks of a message."""
    products = _products(radix)
    inner = products <= lanes
    inner[:, 0] = False
    length = np.where(inner, products, 1).max(axis=1)
    return inner, length, products[:, 0] // radix[:, 0] // length


def _shape(radix: Array, levels: Array) -> tuple[int, int]:
    """Return the lanes of a block and the blocks of an iteration with the lowest total cost."""
    found = []
    for lanes in LANES:
        blocks = np.bincount(levels, weights=_split(radix, lanes)[2])
        for together in TOGETHER:
            found.append((float(np.ceil(blocks / together).sum()) * (TURN_ENTRIES + lanes * together), lanes, together))
    return min(found)[1:]


def _places(nodes: Sequence[_Node], kept: _Messages, nothing: int) -> tuple[Array, Array]:
    """Return the first place of each term and its strides.

    The shapes are (nodes + 1, SOURCES) and (nodes + 1, SOURCES, axes).
    """
    bases = np.full((len(nodes) + 1, SOURCES), nothing)
    strides = np.zeros((*bases.shape, kept.radix.shape[1]), np.int64)
    for k, node in enumerate(nodes):
        for j, s in enumerate(node.sources):
            sent = s.node >= 0
            bases[k, j] = kept.start[s.node] if sent else s.place
            strides[k, j, list(s.axes)] = kept.strides[s.node, 1 : len(s.axes) + 1] if sent else s.strides
    return bases, strides


def _patterns(radix: Array, strides: Array, lanes: int) -> tuple[Array, Array]:
    """Return the pattern of the entries inside a node's blocks for each term, and the patterns."""
    wide = np.broadcast_to(radix[:, None], strides.shape)
    keys = np.concatenate([wide, strides], axis=2).reshape(-1, 2 * radix.shape[1])
    kinds, inverse = np.unique(keys, axis=0, return_inverse=True)
    radix, strides = np.split(kinds, 2, axis=1)
    behind = _products(radix) // radix
    patterns = np.zeros((len(kinds), lanes), np.int64)
    for a in range(radix.shape[1]):
        patterns += np.arange(lanes) // behind[:, a, None] % radix[:, a, None] * strides[:, a, None]
    return inverse.reshape(wide.shape[:2]), patterns


def _picks(levels: Array) -> Array:
    """Return the steps in the reverse order of the sums; steps of one level are side by side."""
    n, turns = len(levels), []
    for here in reversed(np.split(np.arange(n), np.flatnonzero(np.diff(levels)) + 1)):
        turn = np.full(-(-len(here) // PICKED) * PICKED, n)
        turn[: len(here)] = here
        turns.append(turn.reshape(-1, PICKED))
    return np.concatenate(turns)
