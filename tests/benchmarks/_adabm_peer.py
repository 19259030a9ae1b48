"""The update of adabmDCA in plain JAX: Gibbs sweeps of persistent chains, and a step along the difference of frequencies.

Written from the papers, not copied: frequencies with a pseudocount of one over the effective number of sequences, fields that start at
logarithms of frequencies and couplings at 0, and the end where the chains' connected correlations reach a Pearson correlation with those
of the sequences.

Reference: Muntoni et al. 2021; Rosset et al. 2025 (adabmDCA 2.0), whose defaults are a learning rate of 0.01, 10 000 chains and 10 sweeps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = np.ndarray
TARGET = 0.95
KEPT = 0.9  # share of the running means of frequencies that an epoch keeps


@dataclass(frozen=True)
class Rates:
    """The options of the update."""

    learning_rate: float = 0.01
    chains: int = 10_000
    sweeps: int = 10

    @property
    def words(self) -> str:
        """They, in words."""
        return f"learning rate {self.learning_rate:g}, {self.chains:,} chains, {self.sweeps} sweeps"


@dataclass(frozen=True)
class Boltzmann:
    """Fields (sites, values) and couplings (sites, values, sites, values), symmetric and 0 within a site; how far the update came."""

    h: Array
    J: Array
    pearson: float
    epochs: int
    seconds: float


def frequencies(x: Array, weights: Array, values: int, pseudocount: float) -> tuple[Array, Array]:
    """Frequencies of one and of two sites, (sites x values) and its square, with a pseudocount."""
    n = x.shape[1]
    hot = np.eye(values, dtype=np.float32)[x].reshape(len(x), -1)
    share = (weights / weights.sum()).astype(np.float32)
    one, two = share @ hot, (hot * share[:, None]).T @ hot
    one = (1 - pseudocount) * one + pseudocount / values
    two = (1 - pseudocount) * two + pseudocount / values**2
    within = np.kron(np.eye(n, dtype=bool), np.ones((values, values), bool))
    return one, np.where(within, np.diag(one), two)


@partial(jax.jit, static_argnames=("n", "sweeps"))
def swept(key: Any, h: Any, j: Any, hot: Any, n: int, sweeps: int) -> Any:
    """Chains after some Gibbs sweeps, site after site; `hot` has their indicators, (chains, sites x values)."""
    values = h.shape[0] // n

    def one(k: Any, hot: Any) -> Any:
        i = k % n
        logits = jax.lax.dynamic_slice_in_dim(h, i * values, values) + hot @ jax.lax.dynamic_slice_in_dim(j, i * values, values, axis=1)
        p = jnp.cumsum(jax.nn.softmax(logits, axis=1), axis=1)
        u = jax.random.uniform(jax.random.fold_in(key, k), (hot.shape[0], 1))
        code = jnp.minimum((p < u).sum(axis=1), values - 1)
        return jax.lax.dynamic_update_slice_in_dim(hot, jax.nn.one_hot(code, values, dtype=hot.dtype), i * values, axis=1)

    return jax.lax.fori_loop(0, n * sweeps, one, hot)


@partial(jax.jit, static_argnames=("n", "sweeps"))
def _epoch(key: Any, h: Any, j: Any, hot: Any, seen: Any, one: Any, two: Any, rate: Any, n: int, sweeps: int) -> Any:
    """The chains, the parameters after a step, and the Pearson correlation of the connected correlations.

    `seen` has running means of the frequencies of about ten epochs, so that few chains do not hide how well they agree.
    """
    hot = swept(key, h, j, hot, n, sweeps)
    mean, both = hot.mean(axis=0), hot.T @ hot / hot.shape[0]
    values = h.shape[0] // n
    between = jnp.kron(1 - jnp.eye(n), jnp.ones((values, values)))
    seen = tuple(KEPT * a + (1 - KEPT) * b for a, b in zip(seen, (mean, both), strict=True))
    found = correlation(seen[1] - seen[0][:, None] * seen[0], two - one[:, None] * one, between)
    return hot, h + rate * (one - mean), j + rate * between * (two - both), seen, found


def correlation(a: Any, b: Any, between: Any) -> Any:
    """The Pearson correlation of two matrices over pairs of different sites."""
    count = between.sum()
    a, b = a - (a * between).sum() / count, b - (b * between).sum() / count
    return (a * b * between).sum() / jnp.sqrt((a * a * between).sum() * (b * b * between).sum())


def fitted(x: Array, weights: Array, values: int, rates: Rates, most_seconds: float, seed: int = 0) -> Boltzmann:
    """Steps until the chains agree, or the time is over."""
    began, n = time.process_time(), x.shape[1]
    one, two = (jnp.asarray(f, jnp.float32) for f in frequencies(x, weights, values, 1 / weights.sum()))
    h, j = jnp.log(one), jnp.zeros((n * values, n * values), jnp.float32)
    key = jax.random.key(seed)
    hot = swept(jax.random.fold_in(key, 2**31), h, j, jnp.zeros((rates.chains, n * values), jnp.float32), n, 1)
    found, epochs, seen = 0.0, 0, (one, one[:, None] * one)
    while found < TARGET and time.process_time() - began < most_seconds:
        hot, h, j, seen, now = _epoch(
            jax.random.fold_in(key, epochs), h, j, hot, seen, one, two, jnp.float32(rates.learning_rate), n, rates.sweeps
        )
        found, epochs = float(now), epochs + 1
    seconds = time.process_time() - began
    return Boltzmann(np.asarray(h).reshape(n, values), np.asarray(j).reshape(n, values, n, values), found, epochs, seconds)


def in_equilibrium(h: Array, couplings: Array, x: Array, weights: Array, sweeps: int = 200, chains: int = 1000, looks: int = 20) -> float:
    """The Pearson correlation of new chains at fixed parameters, from independent sites, read every five sweeps after `sweeps`."""
    n, values = h.shape
    flat, j = jnp.asarray(h.reshape(-1), jnp.float32), jnp.asarray(couplings.reshape(n * values, -1), jnp.float32)
    one, two = frequencies(x, weights, values, 0.0)
    key = jax.random.key(99)
    hot = swept(key, jnp.log(jnp.asarray(one) + 1e-6), jnp.zeros_like(j), jnp.zeros((chains, n * values), jnp.float32), n, 1)
    hot = swept(jax.random.fold_in(key, 1), flat, j, hot, n, sweeps)
    mean, both = np.zeros(n * values), np.zeros((n * values, n * values))
    for k in range(looks):
        hot = swept(jax.random.fold_in(key, 2 + k), flat, j, hot, n, 5)
        mean, both = mean + np.asarray(hot.mean(axis=0)) / looks, both + np.asarray(hot.T @ hot) / chains / looks
    between = np.kron(1 - np.eye(n), np.ones((values, values)))
    return float(correlation(both - np.outer(mean, mean), two - np.outer(one, one), between))
