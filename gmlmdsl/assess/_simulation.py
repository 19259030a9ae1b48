"""Configurations drawn from a fitted model, for each row of given data.

The draws are exact if a plan affords them; otherwise they are those of a sampler.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, counted, fail, is_one_of
from ..data import keys_of
from ..evaluate import Contractions, independent_kernel
from ..graph import FactorGraph, Lowered
from ..masks import lower_mask
from ..plan import BUDGET, plan_update, verify_moves_all
from ..program import ir
from ..sample import KernelRun, effective_sample_size, masks_in, starts
from .limits import CHAINS, DRAWS_AT_ONCE, ENTRIES_AT_ONCE, MOST_EVALUATIONS, PILOT_DRAWS

if TYPE_CHECKING:
    from ..fit import FitRecord

Array = np.ndarray
EXACT = "exact"
Track = Callable[[Array], Array]


@dataclass(frozen=True)
class How:
    """The options of the draws; see `Fit.simulated_errors`."""

    draws: int
    seed: int
    sampler: str | None
    warmup: int
    thin: int | None = None


@dataclass(frozen=True)
class SimulatedRows:
    """Configurations of each distribution.

    Attributes:
        codes: shape (cells, distributions, draws), the draws of one chain after those of another.
        chains: the number of chains of each distribution; 0 if draws are independent.
        words: a description of the draws.
    """

    codes: Array
    chains: int
    words: str


def draw(fit: FitRecord, lowered: Lowered, params: dict[str, jax.Array], laws: Array, how: How, track: Track) -> SimulatedRows:
    """Draw from the model at each of some rows of given data.

    Args:
        fit: the fit, whose samplers are used.
        lowered: the model with its given data.
        params: the parameters.
        laws: the numbers of the rows of given data; 0 for a model without given data.
        how: the options.
        track: a function from codes (cells, chains * draws) of the first distribution to the
            functions by which their autocorrelation is judged, shape (chains * draws, functions).

    Raises:
        GmlmError: E601 with the figure if the draws cost too much; E506, E507 or E704 for a sampler
            that does not fit.
    """
    exact = is_one_of(how.sampler, (EXACT,))
    if how.sampler is None or (exact and EXACT not in fit.model.samplers):
        try:
            return _independent(lowered, params, laws, how)
        except GmlmError as error:
            if exact or not set(error.codes) <= {"E601"}:
                raise
            if not fit.model.samplers:
                help = "declare a sampler that moves every cell, `sampler s { .. }`, and fit again"
                raise fail("E506", "exact draws cost too much, and the model has no sampler", help=help) from None
    return _of_chains(fit, lowered, params, laws, how, track)


def verify_memory(graph: FactorGraph, configurations: float) -> None:
    """Raise E601 for more configurations than memory can hold, at one byte per cell.

    Raises:
        GmlmError: E601.
    """
    size = float(graph.n_cells) * configurations
    if size > BUDGET.bytes:
        message = f"simulated rows of {graph.n_random:,} cells take {size / 2**30:.3g} GiB"
        raise fail("E601", f"{message}, more than the limit of {BUDGET.bytes / 2**30:.3g} GiB", help="ask for fewer `draws=`")


def verify_evaluations(count: float, what: str) -> None:
    """Raise E601 for more evaluations of factors than about an hour takes.

    Raises:
        GmlmError: E601.
    """
    if count > MOST_EVALUATIONS:
        message = f"{what} take {count:.2g} evaluations of factors, more than the limit of {MOST_EVALUATIONS:.2g}"
        raise fail("E601", message, help="ask for fewer `draws=`, or a smaller `thin=` or `warmup=`")


def _independent(lowered: Lowered, params: dict[str, jax.Array], laws: Array, how: How) -> SimulatedRows:
    """Return independent draws, by elimination or by drawing every cell given its parents."""
    graph, device = lowered.graph, derive.graph_arrays(lowered.graph)
    kept, nothing = Contractions(graph), np.zeros(graph.n_cells, bool)
    line, parts, at_once = "", [], _laws_at_once(kept, nothing, len(laws))
    steps = math.ceil(how.draws / DRAWS_AT_ONCE) if len(laws) == 1 else how.draws
    columns = math.ceil(how.draws / steps)
    for first in range(0, len(laws), at_once):
        # All groups have the same size, so that they share one compilation.
        mine = np.resize(laws[first : first + at_once], at_once)
        codes = _at_laws(lowered, mine)
        kernel, line = independent_kernel(kept, device, params, (nothing, codes))
        target, begun = derive.Target(device, params, None), np.repeat(codes, columns, axis=1)
        keys = _keys(how.seed, (first + np.arange(at_once))[:, None] * columns + np.arange(columns))
        found = _kept(KernelRun(kernel, target, begun, how.seed, steps, keys=keys).run().codes)
        whole = found.reshape(at_once, columns * steps, graph.n_cells)[: len(laws) - first, : how.draws]
        parts.append(np.moveaxis(whole, 2, 0))
    return SimulatedRows(np.concatenate(parts, axis=1), 0, f"exact draws ({line.removeprefix('`exact`: ')})")


def _laws_at_once(kept: Contractions, nothing: Array, laws: int) -> int:
    try:
        entries = kept.holding(nothing, "an exact draw")[1].entries
    except GmlmError:
        if not kept.graph.is_normalised:
            raise
        entries = kept.graph.n_cells
    return int(min(laws, max(1, ENTRIES_AT_ONCE // max(1, entries))))


def _of_chains(fit: FitRecord, lowered: Lowered, params: dict[str, jax.Array], laws: Array, how: How, track: Track) -> SimulatedRows:
    """Return draws of chains of a sampler, `CHAINS` for each distribution.

    Without `thin`, a short run determines the number of steps between draws.
    """
    name, checked = fit.model.sampler(how.sampler)
    _verify_sampler(lowered, checked, params)
    graph, device, each = lowered.graph, derive.graph_arrays(lowered.graph), math.ceil(how.draws / CHAINS)
    step = sum(float(g.n) * g.cells.shape[1] for g in graph.groups) * int(graph.sizes.max(initial=1)) * CHAINS * len(laws)
    pilot_draws = PILOT_DRAWS if how.thin is None else 0
    verify_evaluations(step * (how.warmup + pilot_draws + (how.thin or 1) * each), f"{how.draws:,} draws of `{name}`")
    kernel, target = derive.build_kernel(lowered, checked, params).kernel, derive.Target(device, params, None)
    begun = [starts(graph, CHAINS, how.seed, None, _held(lowered, law), params).codes for law in laws.tolist()]
    numbers = np.arange(len(laws) * CHAINS)

    def run(codes: Array, number: int, draws: int, warmup: int, thin: int) -> tuple[Array, Array]:
        mine = keys_of(how.seed, numbers, np.full_like(numbers, number))
        found = KernelRun(kernel, target, codes, how.seed, draws, warmup, thin, keys=mine).run()
        return _kept(found.codes), found.last

    codes, warmup, thin = np.concatenate(begun, axis=1), how.warmup, how.thin
    if thin is None:
        verify_memory(graph, float(len(laws)) * CHAINS * PILOT_DRAWS)
        pilot, codes = run(codes, 0, PILOT_DRAWS, warmup, 1)
        effective = effective_draws(track(pilot[:CHAINS].reshape(-1, graph.n_cells).T), CHAINS)
        warmup, thin = 0, 1 if np.isnan(effective) else max(1, round(CHAINS * PILOT_DRAWS / effective))
        verify_evaluations(step * thin * each, f"{how.draws:,} draws of `{name}`, {counted(thin, 'run')} apart,")
    found, _ = run(codes, 1, each, warmup, thin)
    whole = found.reshape(len(laws), CHAINS * each, graph.n_cells)
    return SimulatedRows(np.moveaxis(whole, 2, 0), CHAINS, f"draws of {CHAINS} chains of `{name}`, {counted(thin, 'run')} apart")


def effective_draws(values: Array, chains: int) -> float:
    """Return the smallest effective number of draws of some functions; nan if none of them varies.

    `values` has the shape (chains * draws, functions).
    """
    found = effective_each(values, chains)
    return float(np.nanmin(found)) if np.isfinite(found).any() else float("nan")


def effective_each(values: Array, chains: int) -> Array:
    """Return the effective number of draws of each function; nan if the function does not vary.

    `values` has the shape (chains * draws, functions).
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return effective_sample_size(values.reshape(chains, -1, values.shape[1]))


def _verify_sampler(lowered: Lowered, sampler: ir.Sampler, params: dict[str, jax.Array]) -> None:
    """Raise unless the draws of a sampler follow the model.

    Raises:
        GmlmError: E507 for updates that do not leave p invariant, E704 for cells that are never
            moved; E410 and others for a mask.
    """
    if isinstance(sampler.body, ir.FormCall):
        raise derive.no_chain(sampler.body)
    for kernel in ir.updates_in(sampler.body):
        if not plan_update(lowered, kernel).keeps:
            message = "simulated errors need draws from p, and `independently` keeps no known distribution where cells of a block interact"
            raise fail("E507", message, kernel.span, "does not keep p", help="name another sampler")
    verify_moves_all(lowered, sampler)
    for mask in masks_in(sampler.body):
        lower_mask(lowered, mask).verify(lowered.graph.sizes, {k: np.asarray(v) for k, v in params.items()})


def _at_laws(lowered: Lowered, laws: Array) -> Array:
    """Return codes (cells, laws) that contain the number of the row of given data."""
    codes = np.zeros((lowered.graph.n_cells, len(laws)), np.int32)
    if lowered.graph.row_cell is not None:
        codes[lowered.graph.row_cell] = laws
    return codes


def _held(lowered: Lowered, law: int) -> tuple[Array, Array]:
    held = np.zeros(lowered.graph.n_cells, bool)
    held[lowered.graph.n_random :] = True
    return held, _at_laws(lowered, np.array([law]))[:, 0]


def _keys(seed: int, numbers: Array) -> jax.Array:
    """Return one key for each number, row-major."""
    return keys_of(seed, numbers.ravel())


def _kept(codes: Array | None) -> Array:
    assert codes is not None
    return codes
