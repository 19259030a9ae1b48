"""The step of Boltzmann learning: a damped natural gradient, whose curvature is that of the chains.

Let s be the derivative of log p~ by the free parameters, the *statistics*. The curvature of log Z
is their covariance C over the chains, and the step solves

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

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ..derive import bounded_jit, log_potential
from ..evaluate import log_prior
from ._held_chains import Law
from .limits import CALIBRATION_CHAINS, CONJUGATE_ITERATIONS, DAMPING, FARTHEST_STEP, FIRST_RATE, RATE_POWER, STEADY_STEPS

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
