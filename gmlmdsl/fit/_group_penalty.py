"""Minimises objectives plus penalty * sum over groups of weight * ||entries of the group||, by accelerated proximal gradients.

A group of one entry has the penalty |entry|, the lasso's; a group's entries leave 0 together. Several copies of the parameters, each with
an objective and a penalty of its own, go side by side: each has its own step size, momentum and end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..derive import bounded_jit, on_device
from ..evaluate import BlockObjectives, JointObjective

Array = np.ndarray
Copied = JointObjective | BlockObjectives
TOLERANCE = 1e-7  # of the largest entry of the proximal gradient, per row
MOST_STEPS = 5000
NOISE = 8  # roundings of the value that are no increase
EXCLUDED = 1e12  # a penalty that holds a group at 0


@dataclass(frozen=True)
class Groups:
    """Which entries a penalty holds together.

    Attributes:
        of: by parameter, in its shape: the number of an entry's group, -1 where it has no penalty.
        weights: of each group.
    """

    of: dict[str, Array]
    weights: Array


@dataclass(frozen=True)
class Penalised:
    """Minimisers, one for each copy: unconstrained parameters with an axis of copies, the steps of the longest, and which converged.

    `curvature`, one for each copy, starts the next one.
    """

    free: dict[str, Any]
    steps: int
    converged: Array
    curvature: Array


def minimise_penalised(
    values: Copied,
    free: dict[str, Any],
    groups: Groups,
    penalties: Array,
    curvature: Array,
    *,
    weights: Array | None = None,
    tolerance: float = TOLERANCE,
    most: int = MOST_STEPS,
) -> Penalised:
    """The minimisers of values(free) + penalty * sum over groups of weight * norm; one compilation for all penalties and row weights.

    Args:
        values: the objectives.
        free: where to start, with an axis of copies.
        groups: of entries.
        penalties: one for each copy.
        curvature: one for each copy, to start with.
        weights: of groups, one row for each copy; none: those of `groups` for all.
        tolerance: of the largest entry of the proximal gradient.
        most: steps.

    Reference: Beck and Teboulle 2009; O'Donoghue and Candes 2015 for restarts; Yuan and Lin 2006 for groups.
    """
    of, _ = ravel_pytree({name: groups.of[name] for name in free})
    wide = np.broadcast_to(groups.weights, (len(penalties), len(groups.weights))) if weights is None else weights
    arrays: Any = (np.asarray(of, np.int32), np.asarray(wide, float), np.asarray(penalties, float), np.asarray(curvature, float))
    limits = np.float64(tolerance), np.int32(most)
    at, steps, gap, curvature = _descent(values, free, *(on_device(a) for a in (*arrays, *limits)))
    return Penalised(at, int(steps.max()), np.asarray(gap) <= tolerance, np.maximum(np.asarray(curvature) / 4, 1e-6))


def largest_penalty(values: Copied, free: dict[str, Any], groups: Groups) -> Array:
    """The least penalty of each copy at which all groups are 0, `free` being the minimiser under that.

    It is max of ||gradient of a group|| / weight.
    """
    slope = jax.device_get(_gradient(values, free))
    copies = len(next(iter(slope.values())))
    sums = np.zeros((copies, len(groups.weights)))
    for name, g in slope.items():
        mine = groups.of[name] >= 0
        np.add.at(sums.T, groups.of[name][mine], np.asarray(g)[:, mine].T ** 2)
    return (np.sqrt(sums) / groups.weights).max(axis=1, initial=0.0)


@bounded_jit
def _gradient(values: Copied, free: dict[str, Any]) -> dict[str, Any]:
    return jax.grad(lambda f: values(f).sum())(free)


class _State(NamedTuple):
    x: Any
    y: Any
    momentum: Any
    curvature: Any
    steps: Any
    gap: Any  # the largest entry of the proximal gradient


def _shrunk(z: Any, by: Any, weights: Any, of: Any) -> Any:
    """Every group of every copy nearer to 0, by `by` times its weight: what the penalty's proximal map does."""

    def one(z: Any, by: Any, weights: Any) -> Any:
        norms = jnp.sqrt(jnp.zeros(weights.shape[0] + 1, z.dtype).at[of].add(z * z))  # those without a group are the last, -1
        limit = by * jnp.concatenate([weights, jnp.zeros(1, z.dtype)])
        share = jnp.where(norms > limit, 1 - limit / jnp.where(norms > 0, norms, 1.0), 0.0)
        return jnp.where(of < 0, z, share[of] * z)

    return jax.vmap(one)(z, by, weights)


@bounded_jit
def _descent(
    values: Copied, free: dict[str, Any], of: Any, weights: Any, penalties: Any, curvature: Any, tolerance: Any, most: Any
) -> tuple[Any, ...]:
    """The minimisers, their steps, their last gaps and step sizes. All state has a first axis of copies; one that has ended stays."""
    _, restore = ravel_pytree({name: v[0] for name, v in free.items()})
    start = jax.vmap(lambda one: ravel_pytree(one)[0])(free)

    def f(z: Any) -> Any:
        return values(jax.vmap(restore)(z))

    def open_(s: _State) -> Any:
        return (s.steps < most) & (s.gap > tolerance)

    def turn(s: _State) -> _State:
        going = open_(s)
        value, back = jax.vjp(f, s.y)
        (slope,) = back(jnp.ones_like(value))

        def above(c: Any) -> Any:
            """Which copies lie above the parabola of curvature c."""
            to = _shrunk(s.y - slope / c[:, None], penalties / c, weights, of)
            move = to - s.y
            slack = NOISE * jnp.finfo(to.dtype).eps * jnp.abs(value)
            return going & (f(to) > value + (slope * move).sum(axis=1) + 0.5 * c * (move * move).sum(axis=1) + slack) & (c < 1e12)

        def widened(state: tuple[Any, Any]) -> tuple[Any, Any]:
            c = jnp.where(state[1], 2 * state[0], state[0])
            return c, above(c)

        c, _ = jax.lax.while_loop(lambda state: state[1].any(), widened, (s.curvature, above(s.curvature)))
        to = _shrunk(s.y - slope / c[:, None], penalties / c, weights, of)
        again = ((s.y - to) * (to - s.x)).sum(axis=1) > 0  # momentum that points uphill is dropped
        momentum = jnp.where(again, 1.0, (1 + jnp.sqrt(1 + 4 * s.momentum**2)) / 2)
        ahead = jnp.where(again, 0.0, (s.momentum - 1) / momentum)
        gap = c * jnp.abs(to - s.y).max(axis=1, initial=0.0)
        new = _State(to, to + ahead[:, None] * (to - s.x), momentum, c, s.steps + 1, gap)
        return jax.tree.map(lambda a, b: jnp.where(going.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, s)

    copies = start.shape[0]
    one = jnp.ones(copies, start.dtype)
    first = _State(start, start, one, curvature, jnp.zeros(copies, jnp.int32), jnp.full(copies, jnp.inf, start.dtype))
    end = jax.lax.while_loop(lambda s: open_(s).any(), turn, first)
    return jax.vmap(restore)(end.x), end.steps, end.gap, end.curvature
