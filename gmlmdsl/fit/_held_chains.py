"""Chains at fixed parameters: the gradient there with its Monte Carlo error, by groups of chains.

The gradient at an estimate is tested for 0 by groups of chains that run there. The parameters are
held at the estimate, and the chains go on. Groups of chains are independent, so the spread of their
mean gradients is the Monte Carlo error, however slowly the chains mix. The *sampling error* is the
standard deviation of the mean gradient over data sets of the same size, computed from groups of
rows. Divided by the curvature, it becomes the standard error of the estimate: a gradient of a tenth
of it moves the estimate by a tenth of a standard error.

The estimate has settled if three conditions hold:

- The mean gradient is 0 within its Monte Carlo error, for each entry and for all entries together,
  or small relative to the sampling error. The joint test is needed because each of many entries
  may be lost in its noise although all have a common direction.
- The Monte Carlo error is small relative to the sampling error. Otherwise the noise hides a
  gradient that matters.
- The chains do not drift: their means over the first half of the sweeps and over the second half do
  not differ.

The joint tests exchange signs. If the mean over groups is 0, the mean of a group is as likely as
its negative. The length of the sum over groups, with each entry in units of its own size, then has
the distribution of the length of the same sum under random signs.

Two-point correlations of the rows are compared with those of the chains. The connected correlation
of the values a and b of two cells is f(a, b) - f(a) f(b), with f the relative frequencies. It is
compared for all pairs of cells and all values.

A model that is the truth agrees with the rows only as far as the rows' own noise allows. The
Pearson correlation between two random halves of the rows measures that noise: the *ceiling*.

Reference: Figliuzzi, Barrat-Charlaix and Weigt 2018; Muntoni et al. 2021; Rosset et al. 2025.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its modules load at first use
from jax.flatten_util import ravel_pytree

from ..data import generator
from ..derive import AbstractKernel, State, Target, bounded_jit, fold, log_potential
from ..evaluate import Frame, log_prior
from ..graph import FactorGraph
from ._clamped_rows import ClampedRows
from .limits import (
    FEW_GROUPS,
    HALF_SPLITS,
    HIDING_NOISE,
    JACKKNIFE_GROUPS,
    MOST_CHAIN_GROUPS,
    MOST_COMPARED_VALUES,
    RETURNED_READINGS,
    ROWS_AT_ONCE,
    SETTLED_LEVEL,
    SETTLING_PART,
    SMALL_GRADIENT,
)

Array = np.ndarray
Free = dict[str, jax.Array]


@dataclass(frozen=True)
class Agreement:
    """The agreement between the two-point correlations of chains and of rows.

    Attributes:
        pearson: the Pearson correlation over all pairs of cells and values. The noise of the chains
            would lower it, and is subtracted from their variance.
        error: its Monte Carlo error, by leaving out groups of chains.
        slope: the regression slope of the chains' correlations on those of the rows.
        ceiling: the mean Pearson correlation between halves of the rows.
    """

    pearson: float
    error: float
    slope: float
    ceiling: float

    @property
    def words(self) -> str:
        """The agreement in words."""
        ceiling = f"two halves of the rows agree to {self.ceiling:.3f}"
        if not np.isfinite(self.pearson):
            return f"the two-point correlations of the chains do not exceed their noise, and {ceiling}"
        found = f"{self.pearson:.3f} (Monte Carlo error {self.error:.1g})"
        return f"the Pearson correlation of the two-point correlations with those of the rows is {found}, and {ceiling}"


class TwoPoint:
    """The two-point correlations of the rows, to which chains are compared.

    Args:
        host: the factor graph.
        codes: shape (cells, rows), -1 if a cell is missing.
        weights: the weights of the rows.
        seed: the seed of the chosen cells and of the halves.
    """

    def __init__(self, host: FactorGraph, codes: Array, weights: Array, seed: int) -> None:
        rng = generator(seed)
        self.cells = compared_cells(host, rng)
        self.sizes = host.sizes[self.cells]
        self.rows = self.connected(self.counts(codes, weights))
        halves = []
        for _ in range(HALF_SPLITS):
            order = rng.permutation(codes.shape[1])
            both = (order[: len(order) // 2], order[len(order) // 2 :])
            halves.append(pearson(*(self.connected(self.counts(codes[:, half], weights[half])) for half in both)))
        self.ceiling = float(np.mean(halves))

    @property
    def width(self) -> int:
        """The maximum number of values of a compared cell."""
        return int(self.sizes.max())

    def counts(self, codes: Array, weights: Array | None = None) -> Array:
        """Return how often values of two cells occur together.

        Args:
            codes: shape (cells, rows), -1 if a cell is missing.
            weights: the weights of the rows, 1 if None.

        Returns:
            Array of shape (cells x values, cells x values).
        """
        side, total = len(self.cells) * self.width, 0.0
        places = np.arange(len(self.cells))[:, None] * self.width
        for first in range(0, codes.shape[1], ROWS_AT_ONCE):
            here = codes[self.cells, first : first + ROWS_AT_ONCE]
            indicators = np.zeros((here.shape[1], side), np.float32)
            cell, row = np.nonzero(here >= 0)
            indicators[row, (here + places)[cell, row]] = 1
            scaled = indicators if weights is None else indicators * weights[first : first + ROWS_AT_ONCE, None].astype(np.float32)
            total = total + scaled.T @ indicators
        return np.zeros((side, side), np.float32) + total

    def connected(self, counts: Array) -> Array:
        """Return the connected correlations as a vector; nan for a pair that never occurs."""
        n, q = len(self.cells), self.width
        first, second = np.triu_indices(n, 1)
        joint = counts.reshape(n, q, n, q)[first, :, second, :].astype(float)
        with np.errstate(invalid="ignore", divide="ignore"):
            joint = joint / joint.sum(axis=(1, 2), keepdims=True)
        found = joint - joint.sum(axis=2, keepdims=True) * joint.sum(axis=1, keepdims=True)
        inside = np.arange(q) < self.sizes[:, None]
        return found[inside[first][:, :, None] & inside[second][:, None, :]]

    def agreement(self, codes: Array) -> Agreement:
        """Return the agreement of some chains, shape (times, cells, chains)."""
        count = min(JACKKNIFE_GROUPS, codes.shape[2])
        groups = [self.counts(np.concatenate(list(codes[:, :, k::count]), axis=1)) for k in range(count)]
        total = np.sum(groups, axis=0)
        chains = self.connected(total)
        left_out = np.array([self.connected(total - group) for group in groups])
        noise = np.zeros_like(chains) if count < 2 else (count - 1) * left_out.var(axis=0)
        found = pearson(chains, self.rows, noise)
        each = np.array([pearson(one, self.rows, noise) for one in left_out])
        known = np.isfinite(chains) & np.isfinite(self.rows)
        spread = self.rows[known].var()
        slope = np.cov(chains[known], self.rows[known], ddof=0)[0, 1] / spread if spread > 0 else np.nan
        return Agreement(min(found, 1.0), float(np.sqrt((count - 1) * each.var())), float(slope), self.ceiling)


def compared_cells(host: FactorGraph, rng: np.random.Generator) -> Array:
    """Return the observed cells whose correlations are compared: all, or random ones of many."""
    cells = np.flatnonzero(host.is_observed & (host.sizes > 1))
    most = max(2, MOST_COMPARED_VALUES // int(host.sizes[cells].max(initial=1)))
    return cells if len(cells) <= most else np.sort(rng.choice(cells, most, replace=False))


def pearson(a: Array, b: Array, noise: Array | None = None) -> float:
    """Return the Pearson correlation of the entries that both have; nan if one does not vary.

    Args:
        a: numbers.
        b: numbers.
        noise: the variances of the errors of `a`, whose mean is subtracted from the variance of `a`
            so that they do not lower the correlation; none if None.
    """
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    if len(a) < 2:
        return float("nan")
    own = a.var() - (0.0 if noise is None else noise[known].mean())
    scale = own * b.var()
    return float(((a - a.mean()) * (b - b.mean())).mean() / np.sqrt(scale)) if scale > 0 else float("nan")


@dataclass(frozen=True)
class Settled:
    """The result of the tests.

    Attributes:
        largest: the largest entry of the mean gradient, per row.
        noise: the largest Monte Carlo error of an entry.
        share: the Monte Carlo error relative to the sampling error, in the root mean square.
        moving: the size of the mean gradient relative to the sampling error, in the root mean
            square and without the part that is noise, if a test shows it; 0 otherwise.
        drifting: the same of the difference between the halves of the sweeps.
    """

    largest: float
    noise: float
    share: float
    moving: float
    drifting: float

    @property
    def is_hidden(self) -> bool:
        """Whether Monte Carlo noise hides a gradient that matters."""
        return not self.share <= HIDING_NOISE

    @property
    def stands_still(self) -> bool:
        """Whether the gradient vanishes, and is known well enough to say so."""
        return not (self.moving or self.drifting or self.is_hidden)

    @property
    def words(self) -> str:
        """The gradient beside its errors."""
        share = f"{self.share:.2g} of the sampling error of the rows"
        head = f"the mean gradient at the estimate is at most {self.largest:.2g} per row"
        return f"{head}, with a Monte Carlo error of {self.noise:.2g} ({share})"

    def reached(self, steps: int) -> tuple[str, str]:
        """Return a message on the test that failed after `steps` steps, and a remedy."""
        if self.moving:
            head = f"The estimate still moves after {steps} steps: its gradient is {self.moving:.2g} of the sampling error of the rows"
            return f"{head}; {self.words}", "Raise `steps` of the method"
        if self.drifting:
            head = f"The chains have not settled after {steps} steps: at fixed parameters their means drift by {self.drifting:.2g}"
            return f"{head} of the sampling error of the rows; {self.words}", "Raise `sweeps` of the method, or take a sampler that mixes"
        head = f"Monte Carlo noise hides the gradient after {steps} steps: {self.words}"
        return f"{head}, and {HIDING_NOISE:.2g} is the most that decides", "Raise `chains` or `steps` of the method"


def settled(groups: Array, drift: Array, sampling: Array, variance: Array) -> Settled:
    """Test the mean gradients of groups of chains at fixed parameters.

    Args:
        groups: the mean gradients of the groups, shape (groups, entries).
        drift: the difference between the halves of the sweeps, in the same shape.
        sampling: the variance of the mean gradient over data sets, shape (entries,).
        variance: the variance of the statistics under the model, shape (entries,), up to the
            autocorrelation of the chains. It makes entries comparable; entries without one are
            compared as they are.
    """
    count, size = groups.shape
    scale = np.where(variance > 0, variance, 1.0)
    mean, error = groups.mean(axis=0), groups.std(axis=0, ddof=1) / np.sqrt(count)
    known = float((sampling / scale).sum())
    share = float(np.sqrt((error**2 / scale).sum() / known)) if known > 0 else float(error.any())
    bound = -scipy.special.stdtrit(count - 1, SETTLED_LEVEL / (2 * max(size, 1)))
    largest, noise = float(np.abs(mean).max(initial=0.0)), float(error.max(initial=0.0))
    part = _size(groups, scale, known)
    own = np.abs(mean) / np.sqrt(np.where(sampling > 0, sampling, np.inf))
    # Few groups that agree by chance have no error.
    told = (np.abs(mean) > bound * error) & (own > SMALL_GRADIENT) & ((error > 0) | (count > FEW_GROUPS))
    alone = own[told].max(initial=0.0) if known > 0 else 0.0
    moving = part if part > SMALL_GRADIENT and _pushes(groups) else float(alone)
    moved = _size(drift, scale, known)
    return Settled(largest, noise, share, moving, moved if moved > SMALL_GRADIENT and _pushes(drift) else 0.0)


def _size(groups: Array, scale: Array, known: float) -> float:
    """Return the length of the mean over groups without the part that noise explains.

    It is in units of the sampling error, whose squared length is `known`.
    """
    mean, error = groups.mean(axis=0), groups.var(axis=0, ddof=1) / len(groups)
    length = float(((mean**2 - error) / scale).sum())
    return float(np.sqrt(max(length, 0.0) / known)) if known > 0 else 0.0


def _pushes(groups: Array) -> bool:
    """Return whether the sum over groups is longer than under nearly all signs.

    Each entry is in units of its size, which no sign changes.
    """
    size = np.sqrt((groups**2).mean(axis=0))
    scaled, signs = groups / np.where(size > 0, size, 1.0), _signs(len(groups))
    lengths = ((signs @ (scaled @ scaled.T)) * signs).sum(axis=1)
    return bool((lengths >= lengths[0] * (1 - 1e-12)).mean() < SETTLED_LEVEL)


@cache
def _signs(count: int) -> Array:
    """Return all sign vectors for `count` groups whose first sign is +, starting with all +.

    The shape is (2^(count - 1), count).
    """
    return np.array([(1, *rest) for rest in itertools.product((1, -1), repeat=count - 1)], float)


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
