"""Boltzmann learning by persistent contrastive divergence.

The likelihood is maximised along estimated gradients. The gradient is

    grad mean_r w_r log p(x_r) = mean_r w_r E[grad log p~(x, h) | x_r] - E[grad log p~(x, h)]

with p~ the unnormalised p. In the first mean, latents and missing cells are summed out if that is
affordable; otherwise one completion of each row is redrawn at every step. The second mean is over
chains that are never restarted. If the steps are small relative to the mixing of the chains,
completions and chains are near their stationary distributions, and the iterates settle around the
maximum. The mean of many iterates has less noise than any single one.

While the parameters move, the chains are drawn towards the rows: their statistics agree with those
of the rows better than the model does. Whether the maximum is reached, and how well the model
agrees, is therefore judged at fixed parameters; see `_held_chains.py`.

Reference: Younes 1989; Tieleman 2008; Polyak and Juditsky 1992; Decelle, Furtlehner and Seoane 2021
for chains that are not in equilibrium.

A step is a damped natural gradient, whose curvature is that of the chains. Let s be the derivative
of log p~ by the free parameters, the *statistics*. The curvature of log Z is their covariance C
over the chains, and the step solves

    (C + D) step = -gradient

by a few iterations of conjugate gradients. Each iteration takes two derivatives of log p~ of the
chains, which cost little beside a sweep; C is never stored. At the default start the cells of the
chains are independent, and C is the curvature of the independent-site model. D is diagonal. An
entry is

    DAMPING x (effective number of statistics / number of chains) x (range of its statistic)^2,

plus the curvature of the log prior. The effective number of statistics is the sum of their
variances in units of their squared ranges. So many statistics leave that much noise in each
eigenvalue of C, and smaller curvatures are not resolved. A statistic is compared with its own
range, so a step does not depend on the units of a parameter.

The mean in the gradient and C come from different halves of the chains, and the step is the mean
over both assignments. With the same chains for both, the errors of C and of the gradient are
correlated, and the mean step would not be 0 at the maximum.

The step is shortened by a rate that falls with the number of steps. It is also shortened so far
that the differences of log p~ between chains change by at most 1, in the root mean square. The
chains can then follow.

Reference: Amari 1998; Desjardins, Pascanu, Courville and Bengio 2013; Marchenko and Pastur 1967;
Polyak and Juditsky 1992 for the rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from .._diagnostics import GmlmError, counted, fail, listed
from .._progress import shows_progress, tracked
from ..data import random_key
from ..derive import AbstractKernel, State, bounded_jit, build_kernel, contraction, graph_arrays, log_potential, single_site_sweep
from ..evaluate import Frame, Missing, log_prior, log_sums, reported
from ..graph import FactorGraph, Lowered
from ..plan import plan_elimination, verify_held, verify_moves_all
from ..program import ir
from ..sample import starts, verify_chains
from ._clamped_rows import ClampedRows, log_rows, redrawn_rows, report, rows_of, sloped
from ._held_chains import Agreement, Law, Looked, Settled, Sweeps, TwoPoint, compared_cells, look, moved
from ._independent_start import independent_start
from ._long_fit import LongFit
from ._optimise import Outcome
from ._options import PersistentContrastiveDivergence
from ._status import Finding, Status
from .limits import (
    BURN_IN,
    CALIBRATION_CHAINS,
    CHOSEN_CHAINS,
    CONJUGATE_ITERATIONS,
    DAMPING,
    EXAMINATION_RATIO,
    FARTHEST_STEP,
    FEWEST_CHAINS,
    FEWEST_READINGS,
    FIRST_EXAMINATION,
    FIRST_RATE,
    FIRST_SWEEPS,
    LONGER_EXAMINATION,
    MOST_CHAIN_CELLS,
    MOST_CONTRASTIVE_STEPS,
    PUBLISHED_CORRELATION,
    RATE_POWER,
    READ_PER_EFFECTIVE_ROW,
    STEADY_STEPS,
    STEPS_PER_CALL,
    STEPS_PER_SWEEP,
    SWEEPS,
)

if TYPE_CHECKING:
    from ._options import FitOptions

Array = np.ndarray
Free = dict[str, jax.Array]


class Metric(eqx.Module):
    """The diagonal D without the prior's part, for unconstrained parameters."""

    diagonal: Free


@bounded_jit
def metric_of(law: Law, free: Free, codes: jax.Array) -> Metric:
    """Return the metric from the ranges and variances of the statistics over some chains.

    A statistic that does not vary over the chains has the largest range of its parameter.

    Args:
        law: the distribution of the chains.
        free: the unconstrained parameters.
        codes: all chains, shape (cells, chains).
    """
    few = codes[:, :CALIBRATION_CHAINS].T

    def statistics(code: jax.Array) -> Free:
        return jax.grad(lambda at: log_potential(law.rows.graph, law.frame.constrain(at, law.held), code[:, None])[0])(free)

    def add(sums: tuple[Free, Free, Free, Free], code: jax.Array) -> tuple[tuple[Free, Free, Free, Free], None]:
        mean, square, high, low = sums
        s = statistics(code)
        tree = jax.tree.map
        return (
            (
                tree(lambda a, b: a + b / len(few), mean, s),
                tree(lambda a, b: a + b * b / len(few), square, s),
                tree(jnp.maximum, high, s),
                tree(jnp.minimum, low, s),
            ),
            None,
        )

    zero, inf = jax.tree.map(jnp.zeros_like, free), jax.tree.map(lambda a: jnp.full_like(a, jnp.inf), free)
    (mean, square, high, low), _ = jax.lax.scan(add, (zero, zero, jax.tree.map(jnp.negative, inf), inf), few)

    def squared_range(mean: jax.Array, high: jax.Array, low: jax.Array) -> jax.Array:
        reach = jnp.maximum(high - mean, mean - low)
        reach = jnp.where(reach > 0, reach, reach.max(initial=0.0))
        return jnp.where(reach > 0, reach, 1.0) ** 2

    ranges = jax.tree.map(squared_range, mean, high, low)
    parts = jax.tree.map(lambda r, m, s: (jnp.maximum(s - m * m, 0.0) / r).sum(), ranges, mean, square)
    share = DAMPING * sum(jax.tree.leaves(parts), jnp.zeros(())) / codes.shape[1]
    return Metric(jax.tree.map(lambda r: share.astype(r.dtype) * r, ranges))


def scaled_step(metric: Metric, law: Law, free: Free, chains: jax.Array, gradient: Free, number: jax.Array) -> Free:
    """Return the step from `free`, see above.

    Args:
        metric: the metric.
        law: the distribution of the chains.
        free: the unconstrained parameters.
        chains: the codes of the chains, shape (cells, chains).
        gradient: the gradient of the objective per unit of row weight.
        number: the number of the step, from 0.
    """
    flat, restore = ravel_pytree(free)
    half = chains.shape[1] // 2

    def pull(at: jax.Array) -> jax.Array:
        return jax.grad(lambda z: -log_prior(law.frame.host, law.frame.constrain(restore(z), law.held)) / law.total)(at)

    def linear(codes: jax.Array) -> tuple[Callable[[jax.Array], jax.Array], Callable[[jax.Array], jax.Array]]:
        push = jax.linearize(lambda at: log_potential(law.rows.graph, law.frame.constrain(restore(at), law.held), codes), flat)[1]
        back = jax.linear_transpose(push, flat)
        return push, lambda s: back(s / s.size)[0]

    bend = jnp.maximum(jax.jvp(pull, (flat,), (jnp.ones_like(flat),))[1], 0.0)
    diagonal = ravel_pytree(metric.diagonal)[0] + bend
    halves = linear(chains[:, :half]), linear(chains[:, half : 2 * half])
    means = [back(jnp.ones(half, flat.dtype)) for _, back in halves]
    apart = (means[0] - means[1]) / 2
    direction = jnp.zeros_like(flat)
    # The mean of one half of the chains and the curvature of the other one are independent.
    for (push, back), own in zip(halves, (-apart, apart), strict=True):

        def curved(v: jax.Array, push: Callable[..., jax.Array] = push, back: Callable[..., jax.Array] = back) -> jax.Array:
            s = push(v)
            return back(s - s.mean()) + diagonal * v

        direction = direction + conjugate_gradients(curved, -ravel_pytree(gradient)[0] - own, diagonal) / 2
    moved = jnp.concatenate([push(direction) for push, _ in halves])
    change = jnp.sqrt(((moved - moved.mean()) ** 2).mean())
    rate = FIRST_RATE / (1 + number / STEADY_STEPS) ** RATE_POWER
    return restore(jnp.minimum(rate, FARTHEST_STEP / jnp.maximum(change, 1e-30)).astype(flat.dtype) * direction)


def conjugate_gradients(matrix: Callable[[jax.Array], jax.Array], target: jax.Array, diagonal: jax.Array) -> jax.Array:
    """Return x with matrix(x) near `target`, by some iterations from 0 in the metric `diagonal`."""

    def turn(_: Any, state: tuple[jax.Array, jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        x, rest, way, size = state
        image = matrix(way)
        along = size / jnp.maximum(way @ image, 1e-30)
        x, rest = x + along * way, rest - along * image
        turned = rest / diagonal
        after = rest @ turned
        return x, rest, turned + (after / jnp.maximum(size, 1e-30)) * way, after

    first = target / diagonal
    return jax.lax.fori_loop(0, CONJUGATE_ITERATIONS, turn, (jnp.zeros_like(target), target, first, target @ first))[0]


class Climb(eqx.Module):
    """The constants of a step, as opposed to its carry; keys are folded with the step's number."""

    law: Law
    key: jax.Array
    optimizer: optax.GradientTransformation | None = eqx.field(static=True)

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
        law = self.law

        def contrast(at: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
            params = law.frame.constrain(at, law.held)
            apart = log_potential(law.rows.graph, params, chains).mean() - law.rows.mean(params, codes, chosen)
            return apart - log_prior(law.frame.host, params) / law.total, apart

        (_, apart), gradient = jax.value_and_grad(contrast, has_aux=True)(free)
        return apart, gradient

    def step(self, free: dict[str, jax.Array], state: Any, gradient: dict[str, jax.Array], chains: jax.Array, t: jax.Array) -> Any:
        """Return the parameters after step `t`, and the state of the optimiser.

        Args:
            free: the unconstrained parameters.
            state: the state of the optimiser; the metric if the step is scaled by the chains.
            gradient: the estimated gradient.
            chains: the codes of the chains.
            t: the number of the step.
        """
        if self.optimizer is None:
            updates = scaled_step(state, self.law, free, chains, gradient, t)
        else:
            updates, state = self.optimizer.update(gradient, state, free)
        return optax.apply_updates(free, updates), state


class Carry(NamedTuple):
    """The state that one step passes to the next.

    `places` is the sum of the parameters over the steps that are averaged, and `trace` has the
    differences of log p~ of the steps of a call.
    """

    free: dict[str, jax.Array]
    optimizer: optax.OptState | Metric
    chains: State
    codes: jax.Array
    places: jax.Array
    trace: jax.Array


@bounded_jit
def advance(climb: Climb, carry: Carry, first: jax.Array, last: jax.Array, since: jax.Array, run: jax.Array) -> Carry:
    """Run steps `first` to `last` (half-open).

    Args:
        climb: the constants of the steps.
        carry: the state before the first step.
        first: the number of the first step.
        last: the number after that of the last step.
        since: the number of the first step that is averaged.
        run: the number of runs of the sampler's body before step `first`.
    """
    law = climb.law

    def step(t: jax.Array, at: Carry) -> Carry:
        key = jax.random.fold_in(climb.key, t)
        params = law.frame.constrain(at.free, law.held)
        chains = law.moved(params, at.chains, run + (t - first) * law.sweeps, jnp.asarray(law.sweeps))
        chosen = law.rows.choose(jax.random.fold_in(key, 0))
        here = law.rows.redrawn(params, at.codes, chosen, SWEEPS, jax.random.fold_in(key, 1))
        apart, gradient = climb.gradient(at.free, here, chosen, chains.codes)
        free, state = climb.step(at.free, at.optimizer, gradient, chains.codes, t)
        places = at.places + jnp.where(t < since, 0.0, 1.0).astype(at.places.dtype) * ravel_pytree(free)[0]
        codes = at.codes if law.rows.blocks is None else at.codes.at[:, chosen].set(here)
        return Carry(free, state, chains, codes, places, at.trace.at[t - first].set(apart))

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
    lowered: Lowered, codes: Array, weights: Array, start: dict[str, jax.Array], fixed: tuple[str, ...], options: FitOptions, saved: LongFit
) -> Climbed:
    """Maximise the likelihood times the prior by persistent contrastive divergence.

    Args:
        lowered: the model.
        codes: shape (cells, rows), -1 if a cell is missing.
        weights: the weights of the rows.
        start: the starting values of all parameters.
        fixed: the names of the parameters that are held at their start.
        options: the options of the fit, with those of the method.
        saved: the saved states of the fit.

    Raises:
        GmlmError: E506 or E704 for a sampler or given data that do not fit, E508 for a row without
            a possible completion.
    """
    host, alive = lowered.graph, weights > 0
    _verify_one_law(lowered, options.method)
    method = resolved(lowered, start, fixed, options)
    start = independent_start(host, codes[:, alive], weights[alive], start, frozenset(fixed) | frozenset(options.init or {}))
    job, carry = prepared(lowered, codes, weights, start, fixed, method, options.seed)
    _verify_rows(job, carry, np.flatnonzero(alive))
    two_point = None
    if len(compared_cells(host, np.random.default_rng(0))) > 1 and codes[:, alive].shape[1] > 3:
        two_point = TwoPoint(host, codes[:, alive], weights[alive], options.seed)
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    ended = _run(job, carry, method, options.method.steps is None, effective, two_point, shows_progress(options.progress), saved)
    params = job.law.frame.constrain(ended.free, start)
    outcome, status = chain_status(host, ended.free, ended.trace, ended.found, ended.agreement, ended.agrees, effective, method.name)
    missing = report(job.law.rows, reported(host, codes[:, alive]), codes[:, alive])
    return Climbed(outcome, params, status, missing, _objective(job.law.rows, host, params, float(weights.sum())))


def resolved(lowered: Lowered, start: dict[str, jax.Array], fixed: tuple[str, ...], options: FitOptions) -> PersistentContrastiveDivergence:
    """Return the method with the options that the fit chooses."""
    method, host = options.method, lowered.graph
    free = sum(p.size for p in host.parameters if p.name not in fixed)
    chains = method.chains
    if chains is None:
        few = FEWEST_CHAINS * math.ceil(min(max(math.sqrt(free), CHOSEN_CHAINS[0]), CHOSEN_CHAINS[1]) / FEWEST_CHAINS)
        chains = max(FEWEST_CHAINS, min(few, MOST_CHAIN_CELLS // max(host.n_cells, 1)))
    burn_in = BURN_IN[bool(options.init)] if method.burn_in is None else method.burn_in
    return replace(method, chains=chains, burn_in=burn_in, steps=MOST_CONTRASTIVE_STEPS if method.steps is None else method.steps)


def prepared(
    lowered: Lowered,
    codes: Array,
    weights: Array,
    start: dict[str, jax.Array],
    fixed: tuple[str, ...],
    method: PersistentContrastiveDivergence,
    seed: int,
) -> tuple[Climb, Carry]:
    """Return the constants of all steps, and the state before the first step.

    Args:
        lowered: as in `climb`.
        codes: as in `climb`.
        weights: as in `climb`.
        start: as in `climb`.
        fixed: as in `climb`.
        method: the method, whose numbers are all chosen.
        seed: the seed of the fit.
    """
    host, alive = lowered.graph, weights > 0
    chains, steps, burn_in = int(method.chains or 0), int(method.steps or 0), int(method.burn_in or 0)
    kernel = chosen_kernel(lowered, method.sampler)
    verify_chains(kernel, host.n_cells, chains, burn_in + steps * int(method.sweeps))
    verify_held(16.0 * steps, f"the traces of {steps:,} steps", "fewer `steps=` of the method")
    rows = rows_of(host, graph_arrays(host), codes[:, alive], weights[alive], method.batch_size, seed)
    key = jax.random.fold_in(random_key(seed), 0x9CD)
    keys = _folded(key, np.arange(chains, dtype=np.int32))
    total = jnp.asarray(weights.sum(), rows.weights.dtype)
    law = Law(sloped(host, rows, start), kernel, start, total, keys, Frame(host, fixed), method.sweeps)
    job = Climb(law, jax.random.fold_in(key, chains), method.optimizer)
    return job, _begin(job, host, seed, chains, burn_in, steps)


@bounded_jit
def _folded(key: jax.Array, numbers: Array) -> jax.Array:
    """Return the key of each number."""
    return jax.vmap(lambda c: jax.random.fold_in(key, c))(numbers)


def chosen_kernel(lowered: Lowered, name: str | None) -> AbstractKernel:
    """Return the kernel of the sampler that moves the chains.

    A model without a sampler has a sweep over its cells.

    Raises:
        GmlmError: E506 for an unknown sampler, E704 for a sampler that never moves some cells.
    """
    model = lowered.names.model.name
    found: dict[str, ir.Sampler] = {n: s for n, s in lowered.bound.program.samplers.items() if s.model == model}
    if name is None and not found:
        return single_site_sweep(lowered.graph)
    if name not in found and (name is not None or len(found) != 1):
        help = f"`sampler=` one of {listed(list(found))}" if found else "declare one that moves every cell, `sampler s { .. }`"
        message = f"model `{model}` has {counted(len(found), 'sampler')}: say which" if name is None else f"there is no sampler `{name}`"
        raise fail("E506", message, help=help)
    sampler = found[name] if name is not None else next(iter(found.values()))
    if isinstance(sampler.body, tuple):
        verify_moves_all(lowered, sampler)
    return build_kernel(lowered, sampler).kernel


def _begin(job: Climb, host: FactorGraph, seed: int, chains: int, burn_in: int, steps: int) -> Carry:
    """Return the first carry: chains after burn-in, drawn completions, and sums at 0."""
    law, held = job.law, (np.arange(host.n_cells) >= host.n_random, np.zeros(host.n_cells, np.int32))
    begun = starts(host, chains, seed, None, held, law.held)
    first = law.kernel.init(jnp.asarray(begun.codes, jnp.int32))
    state = moved(law, law.held, first, jnp.asarray(0), jnp.asarray(burn_in))
    here, key = law.rows.codes, jax.random.fold_in(job.key, steps)
    if law.rows.blocks is not None:
        here = redrawn_rows(law.rows, law.held, here, jnp.arange(here.shape[1]), FIRST_SWEEPS, key)
    free = law.frame.unconstrain(law.held)
    size = ravel_pytree(free)[0]
    scale = metric_of(law, free, state.codes) if job.optimizer is None else job.optimizer.init(free)
    return Carry(free, scale, state, here, jnp.zeros_like(size), jnp.zeros(STEPS_PER_CALL, size.dtype))


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
    bad = ~np.isfinite(log_rows(job.law.rows, job.law.held, carry.codes))
    if bad.any():
        message = f"row {int(numbers[int(np.argmax(bad))])} of x is impossible: no completion of what it lacks was found"
        raise fail("E508", message, help="the observed cells may break a `require`: mend or drop the row; or start elsewhere with `init=`")


@dataclass(frozen=True)
class Ended:
    """The end of the steps: the estimate, and what the chains there showed."""

    free: dict[str, jax.Array]
    trace: Array
    found: Settled
    agreement: Agreement | None
    agrees: bool


def _run(
    job: Climb,
    carry: Carry,
    method: PersistentContrastiveDivergence,
    stops: bool,
    effective: float,
    two_point: TwoPoint | None,
    show: bool,
    saved: LongFit,
) -> Ended:
    """Run the steps, and examine the estimate at some numbers of steps.

    Args:
        job: the constants of the steps.
        carry: the first carry.
        method: the method, whose numbers are all chosen.
        stops: whether the steps end as soon as an examination says so.
        effective: the effective number of rows.
        two_point: the correlations of the rows, if they have any.
        show: whether a progress bar is shown.
        saved: the saved states of the fit.
    """
    steps, run, trace = int(method.steps or 0), int(method.burn_in or 0), []
    restore, size = ravel_pytree(carry.free)[1], carry.places.size
    checks = _checks(steps) if stops else (steps,)
    since = FIRST_EXAMINATION // 2 if stops else steps // 2
    ended, begun, blank = None, 0, carry
    found = saved.begun(lambda step: (blank, np.zeros(step, carry.trace.dtype), run, since))
    if found is not None:
        begun, (carry, before, run, since) = found
        trace.append(before)
    for first in tracked(range(begun, steps, STEPS_PER_CALL), "fitting", show):
        last = min(first + STEPS_PER_CALL, steps)
        carry = advance(job, carry, jnp.asarray(first), jnp.asarray(last), jnp.asarray(since), jnp.asarray(run))
        run += (last - first) * job.law.sweeps
        trace.append(np.asarray(carry.trace)[: last - first])
        if last not in checks:
            here = carry, run, since
            saved.reached(last, lambda at=here: (at[0], np.concatenate(trace), *at[1:]))
            continue
        free = restore(carry.places / (last - since)) if method.average else carry.free
        carry, looked, agreement = _examined(job, carry, free, last, run, effective, two_point)
        run, since = looked.run, last
        carry = carry._replace(places=jnp.zeros_like(carry.places))
        enough = stops and agrees(agreement, size, effective)
        ended = Ended(free, np.concatenate(trace), looked.found, agreement, enough)
        if stops and (looked.found.stands_still or enough or not np.isfinite(looked.found.largest)):
            break
    assert ended is not None
    return ended


def agrees(agreement: Agreement | None, size: int, effective: float) -> bool:
    """Return whether two-point correlations agree so well that steps towards the maximum may end.

    Args:
        agreement: the agreement; None without pairs of cells.
        size: the number of free parameters.
        effective: the effective number of rows. With at least as many rows as parameters, the
            steps go on to the maximum.
    """
    return agreement is not None and size > effective and agreement.pearson >= max(PUBLISHED_CORRELATION, agreement.ceiling)


def _checks(steps: int) -> set[int]:
    """Return the numbers of steps at which a fit is examined, multiples of the steps of a call."""
    found, at = {steps}, float(FIRST_EXAMINATION)
    while at < steps:
        found.add(STEPS_PER_CALL * round(at / STEPS_PER_CALL))
        at *= EXAMINATION_RATIO
    return found


def _examined(
    job: Climb, carry: Carry, free: dict[str, jax.Array], steps: int, run: int, effective: float, two_point: TwoPoint | None
) -> tuple[Carry, Looked, Agreement | None]:
    """Run the chains at an estimate, longer if their noise hides the gradient."""
    law, key = job.law, jax.random.fold_in(jax.random.fold_in(job.key, steps), 2)
    params = law.frame.constrain(free, law.held)

    def redrawn(codes: jax.Array, batch: int) -> jax.Array:
        return redrawn_rows(law.rows, params, codes, jnp.arange(codes.shape[1]), SWEEPS, jax.random.fold_in(key, batch))

    asked = None if law.rows.blocks is None else redrawn
    few = carry.places.size > effective  # so many parameters that the steps end before the maximum
    wanted = 1 if few else math.ceil(READ_PER_EFFECTIVE_ROW * effective / (FEWEST_READINGS * law.chain_keys.shape[0]))
    times = FEWEST_READINGS * max(1, min(wanted, steps // (LONGER_EXAMINATION * FEWEST_READINGS)))
    for batches in (times, LONGER_EXAMINATION * times):
        each = max(1, steps // (STEPS_PER_SWEEP * batches))
        looked = look(law, free, carry.chains, carry.codes, asked, Sweeps(run, batches, each), effective)
        carry, run = carry._replace(chains=looked.chains), looked.run
        agreement = None if two_point is None else two_point.agreement(looked.codes)
        found = looked.found
        if not found.is_hidden or found.moving or found.drifting:
            break
    return carry, looked, agreement


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


def chain_status(
    host: FactorGraph,
    free: dict[str, Any],
    trace: Array,
    found: Settled,
    agreement: Agreement | None,
    agrees: bool,
    effective: float,
    name: str,
) -> tuple[Outcome, Status]:
    """Return the outcome and the status of a fit by chains.

    Args:
        host: the factor graph.
        free: the unconstrained estimate.
        trace: the differences of log p~ of chains and rows, step by step.
        found: the tests of the gradient at the estimate.
        agreement: the agreement of two-point correlations at the estimate; None without pairs.
        agrees: whether the fit stopped because that agreement is enough.
        effective: the effective number of rows.
        name: the name of the method.
    """
    size, steps = sum(p.size for p in host.parameters), len(trace)
    nothing = np.zeros(size, np.int8), np.zeros(size, bool), np.zeros((0, size))
    finite = np.isfinite(trace).all() and np.isfinite(found.largest) and all(np.isfinite(np.asarray(v)).all() for v in free.values())
    if not finite:
        finding = Finding("diverged", "The parameters are not numbers any more", "Lower the learning rate: `optimizer=optax.adam(0.001)`")
        return Outcome(free, trace, float("nan"), steps, "diverged"), Status("diverged", (finding,), *nothing)
    beside = "" if agreement is None else f"; {agreement.words}"
    if found.stands_still:
        message = f"The optimum is approximate, found by {name}: {found.words}{beside}. It has no standard errors"
        finding = Finding("stochastic", message, "More `chains` and `steps` bring it nearer; `fit.bootstrap()` gives errors")
        code, reason = "converged", "converged"
    elif agrees:
        count = sum(int(np.size(v)) for v in free.values())
        above = agreement is not None and agreement.pearson > agreement.ceiling
        beyond = "; what agrees beyond the halves may be noise already" if above else ""
        message = (
            f"The fit stopped after {steps} steps because its two-point correlations agree with those of the rows{beside}. "
            f"The likelihood still rises: {found.words}. There are {count:,} free parameters and {effective:,.0f} effective rows, "
            f"so the maximum would fit the noise of the rows{beyond}"
        )
        finding = Finding("agrees", message, "`steps=` of the method goes on towards the maximum; a narrow prior has one that is reached")
        code, reason = "agrees", "steps"
    else:
        message, remedy = found.reached(steps)
        code, reason = "not-converged", "steps"
        finding = Finding("hidden" if remedy.startswith("Raise `chains`") else "not-converged", f"{message}{beside}", remedy)
    return Outcome(free, trace, found.largest, steps, reason), Status(code, (finding,), *nothing)
