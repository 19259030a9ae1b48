"""Minimisers: full-batch L-BFGS in one loop, and optax transformations on minibatches.

The loop of L-BFGS evaluates value and gradient at a single place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from .._progress import tracked
from .._types import AnyArray, Arrays
from ..derive import bounded_jit, quickly_compiled
from ..evaluate import MANY_PRODUCTS, Metric, Objective, unconstrained_moves
from ..sample import Pace
from ._long_fit import LongFit
from .limits import (
    CALL_SECONDS,
    FLAT_SCALE,
    FLOAT32_TOLERANCE,
    GRADIENT_TOLERANCE,
    LBFGS_PAIRS,
    LEAST_DECREASE,
    LEAST_DIAGONAL,
    LEAST_SLOPE,
    MOST_HALVINGS,
    MOST_PAIR_FLOATS,
    MOST_STEPS,
    ROUNDINGS,
    STALLED_STEPS,
)


@dataclass(frozen=True)
class Outcome:
    """The point at which a minimiser stopped.

    `trace` is the objective per unit of row weight, step by step. `reason` is "converged",
    "stalled", "steps" or "diverged".
    """

    free: Arrays
    trace: np.ndarray
    gradient: float
    steps: int
    reason: str  # converged, stalled, steps or diverged
    value: float = float("nan")  # the objective at that point
    # the parameters at that point, if the minimiser returns them
    params: dict[str, Any] | None = None


class Scaled(eqx.Module):
    """An objective as a function of a vector z.

    The parameters are `origin` plus `matrix` z, or plus z if `matrix` is None. `metric` is an
    approximate inverse Hessian in z, see `evaluate.Metric`; None is the identity.
    """

    objective: Objective
    origin: Arrays
    matrix: AnyArray | None
    metric: Metric | None = None

    def free(self, z: jax.Array) -> Arrays:
        """Return the unconstrained parameters at z."""
        flat, restore = ravel_pytree(self.origin)
        return restore(flat + (z if self.matrix is None else self.matrix @ z))

    def __call__(self, z: jax.Array) -> jax.Array:
        """Return the objective at z."""
        return self.objective(self.free(z))

    @property
    def size(self) -> int:
        """The number of entries of z."""
        return sum(np.size(v) for v in jax.tree.leaves(self.origin)) if self.matrix is None else self.matrix.shape[1]

    @property
    def has_single(self) -> bool:
        """Whether a first pass in float32 is worth its compilation."""
        return self.objective.products >= MANY_PRODUCTS and bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]


def scaling(objective: Objective, free: Arrays, hessian: np.ndarray, basis: np.ndarray) -> np.ndarray | None:
    """Return a matrix under which the objective's Hessian at `free` is nearly the identity.

    The matrix is H^(-1/2) in the free directions. Directions in which the Hessian vanishes have a
    finite scale.

    Args:
        objective: the objective.
        free: the unconstrained parameters.
        hessian: the Hessian of the objective per row in the directions of `basis`.
        basis: orthonormal directions of the parameters, as columns.
    """
    if not np.isfinite(hessian).all() or not hessian.size:
        return None
    unit = units(hessian)
    values, vectors = np.linalg.eigh(unit[:, None] * hessian * unit)
    half = unit[:, None] * vectors / np.sqrt(np.maximum(values, FLAT_SCALE * max(values.max(), 1e-300)))
    moved, at, columns = basis @ half, 0, {}
    for p in objective.frame.host.parameters:
        if p.name in free:
            columns[p.name] = unconstrained_moves(p, free[p.name], moved[at : at + p.size], LEAST_SLOPE)
        at += p.size
    # This is the order of a flattened dict.
    return np.concatenate([columns[name] for name in sorted(columns)])


def units(hessian: np.ndarray) -> np.ndarray:
    """Return for each direction the length along which its curvature is 1.

    Comparisons in these units do not depend on the units of parameters.
    """
    diagonal = np.diag(hessian)
    return 1 / np.sqrt(np.maximum(diagonal, max(LEAST_DIAGONAL * diagonal.max(initial=0.0), 1e-300)))


class _End(NamedTuple):
    """The end of a run of L-BFGS; `trace` has room for more than its steps."""

    free: Arrays
    params: Arrays
    trace: jax.Array
    value: jax.Array
    gradient: jax.Array
    steps: jax.Array
    stalled: jax.Array


def lbfgs(scaled: Scaled, most_steps: int | None, tolerance: float = GRADIENT_TOLERANCE, run: LongFit | None = None) -> Outcome:
    """Run full-batch L-BFGS until the largest gradient entry per row is below `tolerance`.

    A step is halved until the value falls by a share of the decrease that the slope predicts
    (Armijo). A pair of a step and a change of the gradient is not stored if the gradient does not
    grow along the step. Products of many rows are first summed in float32, as far as its precision
    allows.

    Args:
        scaled: the objective.
        most_steps: the maximum number of steps, None for the default.
        tolerance: the largest gradient entry per row at the end.
        run: the saved states of a fit, of which this run is a part; None saves nothing.

    Reference: Liu and Nocedal 1989; Nocedal and Wright 2006, algorithms 3.1 and 7.4.
    """
    limit = MOST_STEPS if most_steps is None else most_steps
    room = max(limit, MOST_STEPS)  # the same for most fits, which share one compilation
    host = scaled.objective.frame.host
    if run is None or not run.saves:
        found = _lbfgs(scaled, np.zeros(scaled.size), np.asarray(limit, np.int32), np.asarray(tolerance), room, scaled.has_single)
    else:
        like = _End(jax.tree.map(jnp.asarray, scaled.origin), {p.name: 0 for p in host.parameters}, *[0] * 5)  # pyright: ignore[reportArgumentType]
        found = run.part(lambda begun, reached: _in_pieces(scaled, limit, tolerance, room, run, begun, reached), like)
    return _outcome(scaled, found, tolerance)


def lbfgs_in_passes(
    scaled: Scaled,
    both: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    most_steps: int | None,
    begun: Sequence[Any] | None,
    reached: Callable[..., None],
) -> Outcome:
    """Run L-BFGS with an objective that no compiled program evaluates as a whole.

    Args:
        scaled: the coordinates, with an objective of some rows.
        both: returns the objective of all rows and its gradient, at coordinates.
        most_steps: the maximum number of steps, None for the default.
        begun: the state from which the run resumes, or None.
        reached: a function to be called with the state after each evaluation.
    """
    limit = MOST_STEPS if most_steps is None else most_steps
    s = _first(np.zeros(scaled.size), jnp.zeros(max(limit, MOST_STEPS)), jnp.zeros((), jnp.int32)) if begun is None else _Search(*begun)
    while bool(_goes_on(s, 0, limit, GRADIENT_TOLERANCE, limit)):
        to = s.z + s.step * s.direction
        s = _one_turn(s, to, *both(to))
        reached(lambda at=s: at)
    return _outcome(scaled, _ended(scaled, s), GRADIENT_TOLERANCE)


def _outcome(scaled: Scaled, found: _End, tolerance: float) -> Outcome:
    n, value, gradient = int(found.steps), float(found.value), float(found.gradient)
    if not np.isfinite(value):
        reason = "diverged"
    elif gradient <= tolerance:
        reason = "converged"
    else:
        reason = "stalled" if bool(found.stalled) else "steps"
    # JAX returns a sorted dict.
    named = {p.name: np.asarray(found.params[p.name]) for p in scaled.objective.frame.host.parameters}
    return Outcome(found.free, np.asarray(found.trace)[:n] if n else np.array([value]), gradient, n, reason, value, named)


class _Search(NamedTuple):
    """The state of L-BFGS.

    It contains the point with value and gradient, the direction and the step to try, the pairs, and
    counters.
    """

    z: jax.Array
    value: jax.Array
    gradient: jax.Array
    direction: jax.Array
    step: jax.Array
    moves: jax.Array  # (memory, parameters)
    changes: jax.Array
    inverse: jax.Array  # 1 / (move . change), 0 if there is no pair
    scale: jax.Array
    pairs: jax.Array
    steps: jax.Array
    shorter: jax.Array
    stalled: jax.Array
    least: jax.Array  # the smallest value and gradient so far
    trace: jax.Array
    fresh: jax.Array  # whether the start has not been evaluated yet


@quickly_compiled(lambda scaled, *_: not scaled.has_single)
def _lbfgs(scaled: Scaled, z: Any, limit: Any, tolerance: Any, room: int, single: bool) -> _End:
    s = _first(z, jnp.zeros(room), jnp.zeros((), jnp.int32))
    if single:
        s = _second(s, _minimised(scaled, s, s.steps, limit, tolerance, limit, True))
    return _ended(scaled, _minimised(scaled, s, s.steps, limit, tolerance, limit, False))


def _in_pieces(scaled: Scaled, limit: int, tolerance: float, room: int, run: LongFit, begun: Any, reached: Callable[..., None]) -> _End:
    """Run L-BFGS with the results of `_lbfgs`, in compiled calls of some steps each.

    Args:
        scaled: the objective.
        limit: the maximum number of steps.
        tolerance: the largest gradient entry per row at the end.
        room: the length of the trace.
        run: the saved states of the fit.
        begun: the state from which the run resumes, or None.
        reached: a function to be called with the state after each call.
    """
    start = _first(np.zeros(scaled.size), jnp.zeros(room), jnp.zeros((), jnp.int32))
    rough, floor, s = scaled.has_single, start.steps, start
    if begun is not None:
        rough, floor, s = bool(begun[0]), begun[1], _Search(*begun[2:])
    pace = Pace(CALL_SECONDS)
    while True:
        done = int(s.steps)
        pause = min(limit, done + run.agreed(pace.next(max(limit - done, 1))))
        s, end = _piece(scaled, s, floor, np.asarray(limit), np.asarray(tolerance), np.asarray(pause), rough)
        if int(s.steps) < pause or pause == limit:
            if not rough:
                return end
            s = _second(start, s)
            rough, floor = False, s.steps
        here = np.asarray(rough), floor, *s
        reached(lambda at=here: at)


@quickly_compiled(lambda scaled, *_: not scaled.has_single)
def _piece(scaled: Scaled, s: _Search, floor: Any, limit: Any, tolerance: Any, pause: Any, rough: bool) -> tuple[_Search, _End]:
    s = _minimised(scaled, s, floor, limit, tolerance, pause, rough)
    return s, _ended(scaled, s)


def _ended(scaled: Scaled, s: _Search) -> _End:
    free = scaled.free(s.z)
    params = scaled.objective.frame.constrain(free, scaled.objective.held)
    stalled = (s.stalled >= STALLED_STEPS) | (s.shorter >= MOST_HALVINGS)
    return _End(free, params, s.trace, s.value, _largest(s.gradient), s.steps, stalled)


def _second(start: _Search, rough: _Search) -> _Search:
    """Return the state that begins the second pass, at the end of the first one in float32."""
    return _first(jnp.where(jnp.isfinite(rough.z), rough.z, start.z), rough.trace, rough.steps)


def _largest(gradient: jax.Array) -> jax.Array:
    return jnp.abs(gradient).max(initial=0.0)


def _minimised(
    scaled: Scaled, s: _Search, floor: jax.Array, limit: jax.Array, tolerance: jax.Array, pause: jax.Array, rough: bool
) -> _Search:
    """Run the loop of L-BFGS.

    Each iteration evaluates value and gradient once, at a step that is then accepted or halved. The
    first iteration evaluates the start.

    Args:
        scaled: the objective.
        s: the state at the start.
        floor: the number of steps before this pass.
        limit: the maximum number of steps.
        tolerance: the largest gradient entry per row at the end.
        pause: the number of steps at which the loop ends, so that a later call continues it.
        rough: whether products are summed in float32.
    """
    if rough:
        scaled = dataclasses.replace(scaled, objective=dataclasses.replace(scaled.objective, rough=True))
        tolerance = jnp.maximum(tolerance, FLOAT32_TOLERANCE)
    rounding = float(jnp.finfo(jnp.float32 if rough else s.z.dtype).eps)
    both = jax.value_and_grad(scaled)

    def turn(s: _Search) -> _Search:
        to = s.z + s.step * s.direction
        return _turned(s, to, *both(to), rounding, scaled.metric)

    return jax.lax.while_loop(lambda s: _goes_on(s, floor, limit, tolerance, pause), turn, s)


def _goes_on(s: _Search, floor: Any, limit: Any, tolerance: Any, pause: Any) -> jax.Array:
    """Return whether another evaluation is needed, see `_minimised`."""
    steep = _largest(s.gradient)
    # At least one step is taken unless the gradient is 0.
    small = (steep <= tolerance) & ((s.steps > floor) | (steep == 0))
    worn = (s.stalled >= STALLED_STEPS) | (s.shorter >= MOST_HALVINGS) | ~jnp.isfinite(s.value)
    return s.fresh | ((s.steps < limit) & (s.steps < pause) & ~small & ~worn)


def _turned(s: _Search, to: jax.Array, value: jax.Array, gradient: jax.Array, rounding: float, metric: Metric | None) -> _Search:
    """Return the state after an evaluation at `to`: the step is accepted, or halved."""
    slope, slack = s.gradient @ s.direction, ROUNDINGS * rounding * jnp.abs(s.value)
    taken = s.fresh | ((value <= s.value + LEAST_DECREASE * s.step * slope + slack) & jnp.isfinite(gradient).all())
    return jax.lax.cond(
        taken, lambda: _advanced(s, to, value, gradient, rounding, metric), lambda: s._replace(step=s.step / 2, shorter=s.shorter + 1)
    )


@bounded_jit
def _one_turn(s: _Search, to: jax.Array, value: jax.Array, gradient: jax.Array) -> _Search:
    return _turned(s, to, value, gradient, float(jnp.finfo(s.z.dtype).eps), None)


def _first(z: Any, trace: jax.Array, steps: jax.Array) -> _Search:
    """Return the state before the first evaluation."""
    z = jnp.asarray(z)
    memory = max(3, min(LBFGS_PAIRS, MOST_PAIR_FLOATS // (2 * max(z.shape[0], 1))))
    none, zero, flat = jnp.zeros((memory, z.shape[0]), z.dtype), jnp.zeros((), jnp.int32), jnp.zeros_like(z)
    unknown, one = jnp.full((), jnp.inf, z.dtype), jnp.ones((), z.dtype)
    pairs = none, none, jnp.zeros(memory, z.dtype), one, zero
    return _Search(z, unknown, flat, flat, one, *pairs, steps, zero, zero, jnp.stack([unknown, unknown]), trace, jnp.asarray(True))


def _advanced(s: _Search, to: jax.Array, value: jax.Array, gradient: jax.Array, rounding: float, metric: Metric | None) -> _Search:
    """Return the state after an accepted step."""
    newton = (lambda v: v) if metric is None else metric
    move, change = to - s.z, gradient - s.gradient
    product = move @ change
    curved = product > rounding * (move @ move)
    place = s.pairs % s.moves.shape[0]

    def kept(pairs: jax.Array, one: jax.Array) -> jax.Array:
        return jnp.where(curved, pairs.at[place].set(one), pairs)

    moves, changes, inverse = kept(s.moves, move), kept(s.changes, change), kept(s.inverse, 1 / jnp.where(curved, product, 1.0))
    scale = jnp.where(curved, product / jnp.where(curved, change @ newton(change), 1.0), s.scale)
    pairs = s.pairs + curved.astype(s.pairs.dtype)
    here = jnp.stack([value, _largest(gradient)])
    direction = _direction(gradient, moves, changes, inverse, lambda v: scale * newton(v), pairs)
    # Without a metric or a pair, as at the start, the length of a step is unknown.
    known = jnp.asarray(metric is not None) | (pairs > 0)
    short = jnp.minimum(1.0, 1.0 / jnp.maximum(jnp.sqrt(gradient @ gradient), 1e-30))
    return s._replace(
        z=to,
        value=value,
        gradient=gradient,
        direction=jnp.where(gradient @ direction < 0, direction, -gradient),
        step=jnp.where(known, 1.0, short).astype(s.step.dtype),
        moves=moves,
        changes=changes,
        inverse=inverse,
        scale=scale,
        pairs=pairs,
        steps=jnp.where(s.fresh, s.steps, s.steps + 1),
        shorter=jnp.zeros_like(s.shorter),
        stalled=jnp.where((here < s.least).any(), 0, s.stalled + 1),
        least=jnp.minimum(here, s.least),
        trace=s.trace.at[s.steps].set(value),
        fresh=jnp.asarray(False),
    )


def _direction(
    gradient: jax.Array, moves: jax.Array, changes: jax.Array, inverse: jax.Array, rough: Callable[[jax.Array], jax.Array], pairs: jax.Array
) -> jax.Array:
    """Return -H gradient by the two-loop recursion.

    H is the inverse Hessian that the pairs determine; `rough` replaces it elsewhere.
    """
    memory = moves.shape[0]

    def back(k: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        q, parts = carry
        at = (pairs - 1 - k) % memory
        part = inverse[at] * (moves[at] @ q)
        return q - part * changes[at], parts.at[at].set(part)

    def forth(k: jax.Array, r: jax.Array) -> jax.Array:
        at = (pairs + k) % memory
        return r + moves[at] * (parts[at] - inverse[at] * (changes[at] @ r))

    q, parts = jax.lax.fori_loop(0, memory, back, (gradient, jnp.zeros(memory, gradient.dtype)))
    return -jax.lax.fori_loop(0, memory, forth, rough(q))


def joined(first: Outcome, second: Outcome) -> Outcome:
    """Return two consecutive runs as one."""
    trace = np.concatenate([first.trace, second.trace])
    return dataclasses.replace(second, trace=trace, steps=first.steps + second.steps)


def minibatches(
    batch: Callable[[int], Objective], start: Arrays, optimizer: optax.GradientTransformation, steps: int, progress: bool, run: LongFit
) -> Outcome:
    """Run the steps of an optax transformation.

    `batch(step)` returns the objective of one batch, scaled to the whole data.

    Args:
        batch: a function from the number of a step to the objective of its batch.
        start: the unconstrained starting values.
        optimizer: the optax transformation.
        steps: the number of steps.
        progress: whether a progress bar is shown.
        run: the saved states of the fit.
    """
    begun, free, state, trace = 0, jax.tree.map(jnp.asarray, start), optimizer.init(start), []
    found = run.begun(lambda step: (free, state, np.zeros(step)))
    if found is not None:
        begun, (free, state, values) = found
        trace = [*values]
    for step in tracked(range(begun, steps), "fitting", progress):
        free, state, value = _step(optimizer, batch(step), free, state)
        trace.append(value)
        here = free, state
        run.reached(step + 1, lambda at=here: (*at, np.array([float(v) for v in trace])))
    values = np.array([float(v) for v in trace])
    reason = "steps" if np.isfinite(values).all() else "diverged"
    return Outcome(free, values, float("nan"), steps, reason)


@bounded_jit
def _step(
    optimizer: optax.GradientTransformation, objective: Objective, free: Arrays, state: optax.OptState
) -> tuple[Any, optax.OptState, jax.Array]:
    value, gradient = jax.value_and_grad(objective)(free)
    updates, state = optimizer.update(gradient, state, free)
    return optax.apply_updates(free, updates), state, value
