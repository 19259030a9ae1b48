"""The compiled loops of a kernel: annealing, and one scan over draws for all chains at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..derive import AbstractKernel, Info, State, Target, bounded_jit, float_type, fold
from . import limits

if TYPE_CHECKING:
    from jaxtyping import PyTree

Array = np.ndarray
Observe = Callable[[jax.Array], dict[str, jax.Array]]


@dataclass(frozen=True)
class Draws:
    """Result of sampling.

    Attributes:
        codes: (chains, draws, cells), or None if draws were not kept.
        score: unnormalised log p, or the score that the kernel records instead, (chains, draws); if
            draws are not kept, only that of the last draw of each compiled call; None if there is
            none.
        changed, drawn: numbers of cells that changed and that were drawn, (chains, draws, updates).
        proposed, accepted: numbers of exchanges of neighbouring replicas, (chains, draws, pairs).
        observed: by name, (chains, draws, *shape).
        last: the final codes, (cells, chains).
    """

    codes: Array | None
    score: Array | None
    changed: Array
    drawn: Array
    proposed: Array
    accepted: Array
    observed: dict[str, Array]
    last: Array


@bounded_jit
def cool(kernel: AbstractKernel, target: Target, keys: jax.Array, state: State, count: jax.Array) -> State:
    """Return the states after `count` steps on p to the power 1/count, 2/count, .., 1."""
    keys, hot = fold(keys, limits.ANNEALING_STEP), target._replace(beta=jnp.ones(state.codes.shape[1], float_type()))
    ready = kernel.prepared(hot)

    def step(t: Any, carried: PyTree) -> PyTree:
        return ready.move(hot._replace(beta=hot.beta * ((t + 1) / count)), fold(keys, t), carried)[0]

    return ready.leave(hot, jax.lax.fori_loop(0, count, step, ready.enter(hot, state)))


@bounded_jit
def record(
    kernel: AbstractKernel,
    target: Target,
    keys: jax.Array,
    state: State,
    first: jax.Array,
    thin: jax.Array,
    count: jax.Array,
    most: int,
    observe: Observe | None,
    keep: bool,
) -> tuple[State, dict[str, PyTree]]:
    """Record `count` draws, then zeros up to `most`.

    If draws are not kept, only the last log p is recorded.
    """
    ready, small = kernel.prepared(target), jnp.int32 if target.graph.most_values > 127 else jnp.int8

    def of(carried: PyTree) -> dict[str, PyTree]:
        state = ready.leave(target, carried)
        return {
            "codes": state.codes.astype(small) if keep else None,
            "score": kernel.score(target, state) if keep else None,
            "observed": {} if observe is None else observe(state.codes),
        }

    def nothing(carried: PyTree) -> dict[str, PyTree]:
        return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(of, carried))

    def one(carried: PyTree, k: jax.Array) -> tuple[PyTree, dict[str, PyTree]]:
        def step(j: jax.Array, carry: tuple[PyTree, Info]) -> tuple[PyTree, Info]:
            carried, info = carry
            carried, more = ready.move(target, fold(keys, first + k * thin + j), carried)
            return carried, jax.tree.map(jnp.add, info, more)

        steps = jnp.where(k < count, thin, 0)
        carried, info = jax.lax.fori_loop(0, steps, step, (carried, kernel.nothing(state.codes.shape[1])))
        return carried, jax.lax.cond(k < count, of, nothing, carried) | {"info": info}

    carried, out = jax.lax.scan(one, ready.enter(target, state), jnp.arange(most))
    state = ready.leave(target, carried)
    last = None if keep else kernel.score(target, state)
    return state, out if last is None else out | {"score": last[None]}
