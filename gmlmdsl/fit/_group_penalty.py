"""Minimises objectives plus penalty * sum over groups of weight * ||entries of the group||, by accelerated proximal gradients.

A group of one entry has the penalty |entry|, the lasso's; a group's entries leave 0 together.
Several copies of the parameters, each with an objective and a penalty of its own, go side by side:
each has its own step size, momentum and end.

Lengths are taken in a metric: the diagonal of the objective's Hessian, see `diagonal_metric`. Steps
and stops are then the same whatever the units of the parameters are, as those of a coupling are
when the values of a variable are given in others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..data import generator
from ..derive import bounded_jit, on_device
from ..evaluate import BlockObjectives, JointObjective

Array = np.ndarray
Copied = JointObjective | BlockObjectives
TOLERANCE = 1e-7  # of the largest entry of the proximal gradient in the metric, per row
MOST_STEPS = 5000
NOISE = 8  # roundings of the value that are no increase
EXCLUDED = 1e12  # a penalty that holds a group at 0
MOST_PROBES = 256  # directions of each parameter along which its curvatures are told apart
FLATTEST = 1e-3  # of the mean curvature of a parameter's entries: flatter ones are taken as this


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
    metric: Array,
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
        curvature: one for each copy, to start with: how much larger than the metric.
        metric: of the flat vector of all arrays, see `diagonal_metric`; a group has the largest of
            its entries.
        weights: of groups, one row for each copy; none: those of `groups` for all.
        tolerance: of the largest entry of the proximal gradient, in units of the square root of the
            metric.
        most: steps.

    Reference: Beck and Teboulle 2009; O'Donoghue and Candes 2015 for restarts; Yuan and Lin 2006
    for groups.
    """
    places = _placed(values, free, groups)
    wide = np.broadcast_to(groups.weights, (len(penalties), len(groups.weights))) if weights is None else weights
    own = np.concatenate([wide, np.zeros_like(wide[:1])])[places.group_owner, np.arange(len(places.group_owner)) % max(wide.shape[1], 1)]
    lengths = places.alike(np.asarray(metric, float))
    numbers = np.asarray(penalties, float), np.asarray(curvature, float)
    given = (own.astype(float), numbers, lengths, (np.float64(tolerance), np.int32(most)))
    at, steps, gap, curvature = _descent(values, free, _Places(*(on_device(a) for a in places)), *jax.tree.map(on_device, given))
    return Penalised(at, int(steps.max()), np.asarray(gap) <= tolerance, np.maximum(np.asarray(curvature) / 4, 1e-6))


def largest_penalty(values: Copied, free: dict[str, Any], groups: Groups) -> Array:
    """The least penalty of each copy at which all groups are 0, `free` being the minimiser under that.

    It is max of ||gradient of a group|| / weight.
    """
    places = _placed(values, free, groups)
    slope = np.asarray(ravel_pytree(jax.device_get(_gradient(values, free)))[0])
    sums = np.bincount(places.group, slope**2, len(places.group_owner) + 1)[:-1]
    out = np.zeros(values.count + 1)
    np.maximum.at(out, places.group_owner, np.sqrt(sums) / np.tile(groups.weights, len(sums) // max(len(groups.weights), 1)))
    return out[:-1]


class _Places(NamedTuple):
    """Of the flat vector of all arrays, in the order of `ravel_pytree`: whose copy an entry is, its group, and whose copy a group is.

    Each array has groups of its own; the last number is of entries without one, or without an
    owner.
    """

    owner: Any
    group: Any
    group_owner: Any

    def total(self, v: Any, copies: int) -> Any:
        """The sum over the entries of each copy."""
        return jax.ops.segment_sum(v, self.owner, copies + 1)[:-1]

    def spread(self, v: Any) -> Any:
        """What each entry's copy has; 1 of nobody's."""
        return jnp.append(v, jnp.ones(1, v.dtype))[self.owner]

    def alike(self, metric: Array) -> tuple[Array, Array]:
        """The metric with the largest of each group at all its entries, and that of each group."""
        largest = np.zeros(len(self.group_owner) + 1)
        np.maximum.at(largest, self.group, metric)
        grouped = self.group < len(self.group_owner)
        return np.where(grouped, largest[self.group], metric), np.where(largest > 0, largest, 1.0)[:-1]

    def shrunk(self, z: Any, by: Any, weights: Any) -> Any:
        """Every group nearer to 0, by its copy's `by` times its weight: what the penalty's proximal map does."""
        count = self.group_owner.shape[0]
        norms = jnp.sqrt(jax.ops.segment_sum(z * z, self.group, count + 1))
        limit = jnp.append(jnp.append(by, 0.0)[self.group_owner] * weights, 0.0)
        share = jnp.where(norms > limit, 1 - limit / jnp.where(norms > 0, norms, 1.0), 0.0)
        return jnp.where(self.group == count, z, share[self.group] * z)


def _entries(values: Copied, free: dict[str, Any]) -> dict[str, tuple[Array, Array]]:
    """Of each free parameter, in the order of `ravel_pytree`, which entries are unconstrained and whose they are in all arrays."""
    whole, at, found = np.asarray(values.owner), 0, {}
    for p in values.objective.frame.host.parameters:
        if p.name in free:
            here = np.arange(p.size)
            if p.kind == "simplex":  # whose rows have one unconstrained entry less
                here = here.reshape(p.shape)[..., :-1].ravel()
            found[p.name] = here, whole[:, at + here]
        at += p.size
    return {name: found[name] for name in sorted(found)}


def _owners(values: Copied, free: dict[str, Any]) -> tuple[Array, Array]:
    """Of the flat vector of all arrays, whose copy an entry is and the number of its parameter."""
    entries = [owner.ravel() for _, owner in _entries(values, free).values()]
    return np.concatenate(entries), np.repeat(np.arange(len(entries)), [len(e) for e in entries])


def _placed(values: Copied, free: dict[str, Any], groups: Groups) -> _Places:
    count, arrays, members = len(groups.weights), len(np.asarray(values.owner)), []
    for name, (here, owned) in _entries(values, free).items():
        of = groups.of[name].ravel()[here]
        mine = (of >= 0) & (owned < values.count)
        members.append(np.where(mine, np.arange(arrays)[:, None] * count + of, arrays * count).ravel())
    owner, group = _owners(values, free)[0].astype(np.int32), np.concatenate(members).astype(np.int32)
    group_owner = np.full(arrays * count + 1, values.count, np.int32)
    group_owner[group] = owner
    return _Places(owner, group, group_owner[:-1])


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


def diagonal_metric(values: Copied, free: dict[str, Any]) -> Array:
    """The diagonal of the Hessian of each copy's objective, in the order of `ravel_pytree`: positive, 1 where nothing is curved.

    A product with the Hessian is taken along some entries of one parameter, one of each copy, or
    with signs along more where a copy has more than `MOST_PROBES`: what those add to each other is
    of their own units.
    """
    owner, array = _owners(values, free)
    _, number = np.unique(np.stack([array, owner]), axis=1, return_inverse=True)
    order = np.argsort(number.ravel(), kind="stable")
    rank = np.empty(len(owner), int)
    rank[order] = np.arange(len(owner)) - np.searchsorted(number.ravel()[order], number.ravel()[order])
    signs = np.where(generator(0).random(len(owner)) < 0.5, -1.0, 1.0)
    _, probe = np.unique(np.stack([array, rank % MOST_PROBES]), axis=1, return_inverse=True)
    found = np.abs(np.asarray(_curvatures(values, free, on_device(probe.ravel().astype(np.int32)), on_device(signs))))
    sums, counts = np.bincount(number.ravel(), found), np.bincount(number.ravel())
    found = np.maximum(found, FLATTEST * (sums / counts)[number.ravel()])
    return np.where((found > 0) & np.isfinite(found), found, 1.0)


@bounded_jit
def _curvatures(values: Copied, free: dict[str, Any], probe: Any, signs: Any) -> Any:
    """v * (H v) at the entries of each probe, v being their signs."""
    flat, restore = ravel_pytree(free)
    slope = jax.grad(lambda z: values(restore(z)).sum())

    def along(k: Any, found: Any) -> Any:
        v = jnp.where(probe == k, signs, 0.0).astype(flat.dtype)
        return found + v * jax.jvp(slope, (flat,), (v,))[1]

    return jax.lax.fori_loop(0, probe.max(initial=-1) + 1, along, jnp.zeros_like(flat))


@bounded_jit
def _descent(
    values: Copied, free: dict[str, Any], places: _Places, weights: Any, numbers: Any, lengths: Any, limits: Any
) -> tuple[Any, ...]:
    """The minimisers, their steps, their last gaps and step sizes, one for each copy; a copy that has ended stays."""
    (penalties, curvature), (metric, of_groups), (tolerance, most) = numbers, lengths, limits
    start, restore = ravel_pytree(free)
    number, spread = penalties.shape[0], places.spread

    def f(z: Any) -> Any:
        return values(restore(z))

    def open_(s: _State) -> Any:
        return (s.steps < most) & (s.gap > tolerance)

    def turn(s: _State) -> _State:
        going = open_(s)
        value, back = jax.vjp(f, s.y)
        (slope,) = back(jnp.ones_like(value))

        def moved(c: Any) -> Any:
            return places.shrunk(s.y - slope / (metric * spread(c)), penalties / c, weights / of_groups)

        def above(c: Any) -> Any:
            """Which copies lie above the parabola of curvature c."""
            to = moved(c)
            move = to - s.y
            slack = NOISE * jnp.finfo(to.dtype).eps * jnp.abs(value)
            parabola = value + places.total(slope * move + 0.5 * spread(c) * metric * move * move, number)
            return going & (f(to) > parabola + slack) & (c < 1e12)

        def widened(state: tuple[Any, Any]) -> tuple[Any, Any]:
            c = jnp.where(state[1], 2 * state[0], state[0])
            return c, above(c)

        c, _ = jax.lax.while_loop(lambda state: state[1].any(), widened, (s.curvature, above(s.curvature)))
        to = moved(c)
        # momentum that points uphill is dropped
        again = places.total(metric * (s.y - to) * (to - s.x), number) > 0
        momentum = jnp.where(again, 1.0, (1 + jnp.sqrt(1 + 4 * s.momentum**2)) / 2)
        ahead = jnp.where(again, 0.0, (s.momentum - 1) / momentum)
        gap = c * jax.ops.segment_max(jnp.sqrt(metric) * jnp.abs(to - s.y), places.owner, number + 1)[:-1]
        moving = spread(going.astype(to.dtype)) > 0
        x, y = (jnp.where(moving, new, old) for new, old in ((to, s.x), (to + spread(ahead) * (to - s.x), s.y)))
        rest = zip((momentum, c, s.steps + 1, jnp.maximum(gap, 0.0)), s[2:], strict=True)
        return _State(x, y, *(jnp.where(going, new, old) for new, old in rest))

    one = jnp.ones(number, start.dtype)
    first = _State(start, start, one, curvature, jnp.zeros(number, jnp.int32), jnp.full(number, jnp.inf, start.dtype))
    end = jax.lax.while_loop(lambda s: open_(s).any(), turn, first)
    return restore(end.x), end.steps, end.gap, end.curvature
