"""Chains at fixed parameters: the gradient there with its Monte Carlo error, by groups of chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..derive import AbstractKernel, State, Target, bounded_jit, fold, log_potential
from ..evaluate import Frame, log_prior
from ._clamped_rows import ClampedRows
from ._settled import Settled, settled
from .limits import MOST_CHAIN_GROUPS, RETURNED_READINGS, SETTLING_PART

Array = np.ndarray
Free = dict[str, jax.Array]


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


@bounded_jit
def group_means(law: Law, free: Free, codes: jax.Array) -> jax.Array:
    """Return the mean statistics of groups of configurations, shape (groups, entries).

    Args:
        law: the distribution.
        free: the unconstrained parameters.
        codes: the configurations, shape (groups, cells, configurations of a group).
    """

    def mean(codes: jax.Array) -> jax.Array:
        codes = codes.astype(jnp.int32)
        return ravel_pytree(jax.grad(lambda z: log_potential(law.rows.graph, law.frame.constrain(z, law.held), codes).mean())(free))[0]

    return jax.lax.map(mean, codes)


def _in_groups(a: jax.Array, groups: int) -> jax.Array:
    """Return the last axis divided into interleaved groups, which become the first axis."""
    return jnp.moveaxis(a.reshape(*a.shape[:-1], -1, groups), -1, 0)


@bounded_jit
def row_statistics(
    rows: ClampedRows, frame: Frame, held: Mapping[str, jax.Array], free: Free, codes: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the mean statistics of groups of rows, shape (groups, entries), and their weights."""
    count = codes.shape[1]
    groups = min(MOST_CHAIN_GROUPS, count)
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


class Sweeps(NamedTuple):
    """The sweeps of `look`.

    Attributes:
        run: the number of the first run of the sampler's body.
        batches: the number of batches of sweeps, a multiple of 16; the chains are read after each.
        each: the number of sweeps of a batch, of `Law.sweeps` runs each.
    """

    run: int
    batches: int
    each: int


class Looked(NamedTuple):
    """The result of `look`.

    Attributes:
        found: the tests.
        chains: the chains.
        run: the number of the next run.
        codes: the configurations of the chains after some batches, shape (times, cells, chains).
    """

    found: Settled
    chains: State
    run: int
    codes: Array


def look(
    law: Law,
    free: Free,
    chains: State,
    codes: jax.Array,
    redrawn: Callable[[jax.Array, int], jax.Array] | None,
    sweeps: Sweeps,
    effective: float,
) -> Looked:
    """Run the chains at fixed parameters, and test whether the gradient vanishes there.

    Args:
        law: the distribution.
        free: the unconstrained parameters.
        chains: the chains.
        codes: the codes of the rows, completed if missing cells are redrawn.
        redrawn: a function that redraws missing cells of all rows, from their codes and the number
            of a batch; None if none are redrawn.
        sweeps: the sweeps.
        effective: the effective number of rows.
    """
    params, (run, batches, each) = law.frame.constrain(free, law.held), sweeps
    by_rows, weights = row_statistics(law.rows, law.frame, law.held, free, codes)
    small = np.int8 if int(np.asarray(law.rows.graph.sizes).max(initial=1)) <= 127 else np.int32
    snapshots, replicates = [], []
    for batch in range(-batches // SETTLING_PART, batches):
        chains = moved(law, params, chains, jnp.asarray(run), jnp.asarray(each * law.sweeps))
        run += each * law.sweeps
        if batch < 0:
            continue
        snapshots.append(np.asarray(chains.codes).astype(small))
        if redrawn is not None and batch % (batches // MOST_CHAIN_GROUPS) == 0:
            codes = redrawn(codes, batch)
            by_rows, weights = row_statistics(law.rows, law.frame, law.held, free, codes)
            replicates.append(np.average(np.asarray(by_rows), axis=0, weights=np.asarray(weights)))
    # Parts of the same size share a compiled program.
    seen = np.stack(snapshots)
    groups = min(MOST_CHAIN_GROUPS, seen.shape[2])
    parts = np.split(seen, 2 * batches // MOST_CHAIN_GROUPS)
    halves, variance = np.zeros((2, groups, by_rows.shape[1]), by_rows.dtype), np.zeros(by_rows.shape[1], by_rows.dtype)
    for k, part in enumerate(parts):
        means = np.asarray(group_means(law, free, jnp.asarray(_by_group(part, groups))))
        halves[2 * k // len(parts)] += means * (2 / len(parts))
        variance += means.var(axis=0, ddof=1) * (len(part) * (seen.shape[2] // groups) / len(parts))
    rows, share = np.asarray(by_rows), np.asarray(weights) / np.asarray(weights).sum()
    mean = share @ rows
    # Each group of chains has a batch of completions of its own, so that the groups stay independent.
    against = mean if redrawn is None else np.array([np.mean(part, axis=0) for part in np.array_split(replicates, groups)])
    apart = (halves[0] + halves[1]) / 2 - against - np.asarray(_prior_slope(law.frame, law.held, law.total, free))
    sampling = share**2 @ (rows - mean) ** 2 * (len(rows) / max(len(rows) - 1, 1))
    sampling = np.where(sampling > 0, sampling, variance / effective)
    return Looked(settled(apart, halves[1] - halves[0], sampling, variance), chains, run, seen[1 :: batches // RETURNED_READINGS])


def _by_group(seen: Array, groups: int) -> Array:
    """Return configurations by group of chains, shape (groups, cells, configurations of a group).

    Args:
        seen: shape (times, cells, chains). Chains beyond a multiple of `groups` are left out.
        groups: the number of groups, which are interleaved.
    """
    times, cells, chains = seen.shape
    each = chains // groups
    return seen[:, :, : each * groups].reshape(times, cells, each, groups).transpose(3, 1, 0, 2).reshape(groups, cells, -1)
