"""Construction of kernels from a checked sampler: the plan of each block, colours, size buckets."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
import numpy as np

from .._diagnostics import GmlmError, fail
from ..graph import FactorGraph, Lowered
from ..graph.colours import colour
from ..masks import AbstractMask
from ..plan import (
    BlockPlan,
    ClusterPlan,
    Packing,
    ParallelPlan,
    RandomPlan,
    SweepLayout,
    SweepPlan,
    UpdatePlan,
    entries_at,
    listed_blocks,
    loses_digits,
    packing,
    plan_elimination,
    plan_layout,
    plan_temper,
    plan_update,
    repeat_count,
    row_weights,
    update_line,
    with_others,
)
from ..program import AUTOREGRESSIVE, ir, is_decoder, is_guided
from ._arrays import fixed_blocks, float_type, on_device, stacked_blocks
from ._autoregressive import autoregressive_kernel
from ._clusters import cluster_kernel
from ._contraction import contraction
from ._elimination_kernels import EliminationKernel, ListedEliminationKernel
from ._energy import Params
from ._kernel import AbstractKernel
from ._kernels import CycleKernel, KernelStage, MixtureKernel, ParallelKernel, RandomKernel, RepeatKernel, SweepKernel, TemperKernel
from ._mask_law import mask_law
from ._network_kernels import network_update
from ._oracle import start_kernel
from ._packed_sweep import packed_sweep
from ._refinement import refinement_kernel
from ._tabled_sweep import Colours, TabledSweepKernel, tabled_sweep
from .limits import MOST_BLOCK_SHAPES

if TYPE_CHECKING:
    from jaxtyping import PyTree

Array = np.ndarray


@dataclass(frozen=True)
class Planned:
    """Kernel with the names of the rows of its `Info`.

    `lines` has a name for each update, and `pairs` one for each pair of replicas.
    """

    kernel: AbstractKernel
    lines: tuple[str, ...]
    pairs: tuple[str, ...] = ()


def build_kernel(lowered: Lowered, sampler: ir.Sampler, params: Params | None = None, keep: bool = False) -> Planned:
    """Return the kernel of a sampler.

    Args:
        lowered: the model.
        sampler: the sampler.
        params: parameters at which the kernel takes its fastest form, see `at_parameters`; or None.
        keep: whether the part that does not depend on parameters is built once for a model.

    Raises:
        GmlmError: E507 for a sampler that calls verifiers or values, whose strings are not steps of
            a chain. Other codes for a block that is too costly to draw, and for a data-dependent
            mask in a model without a joint distribution.
    """
    if isinstance(sampler.body, ir.FormCall):
        return _decoder(lowered, sampler.body)
    # the kernel is inspected on the host, whatever a caller traces
    with jax.ensure_compile_time_eval():
        try:
            planned = _kept(lowered, sampler) if keep else _Builder(lowered).in_order(sampler.body)
        except GmlmError as error:
            raise with_others(error, lowered.bound, lowered.names.model.name) from None
        return planned if params is None else replace(planned, kernel=at_parameters(lowered.graph, planned.kernel, params))


def _kept(lowered: Lowered, sampler: ir.Sampler) -> Planned:
    """Return the kernel for any parameters, built once for a model and a sampler.

    For large graphs, building it takes as long as many steps.
    """
    assert not isinstance(sampler.body, ir.FormCall)
    key = id(sampler), float_type()
    if key not in lowered.kept:
        # The entry holds a reference to the sampler, so that its id stays unique.
        lowered.kept[key] = sampler, _Builder(lowered).in_order(sampler.body)
    return lowered.kept[key][1]


def _decoder(lowered: Lowered, call: ir.FormCall) -> Planned:
    if is_guided(call.form.name):
        raise no_chain(call)
    if call.form is AUTOREGRESSIVE:
        return Planned(autoregressive_kernel(lowered, call), (f"`{call.span.text}`: cell by cell, from the first",))
    line = f"`{call.span.text}`: every pass at once, from its start"
    kernel = refinement_kernel(lowered, call)
    return Planned(kernel if lowered.graph.network is not None else start_kernel(lowered.graph, kernel, "a pass of this decoder"), (line,))


def no_chain(call: ir.FormCall) -> GmlmError:
    """Return E507, the error for a sampler without a chain whose steps are needed.

    Such a sampler draws each string independently.
    """
    does = "decodes: its draw depends on no draw before it" if is_decoder(call) else "draws each string from its first symbol on"
    message = f"`{call.form.name}` {does}: it has no steps from string to string"
    help = "`sample` draws by it, `gm.theory.output_law` computes the distribution of its strings"
    return fail("E507", message, call.span, "no chain", help=help)


def fresh(kernel: ir.Start) -> GmlmError:
    """Return E507, the error for a sampler whose every draw starts afresh, if a chain is needed."""
    message = f"each draw begins with one of `{kernel.name}`, whatever stood before: it has a distribution, and no steps of a chain"
    help = "`gm.theory.output_law` computes it; the updates in a sampler of their own are a chain"
    return fail("E507", message, kernel.span, "begins anew", help=help)


def _names(parts: Sequence[Planned]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(line for p in parts for line in p.lines), tuple(pair for p in parts for pair in p.pairs)


def build(lowered: Lowered, kernel: ir.Kernel) -> Planned:
    """Return the device form of one kernel."""
    return kernel.accept(_Builder(lowered))


@dataclass(frozen=True)
class _Builder:
    """Visitor that returns the device forms of the kernels of one model."""

    lowered: Lowered

    def in_order(self, body: Sequence[ir.Kernel]) -> Planned:
        parts = [kernel.accept(self) for kernel in body]
        return parts[0] if len(parts) == 1 else Planned(CycleKernel(tuple(p.kernel for p in parts)), *_names(parts))

    def start(self, kernel: ir.Start) -> Planned:
        decoder = refinement_kernel(self.lowered, kernel.call)
        found = start_kernel(self.lowered.graph, decoder, f"a pass of `{kernel.name}`")
        return Planned(found, (f"`{kernel.span.text}`: each draw begins with one of `{kernel.call.span.text}`",))

    def update(self, kernel: ir.Sweep | ir.RandomUpdate) -> Planned:
        if self.lowered.graph.network is not None:
            return Planned(network_update(self.lowered, kernel), (f"`{kernel.span.text}`: from the network's outputs, in one pass",))
        return _update(self.lowered.graph, plan_update(self.lowered, kernel))

    sweep = random = update

    def cycle(self, kernel: ir.Cycle) -> Planned:
        return self.in_order(kernel.body)

    def repeat(self, kernel: ir.Repeat) -> Planned:
        part = self.in_order(kernel.body)
        return Planned(RepeatKernel((part.kernel,), repeat_count(self.lowered, kernel)), part.lines, part.pairs)

    def mixture(self, kernel: ir.KernelMixture) -> Planned:
        weights = row_weights(self.lowered, kernel)
        parts = [part.accept(self) for part in kernel.parts]
        return Planned(MixtureKernel(tuple(p.kernel for p in parts), on_device(weights)), *_names(parts))

    def temper(self, kernel: ir.Temper) -> Planned:
        if self.lowered.graph.network is not None:
            message = "`temper` needs log p, and a `conditional` declares no joint distribution"
            help = "`refinement(decode = sample, temperature = ..)` draws at other temperatures"
            raise fail("E742", message, kernel.span, "no joint", help=help)
        part, planned = self.in_order(kernel.body), plan_temper(self.lowered, kernel)
        return Planned(TemperKernel(part.kernel, on_device(planned.betas), planned.cold), part.lines, planned.pairs)


def _update(graph: FactorGraph, planned: UpdatePlan) -> Planned:
    """Return the kernel of one planned update."""
    match planned:
        case SweepPlan(eliminations=()):
            kernel = _sweep(graph, planned.layout)
        case SweepPlan():
            kernel = EliminationKernel(tuple(contraction(graph, e) for e in planned.eliminations))
        case ParallelPlan():
            stages = tuple(fixed_blocks(graph, single_cells(b, graph.n_cells)) for b in planned.blocks)
            kernel = ParallelKernel(stages)
        case ClusterPlan():
            kernel = cluster_kernel(graph, planned)
        case RandomPlan() if planned.plan.elimination is not None and not planned.separate:
            kernel = _listed(graph, planned)
        case RandomPlan():
            kernel = _random(graph, planned)
    return Planned(kernel, (update_line(planned),))


def _sweep(graph: FactorGraph, layout: SweepLayout) -> AbstractKernel:
    if layout.tables is not None:
        return tabled_sweep(graph, layout.tables)
    return _by_trees(graph, layout.pieces)


def _by_trees(graph: FactorGraph, pieces: Sequence[Array]) -> SweepKernel:
    return SweepKernel(tuple(KernelStage(stacked_blocks(graph, list(p)), len(p)) for p in pieces))


def at_parameters(graph: FactorGraph, kernel: AbstractKernel, params: Params) -> AbstractKernel:
    """Return the kernel in the form that is fastest at these parameters.

    Tables that would lose digits in 32 bits are replaced by trees.
    """

    def formed(k: PyTree) -> PyTree:
        if not isinstance(k, TabledSweepKernel):
            return k
        entries = entries_at(graph, k.plans, {name: np.asarray(v, np.float64) for name, v in params.items()})
        if loses_digits(entries, k.by_product):
            return _by_trees(graph, [np.asarray(s.cells)[..., None] for s in k.stages])
        plan = None if float_type() == np.float64 else _packing(graph, k, entries)
        if plan is not None:  # for cells with two values a form of the lists gains little
            return packed_sweep(k, plan, [_real(graph, s) for s in k.stages])
        return k.formed(entries, graph.sizes)

    return jax.tree.map(formed, kernel, is_leaf=lambda k: isinstance(k, TabledSweepKernel))


def _packing(graph: FactorGraph, kernel: TabledSweepKernel, entries: Array) -> Packing | None:
    """Return how chains of a sweep are packed at parameters at which tables have these entries.

    The result is None if they cannot be packed.
    """
    if kernel.most_values != 2 or any(s.rest is not None for s in kernel.stages):
        return None
    stages, every = [], np.arange(len(kernel.order))[:, None]
    for s in kernel.stages:
        slots = [np.broadcast_to(every, (*s.cells.shape, *every.shape))] if kernel.by_product else [np.asarray(k.slots) for k in s.lists]
        kinds = [(at, np.asarray(m)) for at, m in zip(slots, s.places.matrices, strict=True)]
        stages.append((_real(graph, s), np.asarray(s.places.inside), kinds))
    return packing(entries, stages, len(kernel.order) - 1)


def _real(graph: FactorGraph, stage: Colours) -> Array:
    """Return the cells of a stage that are not padding."""
    return np.asarray(stage.cells) < graph.n_cells


def single_site_sweep(graph: FactorGraph) -> AbstractKernel:
    """Return the kernel of a model without a sampler: every cell once, colour after colour."""
    cells = np.arange(graph.n_cells, dtype=np.int32)[:, None]
    return _sweep(graph, plan_layout(graph, cells, colour(graph, cells), ()))


def _listed(graph: FactorGraph, planned: RandomPlan) -> AbstractKernel:
    """Return the kernel that redraws blocks by elimination; blocks of one shape are redrawn together."""
    blocks = listed_blocks(graph, planned.mask, planned.corrected)
    assert blocks is not None
    alike: dict[Hashable, list[int]] = {}
    found = {}
    for k, block in enumerate(blocks):
        cells = block[block < graph.n_cells]
        if len(cells):
            # The contraction has stages: blocks that differ only in their place in the graph share
            # them, whereas the arrays of a loop may differ.
            found[k] = contraction(graph, replace(plan_elimination(graph, cells, "a block"), may_loop=False))
            leaves, tree = jax.tree.flatten(found[k])
            alike.setdefault((tree, tuple(a.shape for a in leaves)), []).append(k)
    if len(alike) > MOST_BLOCK_SHAPES:
        message = f"the {len(blocks)} blocks of `{planned.update.span.text}` are eliminated in {len(alike)} different ways"
        help = "a sweep takes such blocks, all of one colour at once: `update x[r] for r in ..`"
        message += f", each of them compiled: the limit is {MOST_BLOCK_SHAPES}"
        raise fail("E601", message, planned.update.span, help=help)
    kind, place, kinds = np.full(len(blocks), -1), np.full(len(blocks), -1), []
    for k, members in enumerate(alike.values()):
        kind[members], place[members] = k, np.arange(len(members))
        kinds.append(jax.tree.map(lambda *a: on_device(np.stack(a)), *(found[m] for m in members)))
    law = mask_law(planned.mask)
    return ListedEliminationKernel(law, on_device(blocks, np.int32), tuple(kinds), on_device(kind), on_device(place))


def single_cells(blocks: Array, n_cells: int) -> Array:
    """Return the cells of one padded block, each as a block of its own."""
    return blocks[blocks < n_cells][:, None]


def _random(graph: FactorGraph, planned: RandomPlan) -> AbstractKernel:
    mask, plan = planned.mask, planned.plan
    capacities = ((plan.members, int(graph.sizes.max(initial=1))),) if planned.separate else _capacities(graph, mask, plan)
    return RandomKernel(mask_law(mask), planned.corrected, planned.separate, capacities)


def _capacities(graph: FactorGraph, mask: AbstractMask, plan: BlockPlan) -> tuple[tuple[int, int], ...]:
    """Return the size buckets, each with the maximum number of joint values of that many cells.

    The sizes are powers of two up to the largest block.
    """
    if not mask.has_random_size:
        return ((plan.members, int(plan.values)),)
    sizes = np.sort(graph.sizes[mask.reach].astype(np.int64))[::-1]
    out, members = [], 1
    while members < plan.members:
        out.append((members, int(np.prod(sizes[:members]))))
        members *= 2
    return (*out, (plan.members, int(plan.values)))
