"""Builds kernels from a checked sampler: which plan each block gets, colours, buckets of size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph, Lowered
from ..graph.colours import colour
from ..graph.masks import LoweredMask, is_adaptive, largest_block, lower_mask, normalised, term_blocks
from ..plan import BUDGET, BlockPlan, plan_block, verify_affordable
from ..program import ir
from ._arrays import Blocks, fixed_blocks, log2_values
from ._kernels import AbstractKernel, CycleKernel, MixtureKernel, ParallelKernel, RandomKernel, RepeatKernel, Stage, SweepKernel
from ._mask_law import mask_law

Array = np.ndarray


@dataclass(frozen=True)
class Planned:
    """A kernel with what `gmlm explain` says about it: one line per update."""

    kernel: AbstractKernel
    lines: tuple[str, ...]


def build_kernel(lowered: Lowered, sampler: ir.Sampler) -> Planned:
    """The kernel of a sampler.

    Raises:
        GmlmError: for a block that is too costly to draw, or a form that this version does not compile.
    """
    if isinstance(sampler.body, ir.FormCall):
        raise fail("E330", f"`{sampler.body.form.name}` decodes networks, which this version checks but does not compile", sampler.span)
    return _cycle(lowered, sampler.body)


def _cycle(lowered: Lowered, body: Sequence[ir.Kernel]) -> Planned:
    parts = [build(lowered, k) for k in body]
    if len(parts) == 1:
        return parts[0]
    kernels = tuple(p.kernel for p in parts)
    return Planned(CycleKernel(kernels), tuple(line for p in parts for line in p.lines))


def build(lowered: Lowered, kernel: ir.Kernel) -> Planned:
    """The device form of one kernel."""
    match kernel:
        case ir.Sweep():
            return _parallel(lowered, kernel) if kernel.independently else _sweep(lowered, kernel)
        case ir.RandomUpdate():
            return _random(lowered, kernel)
        case ir.Cycle():
            return _cycle(lowered, kernel.body)
        case ir.Repeat():
            count, part = lowered.bound.integer(kernel.count), _cycle(lowered, kernel.body)
            if count < 1:
                raise fail("E409", f"`repeat` runs its body at least once, found {count}", kernel.count.span)
            return Planned(RepeatKernel(part.kernel, count), part.lines)
        case ir.KernelMixture():
            weights = np.array([lowered.bound.number(w) for w, _ in kernel.rows])
            parts = [build(lowered, k) for _, k in kernel.rows]
            kernels, lines = tuple(p.kernel for p in parts), tuple(line for p in parts for line in p.lines)
            weights = normalised(weights, kernel.span)
            return Planned(MixtureKernel(kernels, jnp.asarray(weights)), lines)
        case ir.Temper():
            raise fail("E330", "`temper` is checked, but this version does not compile it", kernel.span, "not compiled yet")


def sweep_blocks(lowered: Lowered, term: ir.BlockTerm) -> Array:
    """The distinct blocks of a sweep, in position order."""
    blocks, _ = term_blocks(lowered, term)
    if not len(blocks):
        raise fail("E410", "this update visits no block", term.span, "an empty sweep", help="check the conditions of its loops")
    return np.unique(blocks, axis=0)


def _sweep(lowered: Lowered, sweep: ir.Sweep) -> Planned:
    graph = lowered.graph
    blocks = sweep_blocks(lowered, sweep.blocks)
    colours = colour(graph, blocks)
    plans = _plans(graph, blocks, sweep)
    cells, colours, plans = _split_products(graph, blocks, colours, plans)
    stages = _stages(graph, cells, colours)
    n_colours = int(colours.max()) + 1
    words = sorted({p.words for p in plans}, key=len)
    line = f"`{sweep.span.text}`: {len(blocks)} block{'s' * (len(blocks) != 1)} in {n_colours} colour{'s' * (n_colours != 1)}; {'; '.join(words[:3])}"
    return Planned(SweepKernel(stages, int((blocks < graph.n_cells).sum())), (line,))


def _plans(graph: FactorGraph, blocks: Array, sweep: ir.Sweep) -> list[BlockPlan]:
    """One plan for each block; single cells share one judgement."""
    if blocks.shape[1] == 1:
        widest = blocks[int(np.argmax(graph.sizes[blocks[:, 0]]))]
        plans = [plan_block(graph, widest)] * len(blocks)
    else:
        plans = [plan_block(graph, b) for b in blocks]
    worst = max(plans, key=lambda p: p.terms)
    verify_affordable(worst, f"`{sweep.span.text}`: a block", sweep.span)
    return plans


def _split_products(graph: FactorGraph, blocks: Array, colours: Array, plans: list[BlockPlan]) -> tuple[Array, Array, list[BlockPlan]]:
    """A block without an inner factor is as many blocks of one cell, of the same colour."""
    is_product = np.array([p.method == "product" for p in plans])
    if not is_product.any():
        return blocks, colours, plans
    cells, of = [blocks[~is_product]], [colours[~is_product]]
    rows, members = np.nonzero(blocks[is_product] < graph.n_cells)
    single = np.full((len(rows), blocks.shape[1]), graph.n_cells, blocks.dtype)
    single[:, 0] = blocks[is_product][rows, members]
    return np.concatenate([*cells, single]), np.concatenate([*of, colours[is_product][rows]]), plans


def _stages(graph: FactorGraph, blocks: Array, colours: Array) -> tuple[Stage, ...]:
    """Colours ascending; within one, blocks of like size together; like neighbours share one scan."""
    values = np.prod(np.append(graph.sizes, 1)[blocks].astype(float), axis=1)
    bucket = np.array([log2_values(v) for v in values])
    keys = sorted(set(zip(colours.tolist(), bucket.tolist(), strict=True)))
    pieces = [blocks[(colours == c) & (bucket == b)] for c, b in keys]
    runs: list[list[Array]] = []
    for (_, b), piece in zip(keys, pieces, strict=True):
        alike = runs and runs[-1][0].shape[1] == piece.shape[1] and last == b and _waste(runs[-1], piece) <= 2
        if alike:
            runs[-1].append(piece)
        else:
            runs.append([piece])
        last = b
    return tuple(_stack(graph, run) for run in runs)


def _waste(run: list[Array], piece: Array) -> float:
    sizes = [len(p) for p in (*run, piece)]
    return max(sizes) * len(sizes) / sum(sizes)


def _stack(graph: FactorGraph, run: list[Array]) -> Stage:
    """Colours of one run as one `Blocks` with a leading axis, padded to like shapes."""
    width = max(int((p < graph.n_cells).sum(axis=1).max()) for p in run)
    most = max(len(p) for p in run)
    padded = [np.pad(p[:, :width], ((0, most - len(p)), (0, 0)), constant_values=graph.n_cells) for p in run]
    found = [fixed_blocks(graph, p) for p in padded]
    touch = []
    for parts in zip(*(f.touch for f in found), strict=True):
        wide = max(t.shape[1] for t in parts)
        touch.append(jnp.stack([jnp.pad(t, ((0, 0), (0, wide - t.shape[1]), (0, 0)), constant_values=-1) for t in parts]))
    stacked = Blocks(
        max(f.n_values for f in found),
        jnp.stack([f.cells for f in found]),
        jnp.stack([f.radix for f in found]),
        jnp.stack([f.strides for f in found]),
        tuple(touch),
    )
    return Stage(stacked, len(run))


def single_cells(blocks: Array, n_cells: int) -> Array:
    """The cells of one padded block, each as a block."""
    return blocks[blocks < n_cells][:, None]


def _parallel(lowered: Lowered, sweep: ir.Sweep) -> Planned:
    graph = lowered.graph
    _verify_positive(lowered, sweep)
    blocks = sweep_blocks(lowered, sweep.blocks)
    if len(blocks) > 256:
        raise fail("E601", f"{len(blocks)} blocks updated `independently` one after another: the limit is 256", sweep.span)
    stages = tuple(fixed_blocks(graph, single_cells(b, graph.n_cells)) for b in blocks)
    line = f"`{sweep.span.text}`: each cell alone at the old x, {len(blocks)} block{'s' * (len(blocks) != 1)}; keeps no known law where cells interact"
    return Planned(ParallelKernel(stages, int((blocks < graph.n_cells).sum())), (line,))


def _verify_positive(lowered: Lowered, update: ir.Sweep | ir.RandomUpdate) -> None:
    if lowered.graph.requires:
        message = "`independently` leaves the support where p has zeros: this model has a `require`"
        raise fail("E307", message, update.span, "p has zeros", help="draw the block jointly: remove `independently`")


def _random(lowered: Lowered, update: ir.RandomUpdate) -> Planned:
    graph, mask = lowered.graph, lower_mask(lowered, update.mask)
    corrected = is_adaptive(mask)
    if update.independently:
        _verify_positive(lowered, update)
    plan = plan_mask(graph, mask, corrected)
    separate = update.independently or plan.method == "product"
    if not separate:
        alternatives = ("add `independently` if a biased step will do",) if not corrected else ()
        verify_affordable(plan, f"`{update.span.text}`: a block", update.span, alternatives=alternatives)
    n_members = plan.members
    capacities = ((n_members, int(graph.sizes.max(initial=1))),) if separate else _capacities(graph, mask, plan)
    kernel = RandomKernel(mask_law(mask, graph.n_cells), corrected, separate, capacities)
    how = "each cell alone at the old x" if update.independently else plan.words
    line = f"`{update.span.text}`: {'adaptive; ' if corrected else ''}{how}"
    return Planned(kernel, (line,))


def plan_mask(graph: FactorGraph, mask: LoweredMask, corrected: bool) -> BlockPlan:
    """The plan of a random block: that of the costliest block the mask can draw."""
    from ..graph.masks import ListedMask, reach

    if isinstance(mask, ListedMask):
        plans = [plan_block(graph, b, corrected) for b in mask.blocks]
        worst = max(plans, key=lambda p: (p.method == "enumeration", p.values, p.terms))
        if worst.method == "enumeration":
            return BlockPlan("enumeration", max(p.members for p in plans), max(p.values for p in plans), max(p.terms for p in plans))
        return worst
    pool = plan_block(graph, reach(mask, graph.n_cells), corrected)
    if pool.method == "product":
        return pool
    cells = largest_block(mask)
    members = int((cells < graph.n_cells).sum())
    # The costliest block of that size: the cells with the most values and the most factors.
    sizes = np.sort(graph.sizes[reach(mask, graph.n_cells)].astype(float))[::-1]
    values = float(np.prod(sizes[:members]))
    degrees = np.sort(_degrees(graph)[reach(mask, graph.n_cells)])[::-1]
    return BlockPlan("enumeration", members, values, values * float(degrees[:members].sum()))


def _degrees(graph: FactorGraph) -> Array:
    return sum((np.diff(starts) for starts, _ in graph.incidences), np.zeros(graph.n_cells, np.int64))


def _capacities(graph: FactorGraph, mask: LoweredMask, plan: BlockPlan) -> tuple[tuple[int, int], ...]:
    """Buckets of size: powers of two up to the largest block, each with the most joint values of that many cells."""
    from ..graph.masks import ListedMask, SubsetMask, reach

    if isinstance(mask, SubsetMask | ListedMask):
        return ((plan.members, int(plan.values)),)
    sizes = np.sort(graph.sizes[reach(mask, graph.n_cells)].astype(np.int64))[::-1]
    out, members = [], 1
    while members < plan.members:
        out.append((members, int(np.prod(sizes[:members]))))
        members *= 2
    return (*out, (plan.members, int(plan.values)))
