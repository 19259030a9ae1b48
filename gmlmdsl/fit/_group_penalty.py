"""Minimises an objective plus penalty * sum over groups of weight * ||entries of the group||, by accelerated proximal gradients.

A group of one entry has the penalty |entry|, the lasso's; a group's entries leave 0 together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..derive import bounded_jit, on_device
from ..evaluate import Objective

Array = np.ndarray
TOLERANCE = 1e-7  # of the largest entry of the proximal gradient, per row
MOST_STEPS = 5000
NOISE = 8  # roundings of the value that are no increase


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
    """A minimiser: unconstrained parameters, the steps it took, and whether it converged. `curvature` starts the next one."""

    free: dict[str, Any]
    steps: int
    converged: bool
    curvature: float


def minimise_penalised(objective: Objective, free: dict[str, Any], groups: Groups, penalty: float, curvature: float = 1.0) -> Penalised:
    """The minimiser of objective(free) + penalty * sum over groups of weight * norm; one compilation for all penalties and row weights.

    Reference: Beck and Teboulle 2009; O'Donoghue and Candes 2015 for restarts; Yuan and Lin 2006 for groups.
    """
    of, _ = ravel_pytree({name: groups.of[name] for name in free})
    found = _descent(
        objective,
        free,
        on_device(np.asarray(of, np.int32)),
        on_device(groups.weights),
        on_device(np.float64(penalty)),
        on_device(np.float64(curvature)),
    )
    at, steps, gap, curvature = found
    return Penalised(at, int(steps), bool(float(gap) <= TOLERANCE), max(float(curvature) / 4, 1e-6))


def largest_penalty(objective: Objective, free: dict[str, Any], groups: Groups) -> float:
    """The least penalty at which all groups are 0, `free` being the minimiser under that: max of ||gradient of a group|| / weight."""
    slope = jax.device_get(_gradient(objective, free))
    sums = np.zeros(len(groups.weights))
    for name, g in slope.items():
        mine = groups.of[name] >= 0
        np.add.at(sums, groups.of[name][mine], np.asarray(g)[mine] ** 2)
    return float((np.sqrt(sums) / groups.weights).max(initial=0.0))


@bounded_jit
def _gradient(objective: Objective, free: dict[str, Any]) -> dict[str, Any]:
    return jax.grad(lambda f: objective(f))(free)


class _State(NamedTuple):
    x: Any
    y: Any
    momentum: Any
    curvature: Any
    steps: Any
    gap: Any  # the largest entry of the proximal gradient


@bounded_jit
def _descent(objective: Objective, free: dict[str, Any], of: Any, weights: Any, penalty: Any, curvature: Any) -> tuple[Any, ...]:
    start, restore = ravel_pytree(free)
    groups = weights.shape[0]

    def f(z: Any) -> Any:
        return objective(restore(z))

    def shrunk(z: Any, by: Any) -> Any:
        norms = jnp.sqrt(jnp.zeros(groups + 1, z.dtype).at[of].add(z * z))  # those without a group are the last, -1
        limit = by * jnp.concatenate([weights, jnp.zeros(1, z.dtype)])
        share = jnp.where(norms > limit, 1 - limit / jnp.where(norms > 0, norms, 1.0), 0.0)
        return jnp.where(of < 0, z, share[of] * z)

    def going(s: _State) -> Any:
        return (s.steps < MOST_STEPS) & (s.gap > TOLERANCE)

    def turn(s: _State) -> _State:
        value, slope = jax.value_and_grad(f)(s.y)

        def bounded(c: Any) -> Any:
            to = shrunk(s.y - slope / c, penalty / c)
            move = to - s.y
            slack = NOISE * jnp.finfo(to.dtype).eps * jnp.abs(value)
            return f(to) <= value + slope @ move + 0.5 * c * (move @ move) + slack

        c = jax.lax.while_loop(lambda c: ~bounded(c) & (c < 1e12), lambda c: 2 * c, s.curvature)
        to = shrunk(s.y - slope / c, penalty / c)
        again = (s.y - to) @ (to - s.x) > 0  # momentum that points uphill is dropped
        momentum = jnp.where(again, 1.0, (1 + jnp.sqrt(1 + 4 * s.momentum**2)) / 2)
        ahead = jnp.where(again, 0.0, (s.momentum - 1) / momentum)
        gap = c * jnp.abs(to - s.y).max(initial=0.0)
        return _State(to, to + ahead * (to - s.x), momentum, c, s.steps + 1, gap)

    one = jnp.ones((), start.dtype)
    first = _State(start, start, one, curvature, jnp.zeros((), jnp.int32), jnp.full((), jnp.inf, start.dtype))
    end = jax.lax.while_loop(going, turn, first)
    return restore(end.x), end.steps, end.gap, end.curvature
