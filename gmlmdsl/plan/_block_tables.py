"""Scores of blocks as products of tables and indicators of the cells around the blocks.

A factor has a value for every joint value of its own cells: its table. The score of value v of a
block K at a row x is a sum of entries. Each factor that touches K contributes the entry that v and
x select in its table. The context of such a factor is the set of its cells outside K.

With the contexts of all blocks listed once, the scores of all blocks, values and rows are one
product: (block, value) x (context, its value) times the indicators of which value each context has
in each row. No tree is evaluated per block, value or row.

Blocks as index arrays, with the factors that touch them, stand at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import FactorGraph, FactorGroup, distinct, range_of, rank_within
from ..graph.nodes import Apply, Gather, Node, nodes_in
from ._table_entries import FactorTable, entry_values
from .limits import DENSE_RATIO, MOST_BLOCK_PLACES, MOST_GROUP_ENTRIES, MOST_USES, TREE_PRODUCTS

Array = np.ndarray


@dataclass(frozen=True)
class GraphTables:
    """The tables of a graph's factors, concatenated in one vector.

    Attributes:
        tables: the tables of the groups that have one.
        rest: the groups without a table, whose trees are evaluated. None of them mentions a
            parameter.
    """

    tables: tuple[FactorTable, ...]
    rest: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of entries of all tables; the entry after them is 0, for padding."""
        return sum(t.entries for t in self.tables)


@dataclass(frozen=True, eq=False)
class ContextTables:
    """The contexts of similar size of a set of blocks.

    Attributes:
        cells: the cells of each context, ascending, padded with the number of cells, shape
            (contexts, members).
        strides: the place value of each member, the last one fastest; 1 for padding.
        of: the contexts of each block, shape (blocks, degree), 0 for padding; None if every block
            is combined with every context.
        places: entries to be added, shape (blocks, several, values, contexts or degree, width). The
            width is the largest number of joint values of a context.
    """

    cells: Array
    strides: Array
    of: Array | None
    places: Array


@dataclass(frozen=True, eq=False)
class BlockTables:
    """How a set of blocks is scored from tables.

    Attributes:
        inside: entries of the factors without a context, shape (blocks, several, values).
        contexts: the contexts of the other factors.
    """

    inside: Array
    contexts: tuple[ContextTables, ...]

    @property
    def products(self) -> float:
        """The number of additions and products for the scores of one row."""
        return float(sum(c.places[:, 0].size for c in self.contexts))

    @property
    def held(self) -> float:
        """The number of floats held for each row: scores and indicators."""
        seen = sum(c.cells.shape[0] * (c.places.shape[-1] - 1) for c in self.contexts)
        return float(self.inside.shape[0] * self.inside.shape[2] + seen)


def plan_blocks_by_tables(
    graph: FactorGraph, tables: GraphTables, blocks: Array, radix: Array, strides: Array, touch: Sequence[Array]
) -> BlockTables | None:
    """Return how to score blocks from tables.

    The result is None if trees are faster, or if the index arrays are too large.

    Args:
        graph: the factor graph.
        tables: the tables of its factors.
        blocks: positions, shape (blocks, members), ascending, padded with the number of cells.
        radix: the number of values of each member, 1 for padding.
        strides: the place value of each member.
        touch: for each group the factors that touch each block, padded with -1, shape (blocks,
            width).
    """
    uses = sum(int((touch[t.group] >= 0).sum()) for t in tables.tables)
    if not 0 < uses <= MOST_USES:
        return None
    values = int(np.prod(radix, axis=1).max())
    # The axes are blocks, values, members.
    codes = (np.arange(values)[:, None] // strides[:, None]) % radix[:, None]
    found = [_uses(graph, t, blocks, touch[t.group]) for t in tables.tables]
    groups = _contexts(found, np.append(graph.sizes, 1), graph.n_cells)
    trees = sum(float((t >= 0).sum()) for t in touch) * values * TREE_PRODUCTS
    places = uses * values + sum(c.count(len(blocks), values) for c in groups)
    if places > MOST_BLOCK_PLACES or sum(c.cost(len(blocks), values) for c in groups) > trees:
        return None
    filling = _Filling(graph, found, codes, tables.size)
    return BlockTables(filling.alone(), tuple(filling.placed(c) for c in groups))


def with_gaps(plan: BlockTables, tables: GraphTables) -> BlockTables:
    """Return the same plan for rows that may lack cells.

    An incomplete context gets an additional last value, under which it adds 0.
    """
    width = ((0, 0),) * 4 + ((0, 1),)
    return replace(plan, contexts=tuple(replace(c, places=np.pad(c.places, width, constant_values=tables.size)) for c in plan.contexts))


def plan_graph_tables(graph: FactorGraph) -> GraphTables | None:
    """Return the tables of a graph's factors.

    The result is None if a factor that mentions a parameter has no table.
    """
    tables, rest, start = [], [], 0
    sizes = np.append(graph.sizes, 1)
    for k, group in enumerate(graph.groups):
        table = factor_table(k, group, sizes, start)
        if table is None or not stays_finite(graph, group, table):
            if group.parameters:
                return None
            rest.append(k)
        else:
            tables.append(table)
            start += table.entries
    return GraphTables(tuple(tables), tuple(rest))


def factor_table(k: int, group: FactorGroup, sizes: Array, start: int) -> FactorTable | None:
    """Return the tables of a group.

    The result is None for a requirement, for a group that reads given data, and for too many
    entries.

    Args:
        k: the number of the group in the graph.
        group: the group.
        sizes: the number of values of each cell, with a 1 appended for padding.
        start: the place of its first entry in the vector of all entries.
    """
    if group.kind == "require" or group.given is not None or not group.n:
        return None
    mine = sizes[group.cells]
    most = mine.max(axis=0, initial=1)
    shared = bool((mine == most).all()) and all(c.shape[0] == 1 for c in group.columns)
    count = 1 if shared else group.n
    if float(np.prod(most.astype(float))) * count > MOST_GROUP_ENTRIES:
        return None
    return FactorTable(k, tuple(most.tolist()), start, count)


def stays_finite(graph: FactorGraph, group: FactorGroup, table: FactorTable) -> bool:
    """Return whether no entry of a table is infinite.

    Bounds decide, or else a trial of all entries at the parameters' start values. An entry that is
    infinite at all parameters is infinite there too. A part that only some parameters make infinite
    has no table.
    """
    if any(_may_vanish(n) for n in nodes_in(group.root)):
        return False
    middle = {p.name: np.full(p.shape, p.middle) for p in graph.parameters}
    most = int(graph.sizes.max(initial=1))
    if range_of(group, most, middle) is not None:
        return True
    return bool(np.isfinite(entry_values(group, table, middle)).all())


def _may_vanish(node: Node) -> bool:
    """Return whether parameters at the edge of their range can make a part infinite.

    Such a part is a logarithm, a quotient or a power of parameters.
    """
    if not isinstance(node, Apply) or node.operator not in ("log", "/", "^"):
        return False
    return any(isinstance(n, Gather) and n.name for o in node.operands[node.operator == "/" :] for n in nodes_in(o))


@dataclass(frozen=True, eq=False)
class _Uses:
    """The uses of a group's factors by blocks.

    Attributes:
        table: the tables of the group.
        block: the block of each use.
        factor: the factor of each use.
        member: the place of each slot's cell in the block, -1 for a cell outside, shape (uses,
            slots).
        cells: the cells outside the block, with the number of cells for other slots, shape (uses,
            slots).
        context: the same cells, ascending and distinct, shape (uses, slots).
    """

    table: FactorTable
    block: Array
    factor: Array
    member: Array
    cells: Array
    context: Array


def _uses(graph: FactorGraph, table: FactorTable, blocks: Array, touch: Array) -> _Uses:
    block, place = np.nonzero(touch >= 0)
    factor, n = touch[block, place], graph.n_cells
    cells = graph.groups[table.group].cells[factor].astype(np.int64)
    same = (cells[:, :, None] == blocks[block][:, None, :]) & (cells < n)[:, :, None]
    member = np.where(same.any(axis=2), same.argmax(axis=2), -1)
    outside = np.where(member < 0, cells, n)
    context = _ascending(outside)
    if context.shape[1] > 1:
        context[:, 1:][context[:, 1:] == context[:, :-1]] = n
        context = _ascending(context)
    return _Uses(table, block, factor, member, outside, context)


def _ascending(rows: Array) -> Array:
    """Sort every row; rows of two cells, as in most factors, need no sort."""
    if rows.shape[1] != 2:
        return np.sort(rows, axis=1)
    return np.stack([np.minimum(rows[:, 0], rows[:, 1]), np.maximum(rows[:, 0], rows[:, 1])], axis=1)


@dataclass(frozen=True, eq=False)
class _Contexts:
    """Contexts of similar width, and the uses of factors that have them.

    Attributes:
        cells: the cells of each context.
        width: the largest number of joint values of a context.
        uses: for each `_Uses`, which of its uses belong here and the context of each.
        pairs: the distinct (block, context), ascending, as block * contexts + context.
        degree: the largest number of contexts of a block.
        several: the largest number of uses with one block and one context.
    """

    cells: Array
    width: int
    uses: tuple[tuple[Array, Array], ...]
    pairs: Array
    degree: int
    several: int

    def dense(self, blocks: int) -> bool:
        """Return whether every block is combined with every context."""
        return blocks * len(self.cells) <= DENSE_RATIO * max(len(self.pairs), 1)

    def columns(self, blocks: int) -> int:
        """Return the number of contexts that are combined with each block."""
        return len(self.cells) if self.dense(blocks) else self.degree

    def count(self, blocks: int, values: int) -> float:
        """Return the number of index entries."""
        return float(self.several * blocks * self.columns(blocks)) * values * self.width

    def cost(self, blocks: int, values: int) -> float:
        """Return the number of products for one row; in a dense matrix each costs a fraction."""
        each = 1.0 / DENSE_RATIO if self.dense(blocks) else 1.0
        return each * blocks * self.columns(blocks) * max(values - 1, 1) * max(self.width - 1, 1)


def _contexts(found: Sequence[_Uses], sizes: Array, n: int) -> list[_Contexts]:
    """Return the distinct contexts, grouped by their width as a power of two."""
    most = max(u.context.shape[1] for u in found)
    padded = [np.pad(u.context, ((0, 0), (0, most - u.context.shape[1])), constant_values=n) for u in found]
    whole = np.concatenate(padded)
    which = np.repeat(np.arange(len(found)), [len(p) for p in padded])
    at = np.concatenate([np.arange(len(p)) for p in padded])
    block = np.concatenate([u.block for u in found])
    some = (whole < n).any(axis=1)
    whole, which, at, block = whole[some], which[some], at[some], block[some]
    width = np.prod(sizes[whole].astype(float), axis=1)
    kind = np.ceil(np.log2(width)).astype(int)
    out = []
    for k in np.unique(kind):
        mine = kind == k
        cells, number = _distinct(whole[mine], n)
        pairs, times = np.unique(block[mine] * len(cells) + number, return_counts=True)
        degree = int(np.bincount(pairs // len(cells)).max(initial=0))
        uses = tuple((at[mine][which[mine] == g], number[which[mine] == g]) for g in range(len(found)))
        out.append(_Contexts(cells, int(width[mine].max()), uses, pairs, degree, int(times.max(initial=1))))
    return out


def _distinct(rows: Array, n: int) -> tuple[Array, Array]:
    """Return the distinct rows, without columns of padding, and which of them each row is."""
    rows = rows[:, : max(1, int((rows < n).sum(axis=1).max(initial=0)))]
    if (n + 1.0) ** rows.shape[1] < 2.0**62:
        keys = rows @ ((n + 1) ** np.arange(rows.shape[1] - 1, -1, -1, dtype=np.int64))
        _, first, number = np.unique(keys, return_index=True, return_inverse=True)
        return rows[first], number.reshape(-1)
    distinct, number = np.unique(rows, axis=0, return_inverse=True)
    return distinct, number.reshape(-1)


class _Filling:
    """Writes the places of entries into index arrays."""

    def __init__(self, graph: FactorGraph, found: Sequence[_Uses], codes: Array, size: int):
        self.sizes, self.n, self.found, self.codes, self.size = np.append(graph.sizes, 1), graph.n_cells, found, codes, size

    def alone(self) -> Array:
        """Return the entries of factors without a context, shape (blocks, several, values)."""
        lists = []
        for u in self.found:
            mine = np.flatnonzero((u.context == self.n).all(axis=1))
            lists.append((u.block[mine], self.windows(u, mine, None)[:, :, 0]))
        block = np.concatenate([b for b, _ in lists])
        turn = rank_within(block)
        blocks, values, _ = self.codes.shape
        out = np.full((blocks, int(turn.max(initial=0)) + 1, values), self.size, np.int32)
        out[block, turn] = np.concatenate([w for _, w in lists])
        return out

    def placed(self, group: _Contexts) -> ContextTables:
        """Return the entries of factors with a context."""
        radix = self.sizes[group.cells]
        strides = place_values(radix)
        (blocks, values, _), contexts, width, of = self.codes.shape, len(group.cells), group.width, None
        block = np.concatenate([u.block[at] for u, (at, _) in zip(self.found, group.uses, strict=True)])
        number = np.concatenate([c for _, c in group.uses])
        pair, column = block * contexts + number, number
        if not group.dense(blocks):
            mine = group.pairs // contexts
            turn = rank_within(mine)
            of = np.zeros((blocks, group.degree), np.int32)
            of[mine, turn] = group.pairs % contexts
            column = turn[np.searchsorted(group.pairs, pair)]
        windows = [
            self.windows(u, at, (group.cells[c], radix[c], strides[c], width)) for u, (at, c) in zip(self.found, group.uses, strict=True)
        ]
        out = np.full((blocks, group.several, values, group.columns(blocks), width), self.size, np.int32)
        out[block, rank_within(pair), :, column] = np.concatenate(windows)
        return ContextTables(group.cells, strides, of, out)

    def windows(self, u: _Uses, mine: Array, context: tuple[Array, Array, Array, int] | None) -> Array:
        """Return the places of the entries of some uses under every value of block and context.

        Args:
            u: the uses of a group.
            mine: which of its uses.
            context: cells, radix and strides of the context of each use, and their width; None if
                there is no context.

        Returns:
            Places of shape (uses, values, width).
        """
        table, values = u.table, self.codes.shape[1]
        width = 1 if context is None else context[3]
        first = table.start + (0 if table.shared else 1) * u.factor[mine].astype(np.int64) * table.values
        out = np.broadcast_to(first[:, None, None], (len(mine), values, width)).copy()
        for slot, stride in enumerate(table.strides):
            member = u.member[mine, slot]
            # The shape is (uses, values).
            inside = self.codes[u.block[mine], :, np.maximum(member, 0)]
            out += (np.where(member[:, None] >= 0, inside, 0) * stride)[:, :, None]
            if context is not None:
                out += (_context_codes(u.cells[mine, slot], self.n, *context) * stride)[:, None]
        return out


def _context_codes(cell: Array, n: int, cells: Array, radix: Array, strides: Array, width: int) -> Array:
    """Return the code of one cell of each context under every joint value, shape (uses, width).

    The code is 0 if the context does not contain the cell.
    """
    same = (cells == cell[:, None]) & (cell < n)[:, None]
    at = same.argmax(axis=1)[:, None]
    stride, size = np.take_along_axis(strides, at, 1), np.take_along_axis(radix, at, 1)
    return np.where(same.any(axis=1)[:, None], (np.arange(width) // stride) % size, 0)


# Blocks as index arrays


def block_values(sizes: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Return the number of joint values of each block, as floats.

    `sizes` ends with a 1 for padding.
    """
    with np.errstate(over="ignore"):  # A number beyond the range of floats is too large as well.
        return np.prod(sizes[blocks].astype(float), axis=-1)


def block_arrays(graph: FactorGraph, blocks: np.ndarray, extra: Sequence[FactorGroup] = ()) -> list[np.ndarray]:
    """Return cells, radix, strides, and the instances of each group that touch each block.

    The radix is the number of values of each member. Each array has shape (blocks, ..).
    """
    radix = np.append(graph.sizes, 1)[blocks].astype(np.int64)
    incidences = [*graph.incidences, *(g.incidence(graph.n_cells) for g in extra)]
    return [blocks, radix, place_values(radix), *(_touching(starts, found, blocks) for starts, found in incidences)]


def place_values(radix: np.ndarray) -> np.ndarray:
    """Return the place value of each digit of mixed-radix numbers, shape (numbers, digits)."""
    after = np.ones(radix.shape, np.int64)
    after[:, :-1] = radix[:, 1:]
    return np.cumprod(after[:, ::-1], axis=1)[:, ::-1]


def _touching(starts: np.ndarray, found: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Return the distinct instances that touch each block, padded with -1: shape (blocks, most)."""
    starts = np.append(starts, starts[-1])  # The padding cell touches no factor.
    lengths = (starts[1:] - starts[:-1])[blocks]
    row = np.repeat(np.arange(len(blocks)), lengths.sum(axis=1))
    first = np.repeat(starts[blocks].ravel(), lengths.ravel())
    ends = np.cumsum(lengths.ravel())
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths.ravel(), lengths.ravel())
    instance = found[first + within] if len(found) else np.zeros(0, np.int64)
    span = int(found.max(initial=0)) + 1
    if blocks.shape[1] > 1:  # A factor may touch several cells of a block.
        keys = distinct(row * span + instance)
        row, instance = keys // span, keys % span
    counts = np.bincount(row, minlength=len(blocks))
    out = np.full((len(blocks), int(counts.max(initial=0))), -1, np.int64)
    out[row, np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)] = instance
    return out


def size_classes(values: np.ndarray) -> np.ndarray:
    """Return the size bucket k of each block: its number of values rounded up to 4^k."""
    with np.errstate(divide="ignore"):
        return np.where(values <= 1, 0, np.ceil(np.log(values) / math.log(4) - 1e-9)).astype(np.int64)
