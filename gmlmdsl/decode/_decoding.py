"""Draws from conditional models, for one row of given data or many.

They are chains of updates, or decodes by refinement or cell by cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import derive
from .._diagnostics import fail, truth, unknown
from .._progress import shows_progress
from .._types import Clamp, Given, JsonObject, ObserveLike, Rows
from ..data import generator, keys_of
from ..derive import AbstractDecoder, AutoregressiveKernel, Decoded, NetworkGraph, RefinementKernel, bounded_jit
from ..graph import FactorGraph, Lowered, lower_let
from ..program import ir
from ..sample import Draws, KernelRun, SampleOptions, forget, observables, verified_options, verify_chains, verify_draws
from ._candidates import Candidates, Decoding, Work, batches_of, candidates_of, filled_up, longest, trimmed, work_of
from ._decoded_draws import Decodes, Part, decodes_of, labelled_chains, labelled_decodes

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..derive import AbstractKernel, Networks
    from ..sample import Observables

Array = np.ndarray
KEPT = ("candidates", "trace")


def draw_rows(
    lowered: Lowered, sampler: ir.Sampler, params: Networks, options: SampleOptions, more: Decoding, provenance: JsonObject
) -> Draws:
    """Return draws of all rows as the object of the installed ArviZ.

    Args:
        lowered: the model.
        sampler: the sampler.
        params: parameters.
        options: the options of sampling.
        more: the further arguments of a conditional model.
        provenance: attributes to record with the draws.
    """
    options = verified_options(options)
    planned = derive.build_kernel(lowered, sampler)
    provenance = provenance | {"starts": "given" if options.init is not None else "uniform"}
    if isinstance(planned.kernel, AbstractDecoder):
        kept = _kept(options.observe, planned.kernel)
        found, work = _decodes(lowered, sampler, planned.kernel, params, replace(options, observe=None), more, "trace" in kept)
        provenance |= {} if options.init is not None else {"starts": "the sampler's own"}
        return labelled_decodes(lowered.graph, found, work, options, provenance, kept, _filling(lowered.graph, planned.kernel))
    refuse_prompt(sampler, more)
    work = work_of(lowered, params, options, more, Candidates(), refines=False)
    observe = _observed(lowered, params, options.observe, work)
    parts = _drawn(lowered, params, planned.kernel, work, Candidates(), options, observe)
    return labelled_chains(lowered.graph, parts, work, planned, options, provenance)


def decode(
    lowered: Lowered, sampler: ir.Sampler, params: Networks, seed: int, clamp: Clamp | None, init: Rows | None, more: Decoding, trace: bool
) -> Decodes:
    """Return decodes as plain arrays, for `ConditionalModel.decode`.

    Args:
        lowered: the model.
        sampler: the sampler, which must be a decoder.
        params: parameters.
        seed: the seed.
        clamp: the fixed cells.
        init: a draft for each row, or None.
        more: the further arguments of a conditional model.
        trace: whether the tokens after each pass are recorded.
    """
    options = SampleOptions(sampler.name, 1, 0, 1, 1, seed, clamp, init, None, True, False)
    options = verified_options(options)
    kernel = derive.build_kernel(lowered, sampler).kernel
    if not isinstance(kernel, AbstractDecoder):
        raise fail("E507", f"sampler `{sampler.name}` runs chains of updates, and decodes nothing", sampler.span, help="call `sample`")
    if trace := truth("trace", trace):
        _kept(("trace",), kernel)
    found, work = _decodes(lowered, sampler, kernel, params, options, more, trace)
    return found.of_rows(work.shape, lowered.graph.n_random)


def _decodes(
    lowered: Lowered,
    sampler: ir.Sampler,
    kernel: AbstractDecoder,
    params: Networks,
    options: SampleOptions,
    more: Decoding,
    trace: bool,
) -> tuple[Decodes, Work]:
    if not options.keep_draws:
        raise fail("E507", "keep_draws=False keeps nothing of a decode", help="leave it out")
    if isinstance(kernel, AutoregressiveKernel) and options.init is not None:
        raise fail("E507", "`init=` is a draft, and this sampler goes from the first cell on", help="hold the first cells: `clamp=`")
    if isinstance(kernel, RefinementKernel):
        refuse_prompt(sampler, more)
        kernel = RefinementKernel(kernel.rules, kernel.law, kernel.plan, options.init is not None, trace)
    candidates = candidates_of(lowered, sampler.body)
    work = work_of(lowered, params, options, more, candidates, refines=True)
    if more.prompt is not None and isinstance(kernel, AutoregressiveKernel):
        _verify_open(work, kernel.rules.end)
        kernel = AutoregressiveKernel(kernel.rules, prompted=True)
    return decodes_of(_drawn(lowered, params, kernel, work, candidates, options, None), candidates), work


def decoding_work(lowered: Lowered, params: Networks, call: ir.FormCall, given: Given | None) -> Work:
    """Return the work of a sampler for one row of given data, without fixed cells.

    Args:
        lowered: the model.
        params: parameters.
        call: the form of the sampler.
        given: data of given variables.

    Raises:
        GmlmError: E510 for several rows.
    """
    options = SampleOptions("", 1, 0, 1, 1, 0, None, None, None, True, False)
    work = work_of(lowered, params, options, Decoding(given), candidates_of(lowered, call), refines=True)
    if work.shape:
        message = f"given: an output distribution takes one row, without an axis of rows; got rows of shape {work.shape}"
        raise fail("E510", message, help="call it once for each row")
    return work


def refuse_prompt(sampler: ir.Sampler, more: Decoding) -> None:
    """Raise E507 for a prompt if the sampler does not extend rows from their first cells.

    Raises:
        GmlmError: E507.
    """
    if more.prompt is not None:
        message = f"`prompt=` is what rows begin with, and sampler `{sampler.name}` does not go from the first cell on"
        raise fail("E507", message, sampler.span, help="hold cells: `clamp=`")


def _verify_open(work: Work, end: int | None) -> None:
    """Raise E507 for a prompt that continues after its end.

    Raises:
        GmlmError: E507, with the first such prompt.
    """
    over = np.zeros((0, 0), bool) if end is None else (work.held & (work.values == end))[:-1] & work.held[1:]
    if over.any():
        cell, r = (int(i) for i in np.argwhere(over.T)[0][::-1])
        raise fail("E507", f"prompt[{r}] ends with the value at {cell}, which is `end`, and goes on", help="cut it there")


def _filling(graph: FactorGraph, kernel: AbstractDecoder) -> int | None:
    """Return the value that fills up a row after its end.

    The result is None if rows have lengths of their own, as answers to given data have.
    """
    return kernel.rules.end if isinstance(kernel, AutoregressiveKernel) and not graph.given else None


def _observed(lowered: Lowered, params: Networks, observe: ObserveLike | None, work: Work) -> Observables | None:
    """Return the function that records observables of each draw.

    It takes all cells of one row. Raise E507 for several rows, shorter rows, or a `let` that
    mentions given data.
    """
    if observe and (work.shape or (work.lengths < lowered.graph.n_random).any()):
        raise fail("E507", "observe is for chains of one row of full length", help="compute it from the draws, whose padding is -1")
    given = [w for w in ([] if not observe else observe.values() if isinstance(observe, Mapping) else observe) if isinstance(w, str)]
    lets = lowered.names.model.lets
    for name in given:
        if name in lets and lower_let(lowered, name)[0].given is not None:
            message = f"observe: `{name}` mentions given data, which a network alone reads here"
            raise fail("E507", message, help="compute it from the draws")
    return observables(lowered, params, observe)


def _kept(observe: ObserveLike | None, kernel: AbstractDecoder) -> tuple[str, ...]:
    if observe is None:
        return ()
    if isinstance(observe, Mapping | str) or not isinstance(observe, Iterable) or not all(isinstance(o, str) for o in observe):
        raise fail("E507", f"observe of a refinement sampler lists some of {', '.join(KEPT)}, got {observe!r}")
    for name in observe:
        if name not in KEPT:
            raise unknown(f"observe: a decode leaves nothing called `{name}`", name, KEPT)
    if "trace" in observe and isinstance(kernel, AutoregressiveKernel):
        raise fail("E507", "observe: there is one pass over a row that is predicted cell by cell, and no trace", help="leave it out")
    return tuple(observe)


def _drawn(
    lowered: Lowered,
    params: Networks,
    kernel: Any,
    work: Work,
    candidates: Candidates,
    options: SampleOptions,
    observe: Observables | None,
) -> list[Part]:
    """Draw batch by batch.

    The draws of a chain depend only on the seed, its number, its row and its candidate.
    """
    graph = lowered.graph
    assert graph.network is not None
    n, per_row = graph.n_random, options.chains * candidates.count
    rows_drawn, most = len(work.lengths) * int(per_row), int(graph.sizes.max())
    verify_chains(kernel, n, rows_drawn, int(options.warmup) + int(options.draws) * int(options.thin))
    verify_draws(kernel, n, most, rows_drawn, int(options.draws), options.keep_draws, observe)
    given = longest(work.given) if work.given else np.ones(len(work.lengths), np.int32)
    whole = bool(getattr(kernel, "law", None) is not None and kernel.law.groups())
    parts = []
    cells = work.lengths.max(axis=1)
    # If the lengths of rows are known, both sides have the same width, so that few programs are
    # compiled.
    if not isinstance(kernel, AutoregressiveKernel):
        given = cells = np.maximum(given, cells)
    for chosen, wide, high in batches_of(given, cells, per_row * int(graph.sizes.max())):
        width = n if whole or not (work.shape or isinstance(kernel, AbstractDecoder)) else min(high, n)
        rows = filled_up(chosen)
        lengths = np.tile(np.repeat(work.lengths[rows], candidates.starts, axis=1), (1, options.chains))
        device = _device(params, graph.network.label, work, chosen, wide, lengths, width)
        held, values = (np.repeat(a[:width, rows], per_row, axis=1) for a in (work.held, work.values))
        target = derive.Target(device, params, derive.on_device(held) if held.any() else None)
        numbers = np.meshgrid(work.numbers[rows], np.arange(options.chains), np.arange(candidates.count), indexing="ij")
        row, chain, candidate = (a.ravel() for a in numbers)
        keys = keys_of(options.seed, chain, row, candidate)
        found = KernelRun(
            kernel,
            target,
            _starts(kernel, device, work, rows, per_row, held, values, options.seed),
            seed=options.seed,
            draws=options.draws,
            warmup=options.warmup,
            thin=options.thin,
            observe=observe,
            keep=options.keep_draws,
            progress=shows_progress(options.progress),
            keys=keys,
            remember=_decoded if isinstance(kernel, AbstractDecoder) else forget,
        ).run()
        _verify_defined(graph, found, chosen, per_row, work)
        parts.append(Part(chosen, width, found))
    return parts


def _verify_defined(graph: FactorGraph, found: Draws, chosen: Array, per_row: int, work: Work) -> None:
    """Raise E747 if the network did not define a distribution of some cell.

    A step has marked such a cell with `UNDEFINED`.

    Raises:
        GmlmError: E747, with the first cell and its row.
    """
    assert graph.network is not None
    kept = found.last.T[:, None] if found.codes is None else found.codes
    bad = (kept == derive.UNDEFINED).any(axis=1) | (found.last.T == derive.UNDEFINED)
    bad = bad[: len(chosen) * per_row]  # later chains belong to rows that pad a batch
    if bad.any():
        chain, cell = (int(i) for i in np.argwhere(bad)[0])
        row = f" of row {work.numbers[chosen[chain // per_row]]}" if work.shape else ""
        raise derive.undefined_outputs(f"network `{graph.network.label}`", f"at {graph.cell_name(cell)}{row}")


def _decoded(state: derive.State) -> Decoded:
    return state.memory._replace(draft=None)


def _device(params: Networks, name: str, work: Work, chosen: Array, wide: int, lengths: Array, width: int) -> NetworkGraph:
    """Return the shared data of passes over a batch.

    It reuses the encoding from which the lengths were predicted, if that covers the same batch.
    """
    kept = work.encoded
    if kept is not None and kept.width == wide and np.array_equal(kept.rows, chosen):
        return _graph_from(params, name, kept.states, lengths, width)
    return _graph_of(params, name, *trimmed(work.given, chosen, wide), lengths, width)


@bounded_jit
def _graph_of(params: Networks, name: str, given: Any, given_lengths: Any, lengths: Any, width: int) -> NetworkGraph:
    network = params[name]
    rows = lengths.shape[0]
    encoded = derive.encode_rows(network, given, given_lengths, rows)
    return derive.network_graph(network, name, encoded, lengths, width)


@bounded_jit
def _graph_from(params: Networks, name: str, encoded: PyTree, lengths: Any, width: int) -> NetworkGraph:
    return derive.network_graph(params[name], name, encoded, lengths, width)


def _starts(
    kernel: AbstractKernel, device: NetworkGraph, work: Work, rows: Array, per_row: int, held: Array, values: Array, seed: int
) -> Array:
    """Return the initial codes of the chains: the given start, or uniform values.

    Padding is 0, and fixed cells have their given codes. A decoder makes its own start if none is
    given. In that case nothing is drawn here, because drawing row by row would take longer than the
    passes of the decoder.
    """
    q, width, chains = device.most_values, device.n_cells, len(rows) * per_row
    codes = np.zeros((width, chains), np.int32)
    if work.codes is not None:
        codes = np.repeat(work.codes[:width, rows], per_row, axis=1)
    own = work.codes is None and isinstance(kernel, AbstractDecoder)
    if not own and (work.codes is None or (codes < 0).any()):
        drawn = np.stack([generator(seed, int(r), k).integers(0, q, width) for r in work.numbers[rows] for k in range(per_row)], axis=1)
        codes = np.where(codes < 0, drawn, codes) if work.codes is not None else drawn
    present = np.arange(width)[:, None] < np.asarray(device.lengths).reshape(1, -1)
    return np.where(held, values, np.where(present, codes, 0)).astype(np.int32)
