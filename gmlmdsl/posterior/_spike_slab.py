"""Draws of parameters whose entries are 0 exactly or normal, with whether each is in: a chain that moves between models.

Each entry under `spike_slab(sd, probability)` has an indicator. Given it the target is exp(-c loss)
times the priors, with the slab's density where the entry is in, and at 0 where it is out. One step
of a chain goes through the entries, and proposes for each to change its indicator: out, to 0; in,
to a value of a normal distribution q around where the curvature at the mode of the model with all
entries in expects it, given the other entries. With pi for the prior odds and f for the rest of the
target the move in is accepted with probability min(1, pi f(value) slab(value) / (f(0) q(value))),
the move out with the inverse ratio (Metropolis-Hastings between dimensions; Green 1995). q does not
depend on the entry's own value, so both directions have the same. Then all that is not 0 moves by a
Hamiltonian trajectory with the curvature of these entries as its mass.

Reference: Mitchell and Beauchamp 1988 for the prior; Gottardo and Raftery 2008 for densities
against a point mass and the line; Neal 2011, Section 5.3, for trajectories; Robbins and Monro 1951
for their step, which warm-up alone adapts; for graphs of ordinal variables Marsman, van den Bergh
and Haslbeck 2025.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, Int

from ..derive import accepted, bounded_jit, on_device, words_apart
from ._draws import potential
from ._likelihood import Likelihood
from ._strides import STRIDE, in_strides

LEAPS = 6  # of a trajectory, whose length is near a quarter of a turn
ACCEPTED = 0.8  # the share of trajectories that the step is adapted to
FADES = 0.6  # the power of a step's number by which adaptation fades
JITTER = 0.3  # of the length of a step, either way: no trajectory returns to its start


class Target(eqx.Module):
    """The log density of a vector of coordinates and the indicators.

    Attributes:
        likelihood: of the model with slabs alone as priors.
        place: where in the vector each entry with an indicator stands.
        log_in, log_out: log of the prior probabilities.
        at_zero: the slab's log density at 0, which an entry that is out does not pay.
    """

    likelihood: Likelihood
    place: Int[Array, " entries"]
    log_in: Float[Array, " entries"]
    log_out: Float[Array, " entries"]
    at_zero: Float[Array, " entries"]

    def smooth(self, vector: Float[Array, " size"]) -> Float[Array, ""]:
        """-c loss + log priors, slabs for all entries, as a density of the vector."""
        return -potential(self.likelihood)(vector)

    def odds(self, included: Bool[Array, " entries"]) -> Float[Array, ""]:
        """What the indicators add."""
        return jnp.where(included, self.log_in, self.log_out - self.at_zero).sum()


class Walk(eqx.Module):
    """The target, and the shape of the model with all entries in around its mode."""

    target: Target
    centre: Float[Array, " size"]
    curvature: Float[Array, "size size"]


class Position(NamedTuple):
    """Where a chain is; `value` is the log density there, `log_step` the step of its trajectories."""

    vector: Float[Array, " size"]
    included: Bool[Array, " entries"]
    value: Float[Array, ""]
    log_step: Float[Array, ""]


class Told(NamedTuple):
    """What is kept of each draw: the share of entries whose indicator changed, and how likely the trajectory was accepted."""

    vector: Float[Array, " size"]
    included: Bool[Array, " entries"]
    value: Float[Array, ""]
    switched: Float[Array, ""]
    accepted: Float[Array, ""]


@bounded_jit
def curvature_at(target: Target, vector: Float[Array, " size"]) -> Float[Array, "size size"]:
    """Minus the Hessian of the smooth part, row by row."""
    slope = jax.grad(target.smooth)
    return -jax.lax.map(lambda e: jax.jvp(slope, (vector,), (e,))[1], jnp.eye(vector.shape[0], dtype=vector.dtype))


def run(walk: Walk, keys: Array, included: np.ndarray, warmup: int, draws: int) -> Told:
    """Chains from the mode, with the entries that are out at 0; leading axes of what it gives are chains and draws.

    Args:
        walk: the target and its shape.
        keys: one for each chain.
        included: which entries are in at first, shape (chains, entries).
        warmup: steps before the first draw, which adapt the step of the trajectories.
        draws: steps that are kept.
    """
    chains, dtype = len(included), walk.centre.dtype
    vectors = np.repeat(np.asarray(walk.centre)[None], chains, axis=0)
    vectors[:, np.asarray(walk.target.place)] *= included
    nothing = on_device(np.zeros(chains), dtype)
    start = Position(on_device(vectors, dtype), on_device(included), nothing, nothing)
    return in_strides(lambda at, t: _walked(walk, keys, at, on_device(t), on_device(warmup)), start, warmup, draws)


@bounded_jit
def _walked(walk: Walk, keys: Array, at: Position, first: Array, warmup: Array) -> tuple[Position, Told]:
    """STRIDE steps of each chain, the first of which has a number."""

    def one(key: Array, at: Position) -> tuple[Position, Told]:
        at = at._replace(value=walk.target.smooth(at.vector) + walk.target.odds(at.included))
        return jax.lax.scan(lambda at, t: _step(walk, at, jax.random.fold_in(key, t), t, warmup), at, first + jnp.arange(STRIDE))

    return jax.vmap(one)(keys, at)


def _step(walk: Walk, at: Position, key: Array, t: Array, warmup: Array) -> tuple[Position, Told]:
    """One pass over the indicators, and one trajectory; step t of a chain, of which the first `warmup` adapt."""
    first, second = jax.random.split(key)
    before = at.included
    for_each = (jnp.arange(before.shape[0]), jax.random.split(first, before.shape[0]))
    at, _ = jax.lax.scan(lambda a, x: (_switched(walk, a, *x), None), at, for_each)
    moved, accepted = _moved(walk, at, second)
    gain = jnp.where(t < warmup, (t.astype(accepted.dtype) + 1) ** -FADES, 0.0)
    after = moved._replace(log_step=at.log_step + gain * (accepted - ACCEPTED))
    changed = (before != after.included).mean() if before.shape[0] else jnp.zeros(())
    return after, Told(after.vector, after.included, after.value, changed, accepted)


def _switched(walk: Walk, at: Position, k: Array, key: Array) -> Position:
    """Entry k in where it was out, or out where it was in, or as it was."""
    for_value, for_choice = jax.random.split(key)
    place, inside = walk.target.place[k], at.included[k]
    row, bend = walk.curvature[place], walk.curvature[place, place]
    others = row @ (at.vector - walk.centre) - bend * (at.vector[place] - walk.centre[place])
    mean, sd = walk.centre[place] - others / bend, 1 / jnp.sqrt(bend)
    value = jnp.where(inside, at.vector[place], mean + sd * jax.random.normal(for_value, dtype=mean.dtype))
    log_q = stats.norm.logpdf(value, mean, sd)
    vector = at.vector.at[place].set(jnp.where(inside, 0.0, value))
    included = at.included.at[k].set(~inside)
    new = walk.target.smooth(vector) + walk.target.odds(included)
    ratio = new - at.value + jnp.where(inside, log_q, -log_q)
    accept = _accepted(ratio, for_choice)  # never where the ratio is nan
    chosen = Position(vector, included, new, at.log_step)
    return jax.tree.map(lambda a, b: jnp.where(accept, a, b), chosen, at)


def _accepted(log_ratio: Array, key: Array) -> Array:
    return accepted(log_ratio, words_apart(key[None], 1))[0, 0]


def _moved(walk: Walk, at: Position, key: Array) -> tuple[Position, Array]:
    """A trajectory of the coordinates that are not held at 0, and the probability by which it was accepted."""
    for_momentum, for_step, for_choice = jax.random.split(key, 3)
    dtype, size = at.vector.dtype, at.vector.shape[0]
    active = jnp.ones(size, bool).at[walk.target.place].set(at.included)
    mass = jnp.where(active[:, None] & active, walk.curvature, jnp.eye(size, dtype=dtype))
    root = jnp.linalg.cholesky(mass)
    momentum = jnp.where(active, root @ jax.random.normal(for_momentum, (size,), dtype), 0.0)
    step = jnp.exp(at.log_step) * jax.random.uniform(for_step, (), dtype, 1 - JITTER, 1 + JITTER)
    odds = walk.target.odds(at.included)

    def speed(p: Array) -> Array:
        return solve_triangular(root, solve_triangular(root, p, lower=True), lower=True, trans=1)

    def slope(vector: Array) -> tuple[Array, Array]:
        value, found = jax.value_and_grad(walk.target.smooth)(vector)
        return value, jnp.where(active, found, 0.0)

    def leap(_: Array, x: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        vector, p, g, _ = x
        half = p + 0.5 * step * g
        vector = vector + step * jnp.where(active, speed(half), 0.0)
        value, g = slope(vector)
        return vector, half + 0.5 * step * g, g, value

    value, g = slope(at.vector)
    vector, p, _, value = jax.lax.fori_loop(0, LEAPS, leap, (at.vector, momentum, g, value))
    new = value + odds
    ratio = new - at.value + 0.5 * (momentum @ speed(momentum) - p @ speed(p))
    ratio = jnp.where(jnp.isfinite(ratio), ratio, -jnp.inf)
    accept = _accepted(ratio, for_choice)
    chosen = Position(vector, at.included, new, at.log_step)
    return jax.tree.map(lambda a, b: jnp.where(accept, a, b), chosen, at), jnp.exp(jnp.minimum(ratio, 0.0))


def definite(curvature: np.ndarray, singular: float) -> np.ndarray | None:
    """A curvature that is positive in every direction, falling ones turned round; None where one is flat."""
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    if not np.isfinite(values).all() or np.abs(values).min(initial=np.inf) <= singular * np.abs(values).max(initial=0.0):
        return None
    return (vectors * np.abs(values)) @ vectors.T
