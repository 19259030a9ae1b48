"""Persistent contrastive divergence: the likelihood is maximised along estimated gradients.

The gradient is

    grad mean_r w_r log p(x_r) = mean_r w_r E[grad log p~(x, h) | x_r] - E[grad log p~(x, h)]

with p~ the unnormalised p. In the first mean, latents and missing cells are summed out if that is
affordable; otherwise one completion of each row is redrawn at every step. The second mean is over
chains that are never restarted. If the steps are small relative to the mixing of the chains,
completions and chains are near their stationary distributions, and the iterates settle around the
maximum. The mean of the iterates over the last half of the steps has less noise than any single
iterate.

Reference: Younes 1989; Tieleman 2008; Polyak and Juditsky 1992.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from .._diagnostics import GmlmError, counted, fail, listed
from .._progress import shows_progress, tracked
from ..data import generator, random_key
from ..derive import (
    AbstractKernel,
    Contraction,
    Graph,
    State,
    Target,
    bounded_jit,
    build_kernel,
    contraction,
    evidence,
    fold,
    graph_arrays,
    log_potential,
    log_sum,
    redraw_gaps,
)
from ..evaluate import Frame, Missing, log_prior, log_sums, reported
from ..graph import FactorGraph, Lowered
from ..plan import plan_elimination, plan_sum, verify_held, verify_moves_all
from ..program import ir
from ..sample import starts, verify_chains
from ._imputation import FIRST_SWEEPS, SWEEPS, first_values, missing_blocks
from ._methods import PersistentContrastiveDivergence
from ._optimise import Outcome
from ._settled import settled
from ._status import Finding, Status

if TYPE_CHECKING:
    from ._options import FitOptions

Array = np.ndarray
ADAM = optax.adam(0.01)  # one object for all fits, so that a second fit compiles nothing
STEPS_PER_CALL = 50
# The last half of the steps is split into this many batches. Their standard deviation gives the
# Monte Carlo error of the mean gradient.
BATCHES = 16


class ClampedRows(eqx.Module):
    """The rows, with the method that computes the mean of grad log p over them.

    Attributes:
        graph: the factor graph on the device.
        codes: shape (cells, rows), completed if missing cells are redrawn.
        weights: shape (rows,), with mean 1.
        gaps: the contraction that sums out missing cells, whose code is -1. None if no cell is
            missing, or if missing cells are redrawn.
        blocks: the blocks in which missing cells are redrawn, shape (steps, members, patterns of
            missing cells). None if they are not redrawn.
        pattern: the pattern of missing cells of each row.
        values: the maximum number of joint values of a block.
        size: the number of rows per step, None for all.
    """

    graph: Graph
    codes: jax.Array
    weights: jax.Array
    gaps: Contraction | None
    blocks: jax.Array | None
    pattern: jax.Array
    values: int = eqx.field(static=True)
    size: int | None = eqx.field(static=True)

    def choose(self, key: jax.Array) -> jax.Array:
        """Return the rows of a step: all rows, or rows drawn with replacement."""
        rows = self.codes.shape[1]
        return jnp.arange(rows) if self.size is None else jax.random.randint(key, (self.size,), 0, rows, jnp.int32)

    def redrawn(self, params: Mapping[str, jax.Array], codes: jax.Array, chosen: jax.Array, sweeps: int, key: jax.Array) -> jax.Array:
        """Return the chosen rows, with redrawn missing cells.

        Missing cells are redrawn from p(. | observed) unless they are summed out.

        Args:
            params: the parameters.
            codes: shape (cells, rows), the completed rows.
            chosen: the numbers of the chosen rows.
            sweeps: the number of times that missing cells are redrawn.
            key: a JAX key.
        """
        if self.blocks is None:
            return codes[:, chosen]
        return redraw_gaps(self.graph, params, codes[:, chosen], self.blocks[:, :, self.pattern[chosen]], self.values, sweeps, key)

    def each(self, params: Mapping[str, jax.Array], codes: jax.Array) -> jax.Array:
        """Return the unnormalised log p of each row of a step, with missing cells summed out.

        If missing cells are redrawn, the result is that of the completed rows.
        """
        if self.gaps is None:
            return log_potential(self.graph, params, codes)
        return log_sum(self.graph, params, jnp.maximum(codes, 0), self.gaps, evidence(self.graph, codes, self.gaps))

    def mean(self, params: Mapping[str, jax.Array], codes: jax.Array, chosen: jax.Array) -> jax.Array:
        """Return the weighted mean of `each` over the chosen rows."""
        return (self.weights[chosen] * self.each(params, codes)).mean()


_each, _redrawn = bounded_jit(ClampedRows.each), bounded_jit(ClampedRows.redrawn)


def log_rows(rows: ClampedRows, params: Mapping[str, jax.Array], codes: jax.Array) -> Array:
    """Return `ClampedRows.each` of all rows, evaluated for as many rows at a time as a step has."""
    count = codes.shape[1]
    size = count if rows.size is None else rows.size
    found = [np.asarray(_each(rows, params, codes[:, np.arange(k, k + size) % count])) for k in range(0, count, size)]
    return np.concatenate(found)[:count]


class Climb(eqx.Module):
    """The constants of a step, as opposed to its carry; keys are folded with the step's number."""

    rows: ClampedRows
    kernel: AbstractKernel
    held: dict[str, jax.Array]
    total: jax.Array  # the sum of the rows' weights, relative to which the prior counts once
    key: jax.Array
    chain_keys: jax.Array
    frame: Frame = eqx.field(static=True)
    optimizer: optax.GradientTransformation = eqx.field(static=True)
    method: PersistentContrastiveDivergence = eqx.field(static=True)

    def moved(self, params: dict[str, jax.Array], state: State, first: jax.Array, count: jax.Array) -> State:
        """Return the chains after some runs of the sampler's body.

        Args:
            params: the parameters.
            state: the chains.
            first: the number of the first run, with which keys are folded.
            count: the number of runs.
        """
        target = Target(self.rows.graph, params, None)
        ready = self.kernel.prepared(target)

        def run(t: jax.Array, at: State) -> State:
            return ready.step(target, fold(self.chain_keys, t), at)[0]

        return jax.lax.fori_loop(first, first + count, run, state)

    def gradient(
        self, free: dict[str, jax.Array], codes: jax.Array, chosen: jax.Array, chains: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Return a difference of means of log p~, and the estimated gradient of the objective.

        The difference is the mean over the chains minus the mean over the rows. The gradient is
        that per unit of row weight.

        Args:
            free: the unconstrained parameters.
            codes: the completed codes of the chosen rows.
            chosen: the numbers of the chosen rows.
            chains: the codes of the chains.
        """

        def contrast(at: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
            params = self.frame.constrain(at, self.held)
            apart = log_potential(self.rows.graph, params, chains).mean() - self.rows.mean(params, codes, chosen)
            return apart - log_prior(self.frame.host, params) / self.total, apart

        (_, apart), gradient = jax.value_and_grad(contrast, has_aux=True)(free)
        return apart, gradient


_moved = bounded_jit(Climb.moved)


class Carry(NamedTuple):
    """The state that one step passes to the next.

    `places` (the parameters) and `gradients` are summed in batches over the last half of the steps.
    """

    free: dict[str, jax.Array]
    optimizer: optax.OptState
    chains: State
    codes: jax.Array
    places: jax.Array
    gradients: jax.Array
    trace: jax.Array


@bounded_jit
def advance(climb: Climb, carry: Carry, first: jax.Array, last: jax.Array) -> Carry:
    """Run steps `first` to `last` (half-open).

    Args:
        climb: the constants of the steps.
        carry: the state before the first step.
        first: the number of the first step.
        last: the number after that of the last step.
    """
    steps, sweeps = climb.method.steps, climb.method.sweeps
    half = steps // 2

    def step(t: jax.Array, at: Carry) -> Carry:
        key = jax.random.fold_in(climb.key, t)
        params = climb.frame.constrain(at.free, climb.held)
        chains = climb.moved(params, at.chains, climb.method.burn_in + t * sweeps, jnp.asarray(sweeps))
        chosen = climb.rows.choose(jax.random.fold_in(key, 0))
        here = climb.rows.redrawn(params, at.codes, chosen, SWEEPS, jax.random.fold_in(key, 1))
        apart, gradient = climb.gradient(at.free, here, chosen, chains.codes)
        updates, state = climb.optimizer.update(gradient, at.optimizer, at.free)
        free: Any = optax.apply_updates(at.free, updates)
        batch = jnp.where(t < half, BATCHES, (t - half) * BATCHES // (steps - half))
        places = at.places.at[batch].add(ravel_pytree(free)[0], mode="drop")
        gradients = at.gradients.at[batch].add(ravel_pytree(gradient)[0], mode="drop")
        codes = at.codes if climb.rows.blocks is None else at.codes.at[:, chosen].set(here)
        return Carry(free, state, chains, codes, places, gradients, at.trace.at[t].set(apart))

    return jax.lax.fori_loop(first, last, step, carry)


@dataclass(frozen=True)
class Climbed:
    """The result of persistent contrastive divergence.

    `objective` is nan if log Z costs too much.
    """

    outcome: Outcome
    params: dict[str, jax.Array]
    status: Status
    missing: Missing
    objective: float


def climb(
    lowered: Lowered, codes: Array, weights: Array, start: dict[str, jax.Array], fixed: tuple[str, ...], options: FitOptions
) -> Climbed:
    """Maximise the likelihood times the prior by persistent contrastive divergence.

    Args:
        lowered: the model.
        codes: shape (cells, rows), -1 if a cell is missing.
        weights: the weights of the rows.
        start: the starting values of all parameters.
        fixed: the names of the parameters that are held at their start.
        options: the options of the fit, with those of the method.

    Raises:
        GmlmError: E506 or E704 for a sampler or given data that do not fit, E508 for a row without
            a possible completion.
    """
    method, host, alive = options.method, lowered.graph, weights > 0
    assert isinstance(method, PersistentContrastiveDivergence)
    _verify_one_law(lowered, method)
    job, carry = prepared(lowered, codes, weights, start, fixed, method, options.seed)
    _verify_rows(job, carry, np.flatnonzero(alive))
    carry = _run(job, carry, shows_progress(options.progress))
    last, restore = ravel_pytree(carry.free)
    late = method.steps - method.steps // 2
    free = restore(carry.places.sum(axis=0) / late if method.average else last)
    params = job.frame.constrain(free, start)
    begun = np.asarray(ravel_pytree(job.frame.unconstrain(start))[0])
    outcome, status = _judged(host, free, begun, carry, method)
    missing = _report(job.rows, reported(host, codes[:, alive]), codes[:, alive])
    return Climbed(outcome, params, status, missing, _objective(job.rows, host, params, float(weights.sum())))


def prepared(
    lowered: Lowered,
    codes: Array,
    weights: Array,
    start: dict[str, jax.Array],
    fixed: tuple[str, ...],
    method: PersistentContrastiveDivergence,
    seed: int,
) -> tuple[Climb, Carry]:
    """Return the constants of the steps and the first carry.

    Args:
        lowered: as in `climb`.
        codes: as in `climb`.
        weights: as in `climb`.
        start: as in `climb`.
        fixed: as in `climb`.
        method: the method with its options.
        seed: the seed of the fit.
    """
    host, alive = lowered.graph, weights > 0
    kernel = build_kernel(lowered, chosen_sampler(lowered, method.sampler)).kernel
    verify_chains(kernel, host.n_cells, int(method.chains), int(method.burn_in) + int(method.steps) * int(method.sweeps))
    verify_held(16.0 * int(method.steps), f"the traces of {method.steps:,} steps", "fewer `steps=` of the method")
    rows = rows_of(host, graph_arrays(host), codes[:, alive], weights[alive], method.batch_size, seed)
    key = jax.random.fold_in(random_key(seed), 0x9CD)
    keys = jax.vmap(lambda c: jax.random.fold_in(key, c))(jnp.arange(method.chains))
    total = jnp.asarray(weights.sum(), rows.weights.dtype)
    optimizer = ADAM if method.optimizer is None else method.optimizer
    job = Climb(rows, kernel, start, total, jax.random.fold_in(key, method.chains), keys, Frame(host, fixed), optimizer, method)
    return job, _begin(job, host, seed)


def chosen_sampler(lowered: Lowered, name: str | None) -> ir.Sampler:
    """Return the sampler that moves the chains.

    Raises:
        GmlmError: E506 for an unknown sampler, E704 for a sampler that never moves some cells.
    """
    model = lowered.names.model.name
    found = {n: s for n, s in lowered.bound.program.samplers.items() if s.model == model}
    if name not in found and (name is not None or len(found) != 1):
        help = f"`sampler=` one of {listed(list(found))}" if found else "declare one that moves every cell, `sampler s { .. }`"
        message = f"model `{model}` has {counted(len(found), 'sampler')}: say which" if name is None else f"there is no sampler `{name}`"
        raise fail("E506", message, help=help)
    sampler = found[name] if name is not None else next(iter(found.values()))
    if isinstance(sampler.body, tuple):
        verify_moves_all(lowered, sampler)
    return sampler


def rows_of(host: FactorGraph, device: Graph, codes: Array, weights: Array, size: int | None, seed: int) -> ClampedRows:
    """Return rows whose missing cells are summed out if every step can afford it, else redrawn.

    Args:
        host: the factor graph on the host.
        device: the factor graph on the device.
        codes: shape (cells, rows), -1 if a cell is missing.
        weights: the weights of the rows.
        size: the number of rows per step, None for all.
        seed: the seed of the first values of missing cells.
    """
    count = codes.shape[1]
    patterns, pattern = np.unique(codes < 0, axis=1, return_inverse=True)
    scaled = jnp.asarray(weights * (count / weights.sum()), jnp.zeros(()).dtype)
    whole = ClampedRows(device, jnp.asarray(np.maximum(codes, 0), jnp.int32), scaled, None, None, jnp.asarray(pattern.reshape(-1)), 1, size)
    if not patterns.any():
        return whole
    try:
        plan = plan_sum(host, np.any(patterns, axis=1), size or count, "what rows lack", "")
        return dataclasses.replace(whole, codes=jnp.asarray(codes, jnp.int32), gaps=contraction(host, plan))
    except GmlmError:
        pass  # the missing cells are redrawn instead
    blocks, values = missing_blocks(host, patterns)
    filled = first_values(host, codes, generator(seed))
    return dataclasses.replace(whole, codes=jnp.asarray(filled, jnp.int32), blocks=jnp.asarray(blocks), values=values)


def _report(rows: ClampedRows, report: Missing, codes: Array) -> Missing:
    """Return the report with the number of rows whose missing cells were summed out or redrawn."""
    count = int((codes < 0).any(axis=0).sum())
    return dataclasses.replace(report, imputed=count) if rows.blocks is not None else dataclasses.replace(report, summed=count)


def _begin(job: Climb, host: FactorGraph, seed: int) -> Carry:
    """Return the first carry: chains after burn-in, drawn completions, and sums at 0."""
    method, held = job.method, (np.arange(host.n_cells) >= host.n_random, np.zeros(host.n_cells, np.int32))
    begun = starts(host, method.chains, seed, None, held, job.held)
    first = job.kernel.init(jnp.asarray(begun.codes, jnp.int32))
    chains = _moved(job, job.held, first, jnp.asarray(0), jnp.asarray(method.burn_in))
    here, key = job.rows.codes, jax.random.fold_in(job.key, method.steps)
    if job.rows.blocks is not None:
        here = _redrawn(job.rows, job.held, here, jnp.arange(here.shape[1]), FIRST_SWEEPS, key)
    free = job.frame.unconstrain(job.held)
    flat = ravel_pytree(free)[0]
    sums = jnp.zeros((BATCHES, flat.size), flat.dtype)
    return Carry(free, job.optimizer.init(free), chains, here, sums, sums, jnp.zeros(method.steps, flat.dtype))


def _verify_one_law(lowered: Lowered, method: PersistentContrastiveDivergence) -> None:
    """Raise E704 if rows have given data of their own.

    The chains are never restarted and follow one distribution.

    Raises:
        GmlmError: E704.
    """
    if lowered.data is not None and lowered.data.shape:
        help = "pass `given=` without an axis of rows, where they have it in common; or fit under a mask without `method=`"
        raise fail("E704", f"the chains of {method.name} follow one distribution, and these rows have given data of their own", help=help)


def _verify_rows(job: Climb, carry: Carry, numbers: Array) -> None:
    """Raise E508 for a row that has no possible completion of its missing cells.

    Raises:
        GmlmError: E508.
    """
    bad = ~np.isfinite(log_rows(job.rows, job.held, carry.codes))
    if bad.any():
        message = f"row {int(numbers[int(np.argmax(bad))])} of x is impossible: no completion of what it lacks was found"
        raise fail("E508", message, help="the observed cells may break a `require`: mend or drop the row; or start elsewhere with `init=`")


def _run(job: Climb, carry: Carry, show: bool) -> Carry:
    steps = job.method.steps
    for first in tracked(range(0, steps, STEPS_PER_CALL), "fitting", show):
        carry = advance(job, carry, jnp.asarray(first), jnp.asarray(min(first + STEPS_PER_CALL, steps)))
    return carry


def _judged(
    host: FactorGraph, free: dict[str, jax.Array], begun: Array, carry: Carry, method: PersistentContrastiveDivergence
) -> tuple[Outcome, Status]:
    """Return the outcome and a status.

    The status states whether the estimate has settled; see `settled`.
    """
    size, late = sum(p.size for p in host.parameters), np.arange(method.steps - method.steps // 2)
    each, trace = np.bincount(late * BATCHES // len(late), minlength=BATCHES)[:, None], np.asarray(carry.trace)
    gradients, places = np.asarray(carry.gradients, float) / each, np.asarray(carry.places, float) / each
    nothing = np.zeros(size, np.int8), np.zeros(size, bool), np.zeros((0, size))
    if not all(np.isfinite(a).all() for a in (trace, gradients, places)) or any(not bool(jnp.isfinite(v).all()) for v in free.values()):
        finding = Finding("diverged", "The parameters are not numbers any more", "Lower the learning rate: `optimizer=optax.adam(0.001)`")
        return Outcome(free, trace, float("nan"), method.steps, "diverged"), Status("diverged", (finding,), *nothing)
    found = settled(gradients, places, begun)
    if found.stands_still:
        message = (
            f"The optimum is approximate, found by {method.name}: over the last {len(late)} of {method.steps} steps the mean "
            f"gradient is at most {found.largest:.2g} per row, with a Monte Carlo error of {found.noise:.2g}; it has no standard errors"
        )
        finding = Finding("stochastic", message, "More `chains` and `steps` bring it nearer; `fit.bootstrap()` gives errors")
    else:
        finding = Finding("not-converged", found.reached(method.steps), "Raise `steps` of the method, or the learning rate")
    reason, code = ("converged", "converged") if found.stands_still else ("steps", "not-converged")
    return Outcome(free, trace, found.largest, method.steps, reason), Status(code, (finding,), *nothing)


def _objective(rows: ClampedRows, host: FactorGraph, params: dict[str, jax.Array], total: float) -> float:
    """Return -sum over rows of w log p(x) - log prior.

    The value is nan if rows are redrawn or log Z costs too much.
    """
    if rows.blocks is not None:
        return float("nan")
    try:
        plan = None if host.is_normalised else plan_elimination(host)
    except GmlmError:
        return float("nan")
    log_z = 0.0
    if plan is not None:
        nothing = jnp.zeros((host.n_cells, 1), jnp.int32)
        log_z = float(log_sums(rows.graph, params, nothing, contraction(host, plan))[0])
    mean = float((np.asarray(rows.weights, float) * (log_rows(rows, params, rows.codes).astype(float) - log_z)).mean())
    return -total * mean - float(log_prior(host, params))
