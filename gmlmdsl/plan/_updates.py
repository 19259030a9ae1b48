"""The plan of each update of a sampler, made before any function is built.

A plan holds blocks, colours and costs. Errors are raised here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph, Lowered, distinct, normalised, reaches_zero
from ..graph.colours import colour
from ..masks import AbstractMask, lower_mask, term_blocks
from ..program import MOST_REPEATS, TOO_OFTEN, ir
from ._clusters import ClusterPlan, plan_clusters
from ._elimination import Elimination, plan_elimination
from ._plan import BlockPlan, is_affordable, plan_block, plan_blocks, verify_affordable
from ._sweep_layout import SweepLayout, plan_layout
from .limits import BUDGET, FEW_VALUES, MOST_PARALLEL, Budget

Array = np.ndarray
TOGETHER = Budget(flops=1e12)  # Each single block is within the default budget.


@dataclass(frozen=True)
class SweepPlan:
    """The plan of a sweep: every block once, colour by colour.

    Attributes:
        graph: the factor graph.
        update: the update.
        blocks: integers of shape (blocks, cells), padded with the number of cells.
        colours: one colour per block. Blocks of one colour share no factor.
        plans: one plan per block; single cells share one.
        eliminations: one elimination per colour, of all its blocks at once, if blocks are
            eliminated.
    """

    graph: FactorGraph
    update: ir.Sweep
    blocks: Array
    colours: Array
    plans: tuple[BlockPlan, ...]
    eliminations: tuple[Elimination, ...] = ()

    @property
    def n_colours(self) -> int:
        """The number of colours, which are redrawn one after another."""
        return int(self.colours.max()) + 1

    @property
    def words(self) -> str:
        """A description of how the blocks are redrawn."""
        words = sorted({p.words for p in self.plans}, key=len)[:3]
        together = ", those of a colour at once" * bool(self.eliminations)
        tables = None if self.eliminations else self.layout.tables
        words += [] if tables is None else [tables.words]
        return f"{_count(len(self.blocks), 'block')} in {_count(self.n_colours, 'colour')}{together}; {'; '.join(words)}"

    @cached_property
    def layout(self) -> SweepLayout:
        """The blocks that are redrawn at once, and the tables that they read."""
        return plan_layout(self.graph, self.blocks, self.colours, self.plans)

    @property
    def keeps(self) -> bool:
        """Whether the update leaves p invariant."""
        return True


@dataclass(frozen=True)
class ParallelPlan:
    """The plan of an independent update, block after block.

    Every cell of a block is redrawn from its own conditional at the old x.
    """

    update: ir.Sweep
    blocks: Array
    plans: tuple[BlockPlan, ...]

    @property
    def words(self) -> str:
        """A description of how the blocks are redrawn."""
        return f"each cell alone at the old x, {_count(len(self.blocks), 'block')}; keeps no known distribution where cells interact"

    @property
    def keeps(self) -> bool:
        """Whether the update leaves p invariant, because no two cells of a block share a factor."""
        return all(p.members == 1 or p.method == "product" for p in self.plans)


@dataclass(frozen=True)
class RandomPlan:
    """The plan of an update that draws a block from a mask, then redraws it.

    Attributes:
        update: the update.
        mask: the mask.
        corrected: whether the mask is data-dependent, so that the draw is from p(x_K | x_rest, K).
        plan: the plan of the costliest block.
    """

    update: ir.RandomUpdate
    mask: AbstractMask
    corrected: bool
    plan: BlockPlan

    @property
    def separate(self) -> bool:
        """Whether each cell of the block is drawn separately."""
        return self.update.independently or self.plan.method == "product"

    @property
    def words(self) -> str:
        """A description of how the block is redrawn."""
        how = "each cell alone at the old x" if self.update.independently else self.plan.words
        return f"{'adaptive; ' if self.corrected else ''}{how}"

    @property
    def keeps(self) -> bool:
        """Whether the update leaves p invariant."""
        return not self.update.independently or self.plan.members == 1 or self.plan.method == "product"


UpdatePlan = SweepPlan | ParallelPlan | RandomPlan | ClusterPlan


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def update_line(plan: UpdatePlan) -> str:
    """Return one line about an update: its text, and how it is done."""
    return f"`{plan.update.span.text}`: {plan.words}"


def plan_update(lowered: Lowered, update: ir.Sweep | ir.RandomUpdate) -> UpdatePlan:
    """Return the plan of an update.

    Raises:
        GmlmError: for a block that is too costly to draw, a sweep without blocks, or an index out
            of range.
    """
    return update.either(
        lambda sweep: _parallel(lowered, sweep) if sweep.independently else _sweep(lowered, sweep),
        lambda random: plan_clusters(lowered, random) if random.mask.body.is_percolation else _random(lowered, random),
    )


def sweep_blocks(lowered: Lowered, term: ir.BlockTerm) -> Array:
    """Return the distinct blocks of a sweep, in position order.

    Raises:
        GmlmError: E410 if there is no block.
    """
    blocks, _ = term_blocks(lowered, term)
    if not len(blocks):
        raise fail("E410", "this update visits no block", term.span, "an empty sweep", help="check the conditions of its loops")
    return distinct(blocks)[:, None] if blocks.shape[1] == 1 else np.unique(blocks, axis=0)


def _sweep(lowered: Lowered, sweep: ir.Sweep) -> SweepPlan:
    graph = lowered.graph
    blocks = sweep_blocks(lowered, sweep.blocks)
    colours = colour(graph, blocks)
    plans = _plans(graph, blocks)
    worst = max(plans, key=lambda p: (not is_affordable(p), p.values, p.terms))
    verify_affordable(worst, f"`{sweep.span.text}`: a block", sweep.span)
    if all(p.elimination is None for p in plans):
        return SweepPlan(graph, sweep, blocks, colours, tuple(plans))
    # Blocks of one colour share no factor. Eliminating them together, level by level, is therefore
    # the same as eliminating them one by one.
    cells = [np.unique(blocks[colours == c]) for c in range(int(colours.max()) + 1)]
    found = tuple(plan_elimination(graph, c[c < graph.n_cells], "blocks of one colour", TOGETHER) for c in cells)
    return SweepPlan(graph, sweep, blocks, colours, tuple(plans), found)


def _plans(graph: FactorGraph, blocks: Array) -> Sequence[BlockPlan]:
    """Return one plan for each block; single cells share one."""
    if blocks.shape[1] == 1:
        widest = blocks[int(np.argmax(graph.sizes[blocks[:, 0]]))]
        return [plan_block(graph, widest)]
    return plan_blocks(graph, blocks)


def _parallel(lowered: Lowered, sweep: ir.Sweep) -> ParallelPlan:
    verify_positive(lowered, sweep)
    blocks = sweep_blocks(lowered, sweep.blocks)
    if len(blocks) > MOST_PARALLEL:
        raise fail("E601", f"{len(blocks)} blocks updated `independently` one after another: the limit is {MOST_PARALLEL}", sweep.span)
    return ParallelPlan(sweep, blocks, tuple(_plans(lowered.graph, blocks)))


def verify_positive(lowered: Lowered, update: ir.Sweep | ir.RandomUpdate) -> None:
    """Raise for `independently` if a factor without parameters makes some configuration impossible.

    The checker reports the case of a `require`.

    Raises:
        GmlmError: E307.
    """
    sizes = np.append(lowered.graph.sizes, 1)
    for group in lowered.graph.factors:
        if reaches_zero(group, sizes):
            message = f"`independently` leaves the support where p has zeros: the factor `{group.span.text}` can be minus infinity"
            raise fail("E307", message, update.span, "p has zeros", help="draw the block jointly: remove `independently`")


def _random(lowered: Lowered, update: ir.RandomUpdate) -> RandomPlan:
    mask = lower_mask(lowered, update.mask)
    if update.independently:
        verify_positive(lowered, update)
    planned = RandomPlan(update, mask, mask.is_adaptive, plan_mask(lowered.graph, mask, mask.is_adaptive))
    if not planned.separate:
        alternatives = ("add `independently` if a biased step will do",) if not planned.corrected else ()
        verify_affordable(planned.plan, f"`{update.span.text}`: a block", update.span, alternatives=alternatives)
    return planned


def plan_mask(graph: FactorGraph, mask: AbstractMask, corrected: bool) -> BlockPlan:
    """Return the plan of the costliest block that the mask can draw."""
    blocks = listed_blocks(graph, mask, corrected)
    if blocks is not None:
        plans = plan_blocks(graph, blocks, corrected)
        worst = max(plans, key=lambda p: (not is_affordable(p), p.elimination is not None, p.method == "enumeration", p.values, p.terms))
        return worst if worst.method != "enumeration" else _merged(graph, blocks, plans, worst)
    reach = mask.reach
    pool = plan_block(graph, reach, corrected)
    if pool.method == "product":
        return pool
    members = len(mask.largest_block)
    # The costliest block of that size has the cells with the most values and the most factors.
    sizes = np.sort(graph.sizes[reach].astype(float))[::-1]
    values = math.prod(sizes[:members].tolist())
    degrees = np.sort(_degrees(graph)[reach])[::-1]
    return BlockPlan("enumeration", members, values, values * float(degrees[:members].sum()))


def _merged(graph: FactorGraph, blocks: Array, plans: Sequence[BlockPlan], worst: BlockPlan) -> BlockPlan:
    """Return one plan for several blocks, of which some are enumerated and others are products.

    They become products of cells if all blocks of several cells are products, else all are
    enumerated.
    """
    if any(p.method == "product" for p in plans):
        if all(p.method == "product" or p.members < 2 for p in plans):
            worst = replace(worst, method="product")
        else:
            plans = [p if p.method == "enumeration" else plan_block(graph, b, True) for b, p in zip(blocks, plans, strict=True)]
    members, values, terms = (max(getattr(p, name) for p in plans) for name in ("members", "values", "terms"))
    return replace(worst, members=int(members), values=values, terms=terms)


def listed_blocks(graph: FactorGraph, mask: AbstractMask, corrected: bool) -> Array | None:
    """Return the blocks of a mask if each of them has a plan of its own, else None.

    They are the blocks of a list, or those of another mask that draws few but large blocks.
    """
    if mask.is_listed:
        return mask.enumerate_blocks()[0]
    largest = mask.largest_block
    small = np.log(graph.sizes[largest].astype(float)).sum() <= np.log(FEW_VALUES)
    if corrected or small or not mask.is_mixture or mask.support_size > BUDGET.support:
        return None
    return mask.enumerate_blocks()[0]


def _degrees(graph: FactorGraph) -> Array:
    return sum((np.diff(starts) for starts, _ in graph.incidences), np.zeros(graph.n_cells, np.int64))


def row_weights(lowered: Lowered, kernel: ir.KernelMixture) -> Array:
    """Return the probabilities of the rows of a `mixture`.

    Raises:
        GmlmError: E409 if the weights are not finite, negative or all zero.
    """
    return normalised(np.array([lowered.bound.number(w) for w, _ in kernel.rows]), kernel.span)


def repeat_count(lowered: Lowered, kernel: ir.Repeat) -> int:
    """Return how often a `repeat` runs its body.

    Raises:
        GmlmError: E409 if that is less than once, or more than a million times.
    """
    count = lowered.bound.integer(kernel.count)
    if count < 1:
        raise fail("E409", f"`repeat` runs its body at least once, found {count}", kernel.count.span)
    if count > MOST_REPEATS:
        message = f"`repeat` runs its body at most {MOST_REPEATS:,} times within one draw, found {count:,}"
        raise fail("E409", message, kernel.count.span, help=TOO_OFTEN)
    return count
