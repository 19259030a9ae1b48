"""Minimises objectives plus a group penalty by accelerated proximal gradients.

The penalty is penalty * sum over groups of weight * ||entries of the group||. A group of one entry
has the lasso penalty |entry|; the entries of a larger group leave 0 together. Several copies of the
parameters are minimised side by side. Each copy has its own objective, penalty, step size, momentum
and end.

Lengths are measured in a metric, the diagonal of the objective's Hessian; see `diagonal_metric`.
Steps and stopping therefore do not depend on the units of the parameters. The units of a coupling
change, for example, if the values of a variable are given in other units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .._types import AnyArray, Arrays
from ..data import generator
from ..derive import bounded_jit, on_device
from ..evaluate import BlockObjectives, JointObjective
from .limits import LEAST_SHARE, MOST_PENALISED_STEPS, MOST_PROBES, PENALISED_TOLERANCE, ROUNDINGS

if TYPE_CHECKING:
    from jaxtyping import PyTree

Array = np.ndarray
Copied = JointObjective | BlockObjectives


@dataclass(frozen=True)
class Groups:
    """The groups of entries of a penalty.

    Attributes:
        of: by parameter, in its shape, the number of an entry's group; -1 if the entry has no
            penalty.
        weights: the weight of each group.
    """

    of: dict[str, Array]
    weights: Array


@dataclass(frozen=True)
class Penalised:
    """The minimisers of all copies.

    Attributes:
        free: the unconstrained parameters, with an axis of copies.
        steps: the number of steps of the longest copy.
        converged: which copies converged.
        curvature: one number for each copy, from which the next call starts.
    """

    free: Arrays
    steps: int
    converged: Array
    curvature: Array

    @property
    def fields(self) -> tuple[Arrays, int, Array, Array]:
        """The fields in their order, as a tree of arrays."""
        return self.free, self.steps, self.converged, self.curvature


def minimise_penalised(
    values: Copied,
    free: Arrays,
    groups: Groups,
    penalties: Array,
    curvature: Array,
    metric: Array,
    *,
    weights: Array | None = None,
    shear: Shear | None = None,
    tolerance: float = PENALISED_TOLERANCE,
    most: int = MOST_PENALISED_STEPS,
) -> Penalised:
    """Minimise values(free) + penalty * sum over groups of weight * norm.

    All penalties and row weights share one compiled program.

    Args:
        values: the objectives.
        free: the starting point, with an axis of copies.
        groups: the groups of entries.
        penalties: one penalty for each copy.
        curvature: one starting value for each copy: the ratio of the curvature to the metric.
        metric: the metric of the flat vector of all arrays, see `diagonal_metric`. A group has the
            largest metric of its entries.
        weights: the weights of the groups, one row for each copy. If None, all copies have those of
            `groups`.
        shear: the coordinates in which the descent moves, whose metric `metric` is. None: the
            entries themselves.
        tolerance: the bound on the largest entry of the proximal gradient, in units of the square
            root of the metric.
        most: the maximum number of steps.

    Reference: Beck and Teboulle 2009; O'Donoghue and Candes 2015 for restarts; Yuan and Lin 2006
    for groups.
    """
    places = _placed(values, free, groups)
    own = _own_weights(places, groups, weights, len(penalties))
    lengths = places.alike(np.asarray(metric, float))
    numbers = np.asarray(penalties, float), np.asarray(curvature, float)
    if shear is None:
        # Of the same shape as a shear that moves them, for one compiled program.
        loose = _loose(values, places)
        shear = Shear(np.zeros((loose.shape[1], len(places.owner))), loose)
    given = (own.astype(float), numbers, lengths, (np.float64(tolerance), np.int32(most)), shear)
    at, steps, gap, curvature = _descent(values, free, _Places(*(on_device(a) for a in places)), *jax.tree.map(on_device, given))
    return Penalised(at, int(steps.max()), np.asarray(gap) <= tolerance, np.maximum(np.asarray(curvature) / 4, 1e-6))


def largest_penalty(values: Copied, free: dict[str, PyTree], groups: Groups, weights: Array | None = None) -> Array:
    """Return, for each copy, the smallest penalty at which all groups are 0.

    It is max of ||gradient of a group|| / weight. `free` must be the minimiser under that penalty.
    `weights` is as in `minimise_penalised`.
    """
    places = _placed(values, free, groups)
    slope = np.asarray(ravel_pytree(jax.device_get(_gradient(values, free)))[0])
    sums = np.bincount(places.group, slope**2, len(places.group_owner) + 1)[:-1]
    own = _own_weights(places, groups, weights, values.count)
    out = np.zeros(values.count + 1)
    np.maximum.at(out, places.group_owner, np.sqrt(sums) / np.where(own > 0, own, 1.0))
    return out[:-1]


def standard_weights(values: Copied, free: dict[str, PyTree], groups: Groups) -> Array:
    """Return weights of groups under which the penalty does not depend on the units of parameters.

    The weight of a group of d entries is sqrt(d) s. s^2 is the mean over its entries of the
    diagonal of H_gg - H_gu H_uu^-1 H_ug, divided by the mean of that over the groups of the copy. H
    is the Hessian of the copy's objective and u its entries without a penalty. In a logistic
    regression at its intercept, s is proportional to the standard deviation of the predictor.

    Args:
        values: the objectives.
        free: the minimisers with all groups at 0.
        groups: the groups of entries.

    Returns:
        Array of shape (copies, groups).

    Reference: Friedman, Hastie and Tibshirani 2010, for standardised predictors.
    """
    places, count = _placed(values, free, groups), len(groups.weights)
    owner, group = np.asarray(places.owner), np.asarray(places.group)
    left, _ = _profiled(values, free, places, _diagonal(values, free, len(owner))[0])
    mine = np.flatnonzero(group < len(places.group_owner))
    left = left[mine]
    sums, sizes = np.zeros((values.count, count)), np.zeros((values.count, count))
    np.add.at(sums, (owner[mine], group[mine] % count), left)
    np.add.at(sizes, (owner[mine], group[mine] % count), 1.0)
    mean = np.divide(sums, sizes, out=np.zeros_like(sums), where=sizes > 0)
    usual = mean.sum(axis=1, keepdims=True) / np.maximum((sizes > 0).sum(axis=1, keepdims=True), 1)
    # A predictor that does not vary has no slope, and stays at 0 under any weight.
    share = np.divide(mean, usual, out=np.ones_like(mean), where=mean > LEAST_SHARE**2 * usual)
    return groups.weights * np.sqrt(share)


class Shear(NamedTuple):
    """How the entries without a penalty follow the others, so that their curvatures do not mix.

    Entries u without a penalty are z_u - sum over g of A_ug z_g at coordinates z, with A = H_uu^-1
    H_ug; entries g with a penalty are z_g.

    Attributes:
        slopes: A, shape (width, entries of the flat vector): row k belongs to the k-th entry
            without a penalty of each copy.
        loose: the places of the entries without a penalty, shape (copies + 1, width); the length of
            the flat vector stands for none.
    """

    slopes: PyTree
    loose: PyTree

    def moved(self, z: PyTree, owner: PyTree, sign: float) -> PyTree:
        """Return the flat vector at coordinates z (sign -1), or its coordinates (sign 1)."""
        sums = jax.ops.segment_sum((self.slopes * z[None]).T, owner, self.loose.shape[0])
        return z.at[self.loose.ravel()].add(sign * sums.ravel(), mode="drop")


def shear_at(values: Copied, free: dict[str, PyTree], groups: Groups) -> tuple[Shear, Array]:
    """Return a shear, and the metric of its coordinates, see `minimise_penalised`.

    The metric is the diagonal of H_uu, and of H_gg - H_gu H_uu^-1 H_ug; see `diagonal_metric`. If a
    copy has more than `MOST_PROBES` entries without a penalty, the shear does not move them.
    """
    places, metric = _placed(values, free, groups), diagonal_metric(values, free)
    found, shear = _profiled(values, free, places, metric)
    penalised = np.asarray(places.group) < len(places.group_owner)
    return shear, np.where(penalised, np.maximum(found, LEAST_SHARE * metric), metric)


def _profiled(values: Copied, free: dict[str, PyTree], places: _Places, diagonal: Array) -> tuple[Array, Shear]:
    """Return the diagonal of the Hessian at entries with a penalty, after profiling out the others.

    `diagonal` is the diagonal of the Hessian. The second result is the shear.
    """
    owner, group, at = np.asarray(places.owner), np.asarray(places.group), _loose(values, places)
    first, one = np.zeros(len(owner), np.int32), np.ones(len(owner))
    columns = np.zeros((at.shape[1], len(owner) + 1))
    for k in range(len(columns)):
        member = np.isin(np.arange(len(owner)), at[:, k]) - np.int32(1)
        columns[k, :-1] = _products(values, free, *map(on_device, (member, first, one)))
    # Entries of one copy have no curvature with those of another.
    there = at[:-1] < len(owner)
    own = np.where(there[:, :, None] & there[:, None, :], columns[:, at[:-1]].transpose(1, 2, 0), 0.0)
    inverse = np.linalg.pinv(own, hermitian=True)
    mine = np.flatnonzero(group < len(places.group_owner))
    slopes = np.zeros((len(columns), len(owner)))
    slopes[:, mine] = np.einsum("ekl,le->ke", inverse[owner[mine]], columns[:, mine])
    return np.maximum(diagonal - (slopes * columns[:, :-1]).sum(axis=0), 0.0), Shear(slopes, at)


def _loose(values: Copied, places: _Places) -> Array:
    """Return the places of the entries without a penalty; of none, if a copy has too many."""
    owner = np.asarray(places.owner)
    loose = np.flatnonzero((np.asarray(places.group) == len(places.group_owner)) & (owner < values.count))
    loose = loose[np.argsort(owner[loose], kind="stable")]
    rank = np.arange(len(loose)) - np.searchsorted(owner[loose], owner[loose])
    width = int(rank.max(initial=-1)) + 1
    at = np.full((values.count + 1, width), len(owner), np.int32)
    at[owner[loose], rank] = loose
    return at[:, : width * (width <= MOST_PROBES)]


def _own_weights(places: _Places, groups: Groups, weights: Array | None, copies: int) -> Array:
    """Return the weight of each group of each array; see `minimise_penalised`."""
    wide = np.broadcast_to(groups.weights, (copies, len(groups.weights))) if weights is None else weights
    return np.concatenate([wide, np.zeros_like(wide[:1])])[places.group_owner, np.arange(len(places.group_owner)) % max(wide.shape[1], 1)]


class _Places(NamedTuple):
    """Index arrays of the flat vector of all arrays, in the order of `ravel_pytree`.

    `owner` is the copy of each entry, `group` the group of each entry, and `group_owner` the copy
    of each group. Each array has its own groups. The last number stands for entries without a
    group, or without an owner.
    """

    owner: AnyArray
    group: AnyArray
    group_owner: AnyArray

    def total(self, v: jax.Array, copies: int) -> jax.Array:
        """Return the sum over the entries of each copy."""
        return jax.ops.segment_sum(v, self.owner, copies + 1)[:-1]

    def spread(self, v: jax.Array) -> jax.Array:
        """Return for each entry the value of its copy, and 1 for an entry without an owner."""
        return jnp.append(v, jnp.ones(1, v.dtype))[self.owner]

    def alike(self, metric: Array) -> tuple[Array, Array]:
        """Return the metric of all entries and the metric of each group.

        All entries of a group have the maximum of their metrics.
        """
        largest = np.zeros(len(self.group_owner) + 1)
        np.maximum.at(largest, self.group, metric)
        grouped = self.group < len(self.group_owner)
        return np.where(grouped, largest[self.group], metric), np.where(largest > 0, largest, 1.0)[:-1]

    def shrunk(self, z: jax.Array, by: jax.Array, weights: jax.Array) -> jax.Array:
        """Apply the proximal map of the penalty: move every group nearer to 0.

        A group moves by its weight times the number `by` of its copy.
        """
        count = self.group_owner.shape[0]
        norms = jnp.sqrt(jax.ops.segment_sum(z * z, self.group, count + 1))
        limit = jnp.append(jnp.append(by, 0.0)[self.group_owner] * weights, 0.0)
        share = jnp.where(norms > limit, 1 - limit / jnp.where(norms > 0, norms, 1.0), 0.0)
        return jnp.where(self.group == count, z, share[self.group] * z)


def _entries(values: Copied, free: Arrays) -> dict[str, tuple[Array, Array]]:
    """Return, for each free parameter, its unconstrained entries and their copies in all arrays.

    The parameters are in the order of `ravel_pytree`.
    """
    whole, at, found = np.asarray(values.owner), 0, {}
    for p in values.objective.frame.host.parameters:
        if p.name in free:
            here = np.arange(p.size)
            if p.kind == "simplex":  # a row of a simplex has one unconstrained entry less
                here = here.reshape(p.shape)[..., :-1].ravel()
            found[p.name] = here, whole[:, at + here]
        at += p.size
    return {name: found[name] for name in sorted(found)}


def _owners(values: Copied, free: Arrays) -> tuple[Array, Array]:
    """Return the copy and the number of the parameter of each entry of the flat vector."""
    entries = [owner.ravel() for _, owner in _entries(values, free).values()]
    return np.concatenate(entries), np.repeat(np.arange(len(entries)), [len(e) for e in entries])


def _placed(values: Copied, free: Arrays, groups: Groups) -> _Places:
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
def _gradient(values: Copied, free: Arrays) -> Arrays:
    return jax.grad(lambda f: values(f).sum())(free)


class _State(NamedTuple):
    x: jax.Array
    y: jax.Array
    momentum: jax.Array
    curvature: jax.Array
    steps: jax.Array
    gap: jax.Array  # the largest entry of the proximal gradient


def diagonal_metric(values: Copied, free: Arrays) -> Array:
    """Return the diagonal of the Hessian of each copy's objective, in the order of `ravel_pytree`.

    All entries are positive; an entry is 1 if the objective has no curvature there. A product with
    the Hessian is evaluated along one entry of a parameter in each copy. If a copy has more than
    `MOST_PROBES` entries, a product is evaluated along several entries with random signs. Those
    entries belong to one parameter, so their contributions to each other have the same units.
    """
    found, number = _diagonal(values, free, MOST_PROBES)
    sums, counts = np.bincount(number, found), np.bincount(number)
    found = np.maximum(found, LEAST_SHARE * (sums / counts)[number])
    return np.where((found > 0) & np.isfinite(found), found, 1.0)


def _diagonal(values: Copied, free: dict[str, PyTree], most: int) -> tuple[Array, Array]:
    """Return the size of the diagonal of the Hessian, and the number of each entry's parameter.

    Up to `most` entries of a parameter in a copy have a product of their own.
    """
    owner, array = _owners(values, free)
    _, number = np.unique(np.stack([array, owner]), axis=1, return_inverse=True)
    order = np.argsort(number.ravel(), kind="stable")
    rank = np.empty(len(owner), int)
    rank[order] = np.arange(len(owner)) - np.searchsorted(number.ravel()[order], number.ravel()[order])
    signs = np.where(generator(0).random(len(owner)) < 0.5, -1.0, 1.0)
    _, probe = np.unique(np.stack([array, rank % most]), axis=1, return_inverse=True)
    probe = probe.ravel().astype(np.int32)
    found = _products(values, free, *map(on_device, (probe, probe, signs)))
    return np.abs(np.asarray(found)), number.ravel()


@bounded_jit
def _products(values: Copied, free: Arrays, member: PyTree, seen: PyTree, along: PyTree) -> jax.Array:
    """Return H v at each entry of the flat vector, where H is the Hessian of all objectives.

    v is the vector number `seen` of the entry. The entries of vector k are those of `along` where
    `member` is k; all others are 0.
    """
    flat, restore = ravel_pytree(free)
    slope = jax.grad(lambda z: values(restore(z)).sum())

    def turn(k: jax.Array, found: jax.Array) -> jax.Array:
        v = jnp.where(member == k, along, 0.0).astype(flat.dtype)
        return jnp.where(seen == k, jax.jvp(slope, (flat,), (v,))[1], found)

    return jax.lax.fori_loop(0, member.max(initial=-1) + 1, turn, jnp.zeros_like(flat))


@bounded_jit
def _descent(
    values: Copied,
    free: dict[str, PyTree],
    places: _Places,
    weights: PyTree,
    numbers: PyTree,
    lengths: PyTree,
    limits: PyTree,
    shear: Shear,
) -> tuple[PyTree, ...]:
    """Return the minimisers, steps, last gaps and curvatures, one for each copy.

    A copy that has ended does not move.
    """
    (penalties, curvature), (metric, of_groups), (tolerance, most) = numbers, lengths, limits
    start, restore = ravel_pytree(free)
    start = shear.moved(start, places.owner, 1.0)
    number, spread = penalties.shape[0], places.spread

    def f(z: PyTree) -> PyTree:
        return values(restore(shear.moved(z, places.owner, -1.0)))

    def open_(s: _State) -> jax.Array:
        return (s.steps < most) & (s.gap > tolerance)

    def turn(s: _State) -> _State:
        going = open_(s)
        value, back = jax.vjp(f, s.y)
        (slope,) = back(jnp.ones_like(value))

        def moved(c: jax.Array) -> jax.Array:
            return places.shrunk(s.y - slope / (metric * spread(c)), penalties / c, weights / of_groups)

        def above(c: jax.Array) -> jax.Array:
            """Return which copies lie above the parabola of curvature c."""
            to = moved(c)
            move = to - s.y
            slack = ROUNDINGS * jnp.finfo(to.dtype).eps * jnp.abs(value)
            parabola = value + places.total(slope * move + 0.5 * spread(c) * metric * move * move, number)
            return going & (f(to) > parabola + slack) & (c < 1e12)

        def widened(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            c = jnp.where(state[1], 2 * state[0], state[0])
            return c, above(c)

        # The search begins with half of the last curvature and doubles it: `f` is compiled once.
        c, _ = jax.lax.while_loop(lambda state: state[1].any(), widened, (s.curvature / 2, going))
        to = moved(c)
        # The momentum is reset if it points uphill.
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
    return restore(shear.moved(end.x, places.owner, -1.0)), end.steps, end.gap, end.curvature
