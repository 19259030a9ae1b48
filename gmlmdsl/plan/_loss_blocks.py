"""The way in which a loss scores the blocks of a whole support.

Similar blocks are scored together, from tables of factors if these are faster than the factors'
trees. A preview of a fit has the number of masks, of their cells, and the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._diagnostics import GmlmError, Span, counted
from ..graph import FactorGraph, FactorGroup, grouped
from ..masks import AbstractMask
from ._block_tables import (
    BlockTables,
    GraphTables,
    block_arrays,
    block_values,
    plan_blocks_by_tables,
    plan_graph_tables,
    size_classes,
    with_gaps,
)
from ._elimination import Elimination, plan_elimination
from ._partial_sums import with_partial_sums
from ._plan import BlockPlan, is_affordable, plan_block, plan_blocks, verify_affordable
from ._updates import plan_mask
from .limits import BUDGET, FEW_VALUES, MOST_LISTED_VALUES

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class LossBlocks:
    """The blocks of a support, in sets that are scored together.

    Attributes:
        arrays: the index arrays of each set, see `block_arrays`.
        probabilities: the probabilities of the blocks of each set; None for a data-dependent mask.
        split: whether blocks without inner factors are represented by their cells. The loss of a
            mask is then not one entry.
        tables: the tables of the graph's factors; None if a factor that mentions a parameter has
            none.
        by_tables: how each set is scored from the tables; None if trees are evaluated.
    """

    arrays: tuple[list[Array], ...]
    probabilities: tuple[Array, ...] | None
    split: bool
    tables: GraphTables | None
    by_tables: tuple[BlockTables | None, ...]

    @property
    def words(self) -> str:
        """One line for `gmlm explain`."""
        sets = [_in_words(len(a[0]), t) for a, t in zip(self.arrays, self.by_tables, strict=True)]
        return "; ".join(sets)


def _in_words(blocks: int, plan: BlockTables | None) -> str:
    """Return a description of how one set of blocks is scored."""
    whole = counted(blocks, "block")
    if plan is None:
        return f"{whole} by the factors' expressions"
    kinds = []
    for c in plan.contexts:
        dense = f"by a matrix product with {counted(len(c.cells), 'context')}"
        kinds.append(dense if c.of is None else f"by lists of {counted(c.of.shape[1], 'context')} each")
    return f"{whole} from tables of the factors" + (f", {' and '.join(kinds)}" if kinds else "")


def support_blocks(graph: FactorGraph, mask: AbstractMask) -> tuple[Array, Array | None]:
    """Return the non-empty blocks of a support and their probabilities.

    Empty blocks are left out because they score 0. The probabilities are None for a data-dependent
    mask.
    """
    blocks, probabilities = mask.enumerate_blocks()
    keep = (blocks < graph.n_cells).any(axis=1)
    return blocks[keep], None if probabilities is None else probabilities[keep]


def is_large(graph: FactorGraph, blocks: Array) -> bool:
    """Return whether elimination must be considered, because a block has many joint values."""
    return graph.method == "elimination" or block_values(np.append(graph.sizes, 1), blocks).max(initial=0.0) > MOST_LISTED_VALUES


def plan_summed_blocks(graph: FactorGraph, blocks: Array) -> list[BlockPlan]:
    """Return a plan for each block of a loss, padded with the number of cells.

    A block without a neighbour has the same sum in every row. Elimination computes it once, where
    an enumeration scores all joint values for each row. Such a block is therefore eliminated even
    where enumeration costs a single row less.
    """
    plans = plan_blocks(graph, blocks)
    return [_summed_once(graph, b[b < graph.n_cells], p) for b, p in zip(blocks, plans, strict=True)]


def _summed_once(graph: FactorGraph, cells: Array, plan: BlockPlan) -> BlockPlan:
    """Return an elimination in place of an enumeration if no factor joins the block to other cells."""
    if plan.method != "enumeration" or plan.values <= FEW_VALUES or graph.method is not None:
        return plan
    starts, neighbours = graph.neighbours
    if not all(np.isin(neighbours[starts[c] : starts[c + 1]], cells).all() for c in cells):
        return plan
    try:
        found = plan_elimination(graph, cells, "a block")
    except GmlmError:
        return plan
    return BlockPlan(found.method, len(cells), found.largest, found.flops, found)


def plan_loss_blocks(
    graph: FactorGraph,
    blocks: Array,
    probabilities: Array | None,
    span: Span | None,
    extra: Sequence[FactorGroup] = (),
    gapped: bool = False,
) -> LossBlocks:
    """Return how the blocks of a support are scored.

    Args:
        graph: the factor graph.
        blocks: positions, shape (blocks, members), ascending, padded with the number of cells.
        probabilities: the probabilities of the blocks; None for a data-dependent mask.
        span: the place of the mask in the text, for errors.
        extra: the groups of such a mask's weights.
        gapped: whether rows have missing cells, which are left out. Blocks of several cells, some
            of which a row may lack, then have no tables.

    Raises:
        GmlmError: E601 if a block is too costly to enumerate.
    """
    whole, members = len(blocks), (blocks < graph.n_cells).sum()
    blocks, probabilities = _split_products(graph, blocks, probabilities)
    split = bool(len(blocks) != whole or (blocks < graph.n_cells).sum() != members)
    pieces = alike_blocks(graph, blocks)
    for piece in pieces:
        worst = blocks[piece][np.argmax(block_values(np.append(graph.sizes, 1), blocks[piece]))]
        verify_affordable(plan_block(graph, worst, True), "the loss: a block", span)
    arrays = tuple(block_arrays(graph, _trimmed(blocks[p], graph.n_cells), extra) for p in pieces)
    tables = plan_graph_tables(graph)
    tables = tables if tables is not None and tables.tables else None
    n = 3 + len(graph.groups)
    by_tables = tuple(
        None if tables is None or (gapped and a[0].shape[1] > 1) else plan_blocks_by_tables(graph, tables, a[0], a[1], a[2], a[3:n])
        for a in arrays
    )
    if gapped and tables is not None:
        by_tables = tuple(None if t is None else with_gaps(t, tables) for t in by_tables)
    return LossBlocks(arrays, None if probabilities is None else tuple(probabilities[p] for p in pieces), split, tables, by_tables)


def _split_products(graph: FactorGraph, blocks: Array, probabilities: Array | None) -> tuple[Array, Array | None]:
    """Replace blocks without inner factors by their cells.

    -log p of such a block is the sum over its cells, so each cell gets the probability of the
    block.
    """
    if probabilities is None or blocks.shape[1] == 1:
        return blocks, probabilities
    is_product = np.array([plan_block(graph, b).method == "product" for b in blocks])
    if not is_product.any():
        return blocks, probabilities
    rows, members = np.nonzero(blocks[is_product] < graph.n_cells)
    weights = np.zeros(graph.n_cells)
    np.add.at(weights, blocks[is_product][rows, members], probabilities[is_product][rows])
    cells = np.flatnonzero(weights)
    single = np.full((len(cells), blocks.shape[1]), graph.n_cells, blocks.dtype)
    single[:, 0] = cells
    return np.concatenate([blocks[~is_product], single]), np.concatenate([probabilities[~is_product], weights[cells]])


def _trimmed(blocks: Array, n_cells: int) -> Array:
    return blocks[:, : max(1, int((blocks < n_cells).sum(axis=1).max()))]


def alike_blocks(graph: FactorGraph, blocks: Array) -> list[Array]:
    """Group blocks by their numbers of values and of touching factors, to waste little padding."""
    values = block_values(np.append(graph.sizes, 1), blocks)
    factors = np.zeros(len(blocks))
    for starts, _ in graph.incidences:
        lengths = np.append(np.diff(starts), 0)
        factors = np.maximum(factors, lengths[blocks].sum(axis=1))
    return [alike for _, alike in grouped(np.stack([size_classes(values), size_classes(factors)], axis=1))]


@dataclass(frozen=True)
class MaskPlan:
    """A mask of a bound model.

    Attributes:
        adaptive: whether p(K | x) varies with x.
        support: the number of distinct masks; for a mixture, an upper bound.
        reached: the number of cells that some block contains.
        mean_size: E|K|; None if it varies with x or with parameters.
        block: the plan of the costliest block.
        whole: the elimination of all cells that serves the blocks of all rows, if these are drawn;
            None if they are not drawn, or are enumerated.
        counted: the elimination of all blocks with partial sums as cells, if a large factor depends
            on its cells through a sum; else None.
    """

    adaptive: bool
    support: float
    reached: int
    mean_size: float | None
    block: BlockPlan
    whole: Elimination | None = None
    counted: Elimination | None = None

    @property
    def all_masks(self) -> bool:
        """Whether a fit averages over every mask by default."""
        return self.support <= BUDGET.support

    @property
    def factor(self) -> float | None:
        """c = (number of cells that the mask can reach) / E|K|."""
        return self.reached / self.mean_size if self.mean_size else None


def plan_use(graph: FactorGraph, mask: AbstractMask) -> MaskPlan:
    """Return how a fit uses a mask."""
    adaptive = mask.is_adaptive
    used = MaskPlan(adaptive, mask.support_size, len(mask.reach), mask.mean_size, plan_mask(graph, mask, adaptive))
    if adaptive:
        return used
    if not used.all_masks:
        return replace(used, whole=plan_drawn(graph, mask, used.block))
    blocks, probabilities = support_blocks(graph, mask)
    found = plan_counted(graph, mask, blocks) if probabilities is not None and is_large(graph, blocks) else None
    return replace(used, counted=None if found is None else found[1])


def plan_counted(graph: FactorGraph, mask: AbstractMask, blocks: Array) -> tuple[FactorGraph, Elimination] | None:
    """Return the graph with partial sums as cells, and one order for the sums of all blocks.

    The result is None if the model has no partial sums, or if enumeration is cheaper.

    Args:
        graph: the graph of the model.
        mask: a mask that is not data-dependent, over rows without missing cells.
        blocks: its support, shape (masks, members), padded with the number of cells.
    """
    counted = with_partial_sums(graph)
    if counted is graph:
        return None
    try:
        plan = plan_elimination(counted, np.union1d(mask.reach, np.arange(graph.n_cells, counted.n_cells)), "the loss: all blocks")
    except GmlmError:
        return None
    listed = plan_blocks(graph, blocks)
    cheaper = all(is_affordable(p) for p in listed) and sum(p.terms for p in listed) < plan.flops * len(blocks)
    return None if cheaper else (counted, plan)


def plan_drawn(graph: FactorGraph, mask: AbstractMask, plan: BlockPlan) -> Elimination | None:
    """Return one order of all cells of a mask that serves every block that is drawn.

    The result is None if the blocks are better enumerated, as `plan` shows.

    Args:
        graph: the graph of the model.
        mask: a mask that is not data-dependent, over rows without missing cells.
        plan: the plan of its costliest block.
    """
    if plan.method == "product" or (plan.values <= MOST_LISTED_VALUES and plan.elimination is None):
        return None
    try:
        whole = plan_elimination(graph, mask.reach, "the loss: all cells of the mask")
    except GmlmError:
        return None
    return whole if whole.flops < plan.values or not is_affordable(plan) or plan.elimination is not None else None
