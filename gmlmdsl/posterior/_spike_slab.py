"""Draws of parameters under `spike_slab` priors, by a chain that moves between models.

Each entry under `spike_slab(sd, probability)` is either exactly 0 or normal, and its indicator
states whether it is included. Given the indicators, the target is exp(-c loss) times the priors. An
included entry has the slab's density, and an excluded entry is at 0.

One step of a chain goes through the entries and proposes to change the indicator of each. An entry
that is excluded moves to 0. An entry that is included moves to a value from a normal distribution
q. q approximates the distribution of the entry given the other entries, by the curvature at the
mode of the model with all entries included. Let pi be the prior odds and f the rest of the target.
The move to inclusion is accepted with probability min(1, pi f(value) slab(value) / (f(0)
q(value))), and the opposite move with the inverse ratio (Metropolis-Hastings between dimensions;
Green 1995). q does not depend on the entry's own value, so both moves have the same q. Then all
entries that are not 0 move by a Hamiltonian trajectory with the curvature of these entries as its
mass.

Reference: Mitchell and Beauchamp 1988 for the prior; Gottardo and Raftery 2008 for densities with
respect to a point mass and the line; Neal 2011, Section 5.3, for trajectories; Robbins and Monro
1951 for their step, which only warm-up adapts; for graphs of ordinal variables Marsman, van den
Bergh and Haslbeck 2025.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, Int

from ..derive import accepted, bounded_jit, on_device, words_apart
from ..fit import LongFit
from ._chances import AbstractChances
from ._draws import STRIDE, in_strides, potential
from ._likelihood import Likelihood
from .limits import ACCEPTED, FADES, JITTER, LEAPS

HIDDEN = 1 << 30  # number of the keys of the probabilities of the indicators, apart from those of steps


class Target(eqx.Module):
    """The log density of a vector of coordinates and the indicators.

    Attributes:
        likelihood: the likelihood of the model with slabs as priors.
        place: the position in the vector of each entry with an indicator.
        chances: the prior probabilities of the indicators.
        at_zero: the slab's log density at 0, which is subtracted for an excluded entry.
    """

    likelihood: Likelihood
    place: Int[Array, " entries"]
    chances: AbstractChances
    at_zero: Float[Array, " entries"]

    def smooth(self, vector: Float[Array, " size"]) -> Float[Array, ""]:
        """Return -c loss + log priors, with slabs for all entries, as a density of the vector."""
        return -potential(self.likelihood)(vector)

    def odds(self, included: Bool[Array, " entries"], hidden: Any) -> Float[Array, ""]:
        """Return the contribution of the indicators, at a state of their probabilities."""
        log_in, log_out = self.chances.logs(hidden)
        return jnp.where(included, log_in, log_out - self.at_zero).sum()


class Walk(eqx.Module):
    """The target, with the mode and the curvature of the model with all entries included."""

    target: Target
    centre: Float[Array, " size"]
    curvature: Float[Array, "size size"]


class Position(NamedTuple):
    """The position of a chain.

    `value` is the log density there, `log_step` is the log of the step of its trajectories, and
    `hidden` is the state of the probabilities of the indicators.
    """

    vector: Float[Array, " size"]
    included: Bool[Array, " entries"]
    value: Float[Array, ""]
    log_step: Float[Array, ""]
    hidden: Any


class Told(NamedTuple):
    """The recorded quantities of each draw.

    `switched` is the share of entries whose indicator changed, and `accepted` is the probability
    with which the trajectory was accepted. `hidden` is the recorded part of the state of the
    probabilities of the indicators.
    """

    vector: Float[Array, " size"]
    included: Bool[Array, " entries"]
    value: Float[Array, ""]
    switched: Float[Array, ""]
    accepted: Float[Array, ""]
    hidden: Any


@bounded_jit
def curvature_at(target: Target, vector: Float[Array, " size"]) -> Float[Array, "size size"]:
    """Return minus the Hessian of the smooth part, computed row by row."""
    slope = jax.grad(target.smooth)
    return -jax.lax.map(lambda e: jax.jvp(slope, (vector,), (e,))[1], jnp.eye(vector.shape[0], dtype=vector.dtype))


def run(walk: Walk, keys: Array, included: np.ndarray, warmup: int, draws: int, saved: LongFit) -> Told:
    """Run chains from the mode, with the excluded entries at 0.

    The leading axes of the results are chains and draws.

    Args:
        walk: the target with its mode and curvature.
        keys: one key for each chain.
        included: the entries that are included at the start, shape (chains, entries).
        warmup: the number of steps before the first draw, which adapt the step of the trajectories.
        draws: the number of recorded steps.
        saved: the saved states of the run.
    """
    chains, dtype = len(included), walk.centre.dtype
    vectors = np.repeat(np.asarray(walk.centre)[None], chains, axis=0)
    vectors[:, np.asarray(walk.target.place)] *= included
    nothing = on_device(np.zeros(chains), dtype)
    hidden = _begun(walk, keys)
    start = Position(on_device(vectors, dtype), on_device(included), nothing, nothing, hidden)
    return in_strides(lambda at, t: _walked(walk, keys, at, on_device(t), on_device(warmup)), start, warmup, draws, saved)


@bounded_jit
def _begun(walk: Walk, keys: Array) -> Any:
    """Return a state of the probabilities for each chain."""
    return jax.vmap(lambda key: walk.target.chances.begin(jax.random.fold_in(key, HIDDEN)))(keys)


@bounded_jit
def _walked(walk: Walk, keys: Array, at: Position, first: Array, warmup: Array) -> tuple[Position, Told]:
    """Run STRIDE steps of each chain, numbered from `first`."""

    def one(key: Array, at: Position) -> tuple[Position, Told]:
        at = at._replace(value=walk.target.smooth(at.vector) + walk.target.odds(at.included, at.hidden))
        return jax.lax.scan(lambda at, t: _step(walk, at, jax.random.fold_in(key, t), t, warmup), at, first + jnp.arange(STRIDE))

    return jax.vmap(one)(keys, at)


def _step(walk: Walk, at: Position, key: Array, t: Array, warmup: Array) -> tuple[Position, Told]:
    """Run step t of a chain: a pass over the indicators, a trajectory, and their probabilities.

    The first `warmup` steps adapt the step of the trajectories.
    """
    first, second = jax.random.split(key)
    before = at.included
    for_each = (jnp.arange(before.shape[0]), jax.random.split(first, before.shape[0]))
    at, _ = jax.lax.scan(lambda a, x: (_switched(walk, a, *x), None), at, for_each)
    moved, accepted = _moved(walk, at, second)
    gain = jnp.where(t < warmup, (t.astype(accepted.dtype) + 1) ** -FADES, 0.0)
    chances, hidden = walk.target.chances, moved.hidden
    new = chances.update(jax.random.fold_in(key, HIDDEN), hidden, moved.included)
    value = moved.value + walk.target.odds(moved.included, new) - walk.target.odds(moved.included, hidden)
    after = Position(moved.vector, moved.included, value, at.log_step + gain * (accepted - ACCEPTED), new)
    changed = (before != after.included).mean() if before.shape[0] else jnp.zeros(())
    return after, Told(after.vector, after.included, after.value, changed, accepted, chances.shown(new))


def _switched(walk: Walk, at: Position, k: Array, key: Array) -> Position:
    """Propose to include entry k if it is excluded, or to exclude it if it is included."""
    for_value, for_choice = jax.random.split(key)
    place, inside = walk.target.place[k], at.included[k]
    row, bend = walk.curvature[place], walk.curvature[place, place]
    others = row @ (at.vector - walk.centre) - bend * (at.vector[place] - walk.centre[place])
    mean, sd = walk.centre[place] - others / bend, 1 / jnp.sqrt(bend)
    value = jnp.where(inside, at.vector[place], mean + sd * jax.random.normal(for_value, dtype=mean.dtype))
    log_q = stats.norm.logpdf(value, mean, sd)
    vector = at.vector.at[place].set(jnp.where(inside, 0.0, value))
    included = at.included.at[k].set(~inside)
    new = walk.target.smooth(vector) + walk.target.odds(included, at.hidden)
    ratio = new - at.value + jnp.where(inside, log_q, -log_q)
    accept = _accepted(ratio, for_choice)  # false if the ratio is nan
    chosen = Position(vector, included, new, at.log_step, at.hidden)
    return jax.tree.map(lambda a, b: jnp.where(accept, a, b), chosen, at)


def _accepted(log_ratio: Array, key: Array) -> Array:
    return accepted(log_ratio, words_apart(key[None], 1))[0, 0]


def _moved(walk: Walk, at: Position, key: Array) -> tuple[Position, Array]:
    """Move the coordinates that are not held at 0 by a trajectory.

    The second result is the probability with which the trajectory was accepted.
    """
    for_momentum, for_step, for_choice = jax.random.split(key, 3)
    dtype, size = at.vector.dtype, at.vector.shape[0]
    active = jnp.ones(size, bool).at[walk.target.place].set(at.included)
    mass = jnp.where(active[:, None] & active, walk.curvature, jnp.eye(size, dtype=dtype))
    root = jnp.linalg.cholesky(mass)
    momentum = jnp.where(active, root @ jax.random.normal(for_momentum, (size,), dtype), 0.0)
    step = jnp.exp(at.log_step) * jax.random.uniform(for_step, (), dtype, 1 - JITTER, 1 + JITTER)
    odds = walk.target.odds(at.included, at.hidden)

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
    chosen = Position(vector, at.included, new, at.log_step, at.hidden)
    return jax.tree.map(lambda a, b: jnp.where(accept, a, b), chosen, at), jnp.exp(jnp.minimum(ratio, 0.0))


def definite(curvature: np.ndarray, singular: float) -> np.ndarray | None:
    """Return a curvature that is positive in every direction, or None if some direction is flat.

    Negative eigenvalues change their sign.
    """
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    if not np.isfinite(values).all() or np.abs(values).min(initial=np.inf) <= singular * np.abs(values).max(initial=0.0):
        return None
    return (vectors * np.abs(values)) @ vectors.T
