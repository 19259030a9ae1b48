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

from ._objective import Objective

MEMORY = 20
MOST_STEPS = 3000
TOLERANCE = 1e-8  # of the largest gradient entry, per row
ROUGH = 1e-5  # where it pauses to see whether there is a minimum at all
STALLED = 5  # steps without any decrease after which digits are used up


@dataclass(frozen=True)
class Outcome:
    """Where a minimiser stopped. `trace` is the objective per unit of row weight, step by step."""

    free: dict[str, Any]
    trace: np.ndarray
    gradient: float
    steps: int
    reason: str  # converged, stalled, steps or diverged


def lbfgs(objective: Objective, start: dict[str, Any], most_steps: int | None, tolerance: float = TOLERANCE) -> Outcome:
    """Full-batch L-BFGS with a zoom line search (optax), until the largest gradient entry per row is below `tolerance`."""
    if not start:
        return Outcome({}, np.array([float(objective(start))]), 0.0, 0, "converged")
    limit = MOST_STEPS if most_steps is None else most_steps
    free, trace, gradient, steps, stalled = _lbfgs(objective, start, jnp.asarray(limit), jnp.asarray(tolerance))
    n = int(steps)
    if not np.isfinite(float(trace[max(n - 1, 0)])):
        reason = "diverged"
    elif float(gradient) <= tolerance:
        reason = "converged"
    else:
        reason = "stalled" if int(stalled) >= STALLED else "steps"
    return Outcome(free, np.asarray(trace[:n]), float(gradient), n, reason)


@eqx.filter_jit
def _lbfgs(objective: Objective, start: dict[str, Any], limit: Any, tolerance: Any) -> tuple[Any, ...]:
    optimizer = optax.lbfgs(memory_size=MEMORY)
    value_and_grad = optax.value_and_grad_from_state(objective)

    def largest(tree: Any) -> Any:
        return jnp.max(jnp.stack([jnp.max(jnp.abs(leaf), initial=0.0) for leaf in jax.tree.leaves(tree)]))

    def going(carry: tuple[Any, ...]) -> Any:
        _, _, trace, gradient, step, stalled = carry
        del trace
        return (step < jnp.minimum(limit, MOST_STEPS)) & (gradient > tolerance) & (stalled < STALLED)

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        free, state, trace, _, step, stalled = carry
        value, gradient = value_and_grad(free, state=state)
        updates, state = optimizer.update(gradient, state, free, value=value, grad=gradient, value_fn=objective)
        new = optax.apply_updates(free, updates)
        after = optax.tree.get(state, "value")
        ahead = largest(optax.tree.get(state, "grad"))
        trace = trace.at[step].set(after)
        return new, state, trace, ahead, step + 1, jnp.where(after < value, 0, stalled + 1)

    trace = jnp.zeros(MOST_STEPS)
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


@eqx.filter_jit
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
