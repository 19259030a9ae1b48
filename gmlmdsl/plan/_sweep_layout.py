"""The layout of a sweep: blocks that are redrawn at once, and tables of single cells' scores.

A cell's score under a value is a sum over the factors that touch it. Each term is looked up in the
factor's table by the codes of its other cells, the neighbours. No tree is evaluated per value and
step, and the tables are computed once for many steps. Cells are stored in the order in which they
are redrawn, so that the cells of a colour are a slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._diagnostics import counted
from ..graph import FactorGraph, distinct
from ._block_tables import ContextTables, GraphTables, block_arrays, block_values, plan_blocks_by_tables, plan_graph_tables, size_classes
from ._cell_lists import cell_lists
from ._plan import BlockPlan
from ._table_entries import entries_at
from .limits import (
    MOST_BESIDE,
    MOST_COLOUR_WASTE,
    MOST_COMBINATIONS,
    MOST_COMPARED_ENTRIES,
    MOST_DIFFERENCE,
    MOST_ENTRY,
    MOST_EXPONENT,
    MOST_LIST_PLACES,
    MOST_PLANNED_CELLS,
    MOST_PRODUCT_PLACES,
    MOST_WRITTEN,
    TREE_PRODUCTS,
)

Array = np.ndarray
# The exceptions are a value of the neighbour, and the values whose entries differ from those of
# this value.
Exceptions = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class NeighbourLists:
    """The neighbours of cells of one kind: contexts of similar width, as in `ContextTables`.

    Attributes:
        slots: the slots of the cells of each context, shape (colours, blocks, degree, members); the
            last slot stands for none.
        strides: their place values.
        places: entries to be added, shape (colours, blocks, several, values, degree, width).
    """

    slots: Array
    strides: Array
    places: Array

    @property
    def degree(self) -> int:
        """The largest number of neighbours of a cell."""
        return self.slots.shape[2]


@dataclass(frozen=True, eq=False)
class TabledColours:
    """Colours of similar size that are redrawn one after another.

    Attributes:
        cells: the cells, shape (colours, blocks), padded with the number of cells.
        start: the slot of the first cell.
        inside: entries of factors without neighbours, shape (colours, blocks, several, values).
        lists: the neighbours of each kind.
        product: places as in a matrix over all slots, shape (colours, blocks, several, values,
            slots, width); None if lists are faster.
    """

    cells: Array
    start: int
    inside: Array
    lists: tuple[NeighbourLists, ...]
    product: Array | None = None


@dataclass(frozen=True, eq=False)
class SweepTables:
    """The arrays that a sweep of single cells reads.

    Attributes:
        tables: the tables of the graph's factors.
        order: the cell at each slot, with the number of cells for none. The last slot is none.
        slots: the slot of each cell.
        stages: colours in order.
    """

    tables: GraphTables
    order: Array
    slots: Array
    stages: tuple[TabledColours, ...]

    @property
    def by_product(self) -> bool:
        """Whether scores are products with indicators of all cells."""
        return self.stages[0].product is not None

    @property
    def words(self) -> str:
        """A description of how scores are read."""
        packed = "; chains packed 32 in a word at parameters where couplings are few numbers" * self.packable
        if self.by_product:
            return f"scores by products of tables with all {counted(len(self.slots), 'cell')}{packed}"
        degrees = sorted({sum(k.degree for k in s.lists) for s in self.stages})
        up_to = counted(degrees[-1], "neighbour")
        return f"scores from tables by lists of {'up to ' * (len(degrees) > 1)}{up_to}{packed}"

    @property
    def packable(self) -> bool:
        """Whether some parameters make `packing` possible.

        All cells must have two values, and each neighbour must be one cell.
        """
        pairs = all(k.slots.shape[-1] == 1 and k.places.shape[-1] == 2 for s in self.stages for k in s.lists)
        few = all(0 < sum(k.degree for k in s.lists) < MOST_COMBINATIONS for s in self.stages)
        return pairs and few and not self.tables.rest and all(s.inside.shape[-1] == 2 for s in self.stages)


@dataclass(frozen=True)
class ScoreForm:
    """How scores of single cells are read from lists of neighbours at known parameters.

    A table of neighbours often has few distinct numbers. A Potts factor has one number if values
    are equal and another if they differ. Entries that are equal in all tables at these parameters
    are looked up once. A score then takes as many comparisons as a row of its table has exceptions.
    Exponentials of scores that cannot overflow are products of exponentials of entries, which are
    computed once.

    Attributes:
        weighed: whether weights exp(score) are multiplied. Otherwise scores are added.
        written: for each stage, whether scores are unrolled value by value, because there are few
            values or few comparisons.
        whole: for each stage, whether every value has a score of its own. Otherwise the score of
            the first value is subtracted.
        exceptions: the exceptions by stage, kind of neighbours and value, see `Exceptions`.
        alike: for each stage, whether all cells have the same scores, so that one table serves all.
    """

    weighed: bool
    written: tuple[bool, ...]
    whole: tuple[bool, ...]
    exceptions: tuple[tuple[tuple[Exceptions, ...], ...], ...]
    alike: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class SweepLayout:
    """Colours in order; colours of similar size share an array.

    Attributes:
        pieces: arrays of shape (colours, blocks, members), padded with the number of cells.
        tables: the tables; None if trees are evaluated.
    """

    pieces: tuple[Array, ...]
    tables: SweepTables | None


def plan_layout(graph: FactorGraph, blocks: Array, colours: Array, plans: Sequence[BlockPlan]) -> SweepLayout:
    """Return the layout of blocks with given colours and plans.

    Args:
        graph: the factor graph.
        blocks: integers of shape (blocks, members), padded with the number of cells.
        colours: the colour of each block.
        plans: the plan of each block.
    """
    blocks, colours = _split_products(graph, blocks, colours, plans)
    pieces = _pieces(graph, blocks, colours)
    return SweepLayout(pieces, _sweep_tables(graph, pieces))


def _split_products(graph: FactorGraph, blocks: Array, colours: Array, plans: Sequence[BlockPlan]) -> tuple[Array, Array]:
    """Replace each block without an inner factor by its cells, with the same colour."""
    if blocks.shape[1] == 1:
        return blocks, colours
    is_product = np.array([p.method == "product" for p in plans], bool)
    if not is_product.any():
        return blocks, colours
    cells, of = [blocks[~is_product]], [colours[~is_product]]
    rows, members = np.nonzero(blocks[is_product] < graph.n_cells)
    single = np.full((len(rows), blocks.shape[1]), graph.n_cells, blocks.dtype)
    single[:, 0] = blocks[is_product][rows, members]
    return np.concatenate([*cells, single]), np.concatenate([*of, colours[is_product][rows]])


def _pieces(graph: FactorGraph, blocks: Array, colours: Array) -> tuple[Array, ...]:
    """Return the blocks by ascending colour and, within a colour, by size.

    Successive colours of similar size are stored in one piece.
    """
    values = block_values(np.append(graph.sizes, 1), blocks)
    bucket = size_classes(values)
    most = int(bucket.max(initial=0)) + 1
    keys = [divmod(k, most) for k in distinct(colours * most + bucket).tolist()]
    runs: list[list[Array]] = []
    last = -1
    for c, b in keys:
        piece = blocks[(colours == c) & (bucket == b)]
        if runs and last == b and _waste(runs[-1], piece) <= MOST_COLOUR_WASTE:
            runs[-1].append(piece)
        else:
            runs.append([piece])
        last = b
    return tuple(_padded(graph, run) for run in runs)


def _waste(run: list[Array], piece: Array) -> float:
    sizes = [len(p) for p in (*run, piece)]
    return max(sizes) * len(sizes) / sum(sizes)


def _padded(graph: FactorGraph, run: list[Array]) -> Array:
    width = max(int((p < graph.n_cells).sum(axis=1).max()) for p in run)
    most = max(len(p) for p in run)
    return np.stack([np.pad(p[:, :width], ((0, most - len(p)), (0, 0)), constant_values=graph.n_cells) for p in run])


def _sweep_tables(graph: FactorGraph, pieces: Sequence[Array]) -> SweepTables | None:
    """Return the tables of a sweep.

    The result is None if some block has several cells, if a cell occurs in two blocks, or if trees
    are faster.
    """
    cells = np.concatenate([p.reshape(-1, p.shape[2]) for p in pieces])[:, 0] if all(p.shape[2] == 1 for p in pieces) else None
    if cells is None or len(distinct(cells[cells < graph.n_cells])) < (cells < graph.n_cells).sum():
        return None
    tables = plan_graph_tables(graph)
    if tables is None or not tables.tables:
        return None
    moved = np.zeros(graph.n_cells + 1, bool)
    moved[cells] = True
    still = np.flatnonzero(~moved[:-1])
    order = np.concatenate([cells, still, [graph.n_cells]])
    slots = np.empty(graph.n_cells, np.int64)
    inside = np.flatnonzero(order < graph.n_cells)
    slots[order[inside]] = inside
    stages, start = [], 0
    for piece in pieces:
        found = _tabled(graph, tables, piece[..., 0], start, np.append(slots, len(order) - 1))
        if found is None:
            return None
        stages.append(found)
        start += piece.shape[0] * piece.shape[1]
    planned = _with_products(graph, SweepTables(tables, order, slots, tuple(stages)))
    return planned if planned.by_product or all(_pays(graph, tables, s) for s in stages) else None


def _pays(graph: FactorGraph, tables: GraphTables, stage: TabledColours) -> bool:
    """Return whether lists are faster than trees.

    A value is found by comparisons with all values that a neighbour may have, or with few of them.
    """
    values = stage.inside.shape[-1]
    compared = sum(float(k.places[:, :, 0, 1:].size) for k in stage.lists)
    if compared <= TREE_PRODUCTS * values * sum(_pairs(tables, k) for k in stage.lists):
        return True
    written, _, kinds = _fewest(entries_at(graph, tables.tables, _unlike(graph)), [k.places for k in stage.lists], values, 0)
    return written and all(_comparisons([k]) <= TREE_PRODUCTS * values for k in kinds)


def _pairs(tables: GraphTables, lists: NeighbourLists) -> int:
    """Return the total number of neighbours of all cells, without padding."""
    return int((lists.places[:, :, 0, 0, :, 0] < tables.size).sum())


def _tabled(graph: FactorGraph, tables: GraphTables, cells: Array, start: int, slots: Array) -> TabledColours | None:
    """Return colours with tables, planned some cells at a time to limit the memory of planning."""
    direct = cell_lists(graph, tables.tables, tables.size, cells.reshape(-1))
    if direct is not None:
        kinds = [(slots[others], strides, places) for others, strides, places in direct.kinds]
        lists = tuple(NeighbourLists(*(a.reshape(*cells.shape, *a.shape[1:]) for a in k)) for k in kinds)
        return _listed(TabledColours(cells, start, direct.inside.reshape(*cells.shape, *direct.inside.shape[1:]), lists))
    each, flat = [], cells.reshape(-1, 1)
    for first in range(0, len(flat), MOST_PLANNED_CELLS):
        arrays = block_arrays(graph, flat[first : first + MOST_PLANNED_CELLS])
        found = plan_blocks_by_tables(graph, tables, arrays[0], arrays[1], arrays[2], arrays[3:])
        if found is None:
            return None
        each.append((found.inside, [_lists(tables, c, slots) for c in found.contexts]))
    if len({tuple((k.slots.shape[2], k.places.shape[4]) for k in kinds) for _, kinds in each}) > 1:
        return None  # The chunks have neighbours of different kinds.
    inside = _joined([i for i, _ in each], tables.size, cells.shape)
    lists = tuple(
        NeighbourLists(
            _joined([k.slots for k in kinds], len(slots) - 1, cells.shape),
            _joined([k.strides for k in kinds], 1, cells.shape),
            _joined([k.places for k in kinds], tables.size, cells.shape),
        )
        for kinds in zip(*(kinds for _, kinds in each), strict=True)
    )
    return _listed(TabledColours(cells, start, inside, lists))


def _listed(found: TabledColours) -> TabledColours | None:
    """Return None if index arrays are too large, else the argument."""
    return None if sum(k.places.size for k in found.lists) > MOST_LIST_PLACES else found


def _joined(parts: Sequence[Array], none: int, shape: tuple[int, ...]) -> Array:
    """Concatenate arrays of blocks, padded on the other axes, and arrange them in colours."""
    most = np.max([p.shape[1:] for p in parts], axis=0)
    each = [np.pad(p, ((0, 0), *((0, m - n) for m, n in zip(most, p.shape[1:], strict=True))), constant_values=none) for p in parts]
    whole = each[0] if len(each) == 1 else np.concatenate(each)
    return whole.reshape(*shape, *whole.shape[1:])


def _lists(tables: GraphTables, c: ContextTables, slots: Array) -> NeighbourLists:
    """Return contexts as lists for each cell, without the axis of colours.

    `slots` ends with the slot of none.
    """
    places, of = c.places, c.of
    if of is None:
        here = (places < tables.size).any(axis=(1, 2, 4))
        of = np.argsort(~here, axis=1, kind="stable")[:, : max(1, int(here.sum(axis=1).max()))]
        places = np.take_along_axis(places, of[:, None, None, :, None], axis=3)
    return NeighbourLists(slots[c.cells[of]].reshape(*of.shape, -1), c.strides[of].reshape(*of.shape, -1), places)


def _with_products(graph: FactorGraph, found: SweepTables) -> SweepTables:
    """Return the tables with products instead of lists, if these are faster.

    This is so if nearly all cells are single neighbours of all others and have equally many values.
    """
    n, kinds = len(found.order), [k for s in found.stages for k in s.lists]
    alone = all(len(s.lists) == 1 for s in found.stages) and all(k.slots.shape[-1] == 1 for k in kinds)
    if not alone or {k.places.shape[-1] for k in kinds} != {int(graph.sizes.max())}:
        return found
    pairs = sum(_pairs(found.tables, k) for k in kinds)
    size = sum(n * (k.places.size // k.degree) for k in kinds)
    if n * len(found.slots) > MOST_BESIDE * pairs or size > MOST_PRODUCT_PLACES:
        return found
    if loses_digits(entries_at(graph, found.tables.tables, _middle(graph)), True):
        return found
    stages = []
    for s in found.stages:
        (k,) = s.lists
        # The axes are colours, blocks, degree, several, values, width.
        places = np.moveaxis(k.places, 4, 2)
        product = np.full((*s.cells.shape, n, *places.shape[3:]), found.tables.size, np.int32)
        some = (places < found.tables.size).any(axis=(3, 4, 5))
        colour, block, _ = at = np.nonzero(some)
        product[colour, block, k.slots[..., 0][at]] = places[at]
        stages.append(TabledColours(s.cells, s.start, s.inside, s.lists, np.moveaxis(product, 2, 4)))
    return SweepTables(found.tables, found.order, found.slots, tuple(stages))


def loses_digits(entries: Array, by_product: bool) -> bool:
    """Return whether entries are too large for their differences to be exact scores in 32 bits."""
    return not _largest(entries) <= (MOST_ENTRY if by_product else MOST_DIFFERENCE)


def _largest(entries: Array) -> float:
    return max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0)))


def _middle(graph: FactorGraph) -> dict[str, Array]:
    """Return the start values of parameters.

    Entries that are large there are penalties written as numbers.
    """
    return {p.name: np.full(p.shape, p.middle) for p in graph.parameters}


def _unlike(graph: FactorGraph) -> dict[str, Array]:
    """Return parameters no two of which are equal.

    Entries that are equal there are always equal.
    """
    rng = np.random.default_rng(0)
    return {p.name: p.middle * (1 + 0.1 * (u := rng.random(p.shape))) + 0.1 * u for p in graph.parameters}


def score_form(entries: Array, stages: Sequence[tuple[Array, Sequence[Array]]], few: int, sizes: Sequence[Array]) -> ScoreForm:
    """Return the form that takes the fewest comparisons.

    Args:
        entries: the entries of all tables, with a 0 appended.
        stages: the places of the entries inside, shape (colours, blocks, several, values), and
            those of each kind of neighbours, shape (colours, blocks, several, values, degree,
            width).
        few: the number of a cell's values up to which they are unrolled, whatever their entries.
        sizes: the number of values of each cell of a stage, shape (colours, blocks), 0 for padding.
    """
    added = max((inside.shape[2] + sum(m.shape[2] * m.shape[4] for m in kinds) for inside, kinds in stages), default=0)
    weighed = bool(2 * _largest(entries) * added <= MOST_EXPONENT)
    found = [_fewest(entries, kinds, inside.shape[3], few) for inside, kinds in stages]
    alike = (
        bool(n.all()) and all(_are_alike(a, entries) for a in (n, inside, *kinds)) for n, (inside, kinds) in zip(sizes, stages, strict=True)
    )
    written, whole, exceptions = zip(*found, strict=True)
    return ScoreForm(weighed, written, whole, exceptions, tuple(alike))


def _are_alike(rows: Array, entries: Array) -> bool:
    """Return whether all cells, on the first two axes, have equal numbers or entries."""
    if rows.ndim > 2 and (entries[rows[:1, :2]] != entries[rows[:1, :1]]).any():
        return False  # Comparing two cells decides most cases.
    if rows.ndim > 2 and rows.size <= MOST_COMPARED_ENTRIES:
        rows = entries[rows].sum(axis=2)
    return bool((rows == rows[:1, :1]).all())


def every_entry(values: int, width: int) -> tuple[Exceptions, ...]:
    """Return exceptions for tables in which no entries are known to be equal."""
    return ((0, tuple(range(1, width))),) * values


def _fewest(entries: Array, kinds: Sequence[Array], values: int, few: int) -> tuple[bool, bool, tuple[tuple[Exceptions, ...], ...]]:
    """Return whether scores are unrolled, whether they are whole, and each kind's exceptions."""
    plain = tuple(every_entry(values - 1 if values <= few else 1, m.shape[5]) for m in kinds)
    if not 2 < values <= MOST_WRITTEN or sum(m.size for m in kinds) > MOST_COMPARED_ENTRIES:
        return values <= few, False, plain
    # The shape is (colours, blocks, values, degree, width).
    sums = [entries[m].sum(axis=2) for m in kinds]
    less = tuple(tuple(_exceptions(s[:, :, v] - s[:, :, 0]) for v in range(1, values)) for s in sums)
    whole = tuple(tuple(_exceptions(s[:, :, v]) for v in range(values)) for s in sums)
    is_whole = _comparisons(whole) < _comparisons(less)
    found = whole if is_whole else less
    if values > few and any(_comparisons([k]) > MOST_WRITTEN for k in found):
        return False, False, plain
    return True, is_whole, found


def _exceptions(row: Array) -> Exceptions:
    """Return the exceptions of the entries of one value, shape (.., width).

    The largest set of columns that are equal everywhere needs no comparison.
    """
    columns = row.reshape(-1, row.shape[-1]).T
    _, first, which, counts = np.unique(columns, axis=0, return_index=True, return_inverse=True, return_counts=True)
    most = int(counts.argmax())
    return int(first[most]), tuple(np.flatnonzero(which.ravel() != most).tolist())


def _comparisons(kinds: Sequence[Sequence[Exceptions]]) -> int:
    """Return the number of comparisons of all values, plus one exponential for each value."""
    return sum(len(others) + 1 for rows in kinds for _, others in rows)
