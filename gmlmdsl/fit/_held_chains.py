"""Chains at fixed parameters: the gradient there with its Monte Carlo error, by groups of chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..derive import AbstractKernel, State, Target, bounded_jit, fold, log_potential
from ..evaluate import Frame, log_prior
from ._clamped_rows import ClampedRows
from ._settled import Settled, settled

if TYPE_CHECKING:
    from ._two_point import TwoPoint

Array = np.ndarray
Free = dict[str, jax.Array]
GROUPS = 16  # maximum number of groups of chains, and of rows
BATCHES = 16  # number of batches of sweeps; each ends with a look at the two-point correlations
SETTLING = 4  # number of batches before the first one that counts


class Law(eqx.Module):
    """The distribution that the chains follow, and the rows.

    Attributes:
        rows: the rows.
        kernel: the kernel of the sampler.
        held: the fixed parameters.
        total: the sum of the rows' weights, relative to which the prior counts once.
        chain_keys: a key for each chain; keys are folded with the number of a run.
        frame: the parameters.
        sweeps: the number of runs of the sampler's body per step.
    """

    rows: ClampedRows
    kernel: AbstractKernel
    held: dict[str, jax.Array]
    total: jax.Array
    chain_keys: jax.Array
    frame: Frame = eqx.field(static=True)
    sweeps: int = eqx.field(static=True)

    def moved(self, params: Mapping[str, jax.Array], state: State, first: jax.Array, count: jax.Array) -> State:
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


moved = bounded_jit(Law.moved)


class Gathered(NamedTuple):
    """Sums over sweeps at fixed parameters.

    Attributes:
        chains: the chains.
        halves: the sums of the mean statistics of each group of chains, for the first and the
            second half of the sweeps, shape (2, groups, entries).
        variance: the sum of the variances of the statistics of a configuration, shape (entries,).
    """

    chains: State
    halves: jax.Array
    variance: jax.Array


@bounded_jit
def gathered(law: Law, free: Free, at: Gathered, first: jax.Array, count: jax.Array, half: jax.Array) -> Gathered:
    """Return the sums after `count` more sweeps.

    Args:
        law: the distribution.
        free: the unconstrained parameters.
        at: the sums before.
        first: the number of the first run of the sampler's body.
        count: the number of sweeps, of `law.sweeps` runs each.
        half: 0 or 1, the half of the sweeps.
    """
    params = law.frame.constrain(free, law.held)
    groups = at.halves.shape[1]

    def mean(codes: jax.Array) -> jax.Array:
        return ravel_pytree(jax.grad(lambda z: log_potential(law.rows.graph, law.frame.constrain(z, law.held), codes).mean())(free))[0]

    def sweep(s: jax.Array, at: Gathered) -> Gathered:
        chains = law.moved(params, at.chains, first + s * law.sweeps, jnp.asarray(law.sweeps))
        each = chains.codes.shape[1] // groups
        found = jax.lax.map(mean, _in_groups(chains.codes[:, : each * groups], groups))
        return Gathered(chains, at.halves.at[half].add(found), at.variance + each * found.var(axis=0, ddof=1))

    return jax.lax.fori_loop(0, count, sweep, at)


def _in_groups(a: jax.Array, groups: int) -> jax.Array:
    """Return the last axis divided into interleaved groups, which become the first axis."""
    return jnp.moveaxis(a.reshape(*a.shape[:-1], -1, groups), -1, 0)


@bounded_jit
def row_statistics(
    rows: ClampedRows, frame: Frame, held: Mapping[str, jax.Array], free: Free, codes: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the mean statistics of groups of rows, shape (groups, entries), and their weights."""
    count = codes.shape[1]
    groups = min(GROUPS, count)
    places = jnp.arange(count + -count % groups)
    chosen, weights = jnp.minimum(places, count - 1), jnp.where(places < count, rows.weights[jnp.minimum(places, count - 1)], 0.0)

    def mean(one: tuple[jax.Array, jax.Array]) -> jax.Array:
        codes, weights = one
        share = weights / jnp.maximum(weights.sum(), 1e-30)
        return ravel_pytree(jax.grad(lambda z: (share * rows.each(frame.constrain(z, held), codes)).sum())(free))[0]

    grouped = _in_groups(weights, groups)
    return jax.lax.map(mean, (_in_groups(codes[:, chosen], groups), grouped)), grouped.sum(axis=1)


@bounded_jit
def _prior_slope(frame: Frame, held: Mapping[str, jax.Array], total: jax.Array, free: Free) -> jax.Array:
    return ravel_pytree(jax.grad(lambda z: log_prior(frame.host, frame.constrain(z, held)) / total)(free))[0]


class Looked(NamedTuple):
    """The result of `look`: the tests, the chains, and the number of the next run."""

    found: Settled
    chains: State
    run: int


def look(
    law: Law,
    free: Free,
    chains: State,
    codes: jax.Array,
    redrawn: Callable[[jax.Array, int], jax.Array] | None,
    run: int,
    each: int,
    effective: float,
    two_point: TwoPoint | None,
) -> Looked:
    """Run the chains at fixed parameters, and test whether the gradient vanishes there.

    Args:
        law: the distribution.
        free: the unconstrained parameters.
        chains: the chains.
        codes: the codes of the rows, completed if missing cells are redrawn.
        redrawn: a function that redraws missing cells of all rows, from their codes and the number
            of a batch; None if none are redrawn.
        run: the number of the first run of the sampler's body.
        each: the number of sweeps of a batch.
        effective: the effective number of rows.
        two_point: the correlations to which the chains are added; or None.
    """
    size = ravel_pytree(free)[0]
    groups = min(GROUPS, law.chain_keys.shape[0])
    zero = jnp.zeros((2, groups, size.size), size.dtype)
    params = law.frame.constrain(free, law.held)
    settling = SETTLING * each * law.sweeps
    at = Gathered(moved(law, params, chains, jnp.asarray(run), jnp.asarray(settling)), zero, jnp.zeros_like(size))
    run += settling
    by_rows, weights = row_statistics(law.rows, law.frame, law.held, free, codes)
    replicates = []
    for batch in range(BATCHES):
        at = gathered(law, free, at, jnp.asarray(run), jnp.asarray(each), jnp.asarray(2 * batch // BATCHES))
        run += each * law.sweeps
        if two_point is not None:
            two_point.gather(np.asarray(at.chains.codes))
        if redrawn is not None:
            codes = redrawn(codes, batch)
            by_rows, weights = row_statistics(law.rows, law.frame, law.held, free, codes)
            replicates.append(np.average(np.asarray(by_rows, float), axis=0, weights=np.asarray(weights)))
    sweeps = BATCHES * each
    halves, rows, share = np.asarray(at.halves, float), np.asarray(by_rows, float), np.asarray(weights, float)
    share = share / share.sum()
    mean = share @ rows
    # Each group of chains has a batch of completions of its own, so that the groups stay independent.
    against = mean if redrawn is None else np.array([np.mean(part, axis=0) for part in np.array_split(replicates, groups)])
    apart = halves.sum(axis=0) / sweeps - against - np.asarray(_prior_slope(law.frame, law.held, law.total, free), float)
    variance = np.asarray(at.variance, float) / sweeps
    sampling = share**2 @ (rows - mean) ** 2 * (len(rows) / max(len(rows) - 1, 1))
    sampling = np.where(sampling > 0, sampling, variance / effective)
    return Looked(settled(apart, (halves[1] - halves[0]) / (sweeps / 2), sampling, variance), at.chains, run)
