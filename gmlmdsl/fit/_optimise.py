"""Minimisers: full-batch L-BFGS with a line search, or any optax transformation on minibatches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from ..derive import bounded_jit
from ..evaluate import Objective, unconstrained_moves

MEMORY = 20
MOST_STEPS = 3000
TOLERANCE = 1e-8  # of the largest gradient entry, per row
ROUGH = 1e-5  # where it pauses to see whether there is a minimum at all
FLAT = 1e-6  # of the largest eigenvalue: flatter directions are scaled like this one
LEAST_SLOPE = 1e-6  # of a bounded parameter or a simplex in its unconstrained one, which may run to the edge
STALLED = 5  # steps without any decrease after which digits are used up


@dataclass(frozen=True)
class Outcome:
    """Where a minimiser stopped. `trace` is the objective per unit of row weight, step by step."""

    free: dict[str, Any]
    trace: np.ndarray
    gradient: float
    steps: int
    reason: str  # converged, stalled, steps or diverged


class Scaled(eqx.Module):
    """An objective as a function of a vector z: the parameters move from `origin` by `matrix` z, by z itself where it is None."""

    objective: Objective
    origin: dict[str, Any]
    matrix: Any

    def free(self, z: Any) -> dict[str, Any]:
        """The unconstrained parameters at z."""
        flat, restore = ravel_pytree(self.origin)
        return restore(flat + (z if self.matrix is None else self.matrix @ z))

    def __call__(self, z: Any) -> Any:
        """The objective at z."""
        return self.objective(self.free(z))


def scaling(objective: Objective, free: dict[str, Any], hessian: np.ndarray, basis: np.ndarray) -> Any:
    """A matrix that makes the objective's Hessian at `free` the identity, or nearly: H^(-1/2) in the free directions.

    `hessian` is that of the objective per row in the directions of `basis`; directions in which it vanishes keep a finite scale.
    """
    if not np.isfinite(hessian).all() or not hessian.size:
        return None
    values, vectors = np.linalg.eigh(hessian)
    half = vectors / np.sqrt(np.maximum(values, FLAT * max(values.max(), 1e-300)))
    moved, at, columns = basis @ half, 0, {}
    for p in objective.frame.host.parameters:
        if p.name in free:
            columns[p.name] = unconstrained_moves(p, free[p.name], moved[at : at + p.size], LEAST_SLOPE)
        at += p.size
    return jnp.asarray(np.concatenate([columns[name] for name in sorted(columns)]))  # the order of a flattened dict


def lbfgs(scaled: Scaled, most_steps: int | None, tolerance: float = TOLERANCE) -> Outcome:
    """Full-batch L-BFGS with a zoom line search (optax), until the largest gradient entry per row is below `tolerance`."""
    size = sum(v.size for v in jax.tree.leaves(scaled.origin)) if scaled.matrix is None else scaled.matrix.shape[1]
    if not size:
        return Outcome(scaled.origin, np.array([float(scaled(jnp.zeros(0)))]), 0.0, 0, "converged")
    limit = MOST_STEPS if most_steps is None else most_steps
    room = max(limit, MOST_STEPS)  # mostly the same: one compilation
    z, trace, gradient, steps, stalled = _lbfgs(scaled, jnp.zeros(size), jnp.asarray(limit), jnp.asarray(tolerance), room)
    n, free, trace = int(steps), scaled.free(z), np.asarray(trace)  # a slice of a JAX array compiles once for each length
    if not np.isfinite(float(trace[max(n - 1, 0)])):
        reason = "diverged"
    elif float(gradient) <= tolerance:
        reason = "converged"
    else:
        reason = "stalled" if int(stalled) >= STALLED else "steps"
    return Outcome(free, trace[:n], float(gradient), n, reason)


@bounded_jit
def _lbfgs(objective: Scaled, start: Any, limit: Any, tolerance: Any, room: int) -> tuple[Any, ...]:
    optimizer = optax.lbfgs(memory_size=MEMORY)
    value_and_grad = optax.value_and_grad_from_state(objective)

    def largest(tree: Any) -> Any:
        return jnp.max(jnp.stack([jnp.max(jnp.abs(leaf), initial=0.0) for leaf in jax.tree.leaves(tree)]))

    def going(carry: tuple[Any, ...]) -> Any:
        _, _, trace, gradient, step, stalled = carry
        del trace
        return (step < limit) & (gradient > tolerance) & (stalled < STALLED)

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        free, state, trace, _, step, stalled = carry
        value, gradient = value_and_grad(free, state=state)
        updates, state = optimizer.update(gradient, state, free, value=value, grad=gradient, value_fn=objective)
        new = optax.apply_updates(free, updates)
        after = optax.tree.get(state, "value")
        ahead = largest(optax.tree.get(state, "grad"))
        trace = trace.at[step].set(after)
        return new, state, trace, ahead, step + 1, jnp.where(after < value, 0, stalled + 1)

    trace = jnp.zeros(room)
    first = (start, optimizer.init(start), trace, jnp.asarray(jnp.inf), jnp.asarray(0), jnp.asarray(0))
    free, _, trace, gradient, step, stalled = jax.lax.while_loop(going, body, first)
    return free, trace, gradient, step, stalled


def joined(first: Outcome, second: Outcome) -> Outcome:
    """Two runs, one after the other, as one."""
    trace = np.concatenate([first.trace, second.trace])
    return Outcome(second.free, trace, second.gradient, first.steps + second.steps, second.reason)


def minibatches(
    batch: Callable[[int], Objective], start: dict[str, Any], optimizer: optax.GradientTransformation, steps: int, progress: bool
) -> Outcome:
    """Steps of an optax transformation; `batch(step)` gives the objective of one batch, scaled to the whole data."""
    state, free, trace = optimizer.init(start), start, []
    for step in _progress(steps, progress):
        free, state, value = _step(optimizer, batch(step), free, state)
        trace.append(value)
    values = np.array([float(v) for v in trace])
    reason = "steps" if np.isfinite(values).all() else "diverged"
    return Outcome(free, values, float("nan"), steps, reason)


@bounded_jit
def _step(optimizer: optax.GradientTransformation, objective: Objective, free: dict[str, Any], state: Any) -> tuple[Any, Any, Any]:
    value, gradient = jax.value_and_grad(objective)(free)
    updates, state = optimizer.update(gradient, state, free)
    return optax.apply_updates(free, updates), state, value


def _progress(steps: int, show: bool) -> Iterator[int]:
    if not show:
        yield from range(steps)
        return
    from rich.progress import track

    yield from track(range(steps), description="fitting")
