"""Runs of a kernel: annealing, warm-up, and one scan over draws for all chains at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._progress import DrawsBar
from ..data import keys_of
from ..derive import AbstractKernel, Info, Spread, State, Target, bounded_jit, fetched, float_type, fold, on_device
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
        memory: the results of `remember` for all draws, with a leading axis of draws.
        changed, drawn: numbers of cells that changed and that were drawn, (chains, draws, updates).
        proposed, accepted: numbers of exchanges of neighbouring replicas, (chains, draws, pairs).
        observed: by name, (chains, draws, *shape).
        last: the final codes, (cells, chains).
    """

    codes: Array | None
    score: Array | None
    memory: PyTree
    changed: Array
    drawn: Array
    proposed: Array
    accepted: Array
    observed: dict[str, Array]
    last: Array


def forget(state: State) -> None:
    """Return None: nothing beside the codes is kept."""


def sample(
    kernel: AbstractKernel,
    target: Target,
    codes: Array,
    *,
    seed: int,
    draws: int,
    warmup: int,
    thin: int,
    anneal: int = 0,
    observe: Observe | None,
    keep: bool,
    progress: bool,
    keys: jax.Array | None = None,
    remember: Callable[[State], PyTree] = forget,
    spread: Spread | None = None,
) -> Draws:
    """Run every chain from its start; draw t of chain c depends only on the seed, c and t.

    Without `keys`, chains and draws are padded to sizes that many calls share, so that these calls
    compile nothing.

    Args:
        kernel: the kernel.
        target: the distribution to draw from.
        codes: the starts, shape (cells, chains).
        seed: the seed.
        draws: the number of draws of each chain.
        warmup: the number of steps before the first draw.
        thin: the number of steps for each draw.
        anneal: the number of steps before the warm-up, on p to the power 1/anneal, 2/anneal, .., 1.
        observe: the function of codes that is recorded of each draw, or None.
        keep: whether draws are kept.
        progress: whether to show a progress bar.
        keys: the keys of the chains, if they do not follow from the chains' numbers.
        remember: returns the part of a state that is kept of each draw beside the codes.
        spread: the axis of a mesh over which chains are spread, or None.
    """
    chains, per_call = codes.shape[1], min(limits.STEPS_PER_CALL, 1 << (draws - 1).bit_length())
    if keys is None:
        run = filled_up(chains) if spread is None else spread.filled(filled_up(chains))
        numbers = np.minimum(np.arange(run), chains - 1)
        keys, codes = keys_of(seed, numbers), codes if len(numbers) == chains else codes[:, numbers]
        keys = keys if spread is None else spread.put_keys(keys)
        per_call = limits.STEPS_PER_CALL if limits.STEPS_PER_CALL * codes.size <= limits.MOST_SPARE else per_call
    state = _first_state(kernel, codes, spread)
    if anneal:
        state = _cool(kernel, target, keys, state, _whole(anneal))
    parts = []

    def recorded(state: State, first: int, thin: int, count: int) -> tuple[State, dict[str, PyTree]]:
        steps = _whole(first), _whole(thin), _whole(count)
        return _record(kernel, target, keys, state, *steps, per_call, observe, keep, remember)

    # The warm-up records one draw that is discarded, after `warmup` steps: a program of its own
    # would take as long again to compile.
    if warmup:
        state, _ = recorded(state, 0, warmup, 1)
    with DrawsBar(draws, progress) as moved:
        for start in range(0, draws, per_call):
            count = min(per_call, draws - start)
            # Every call records the same number of draws, so that one compilation suffices. The
            # last call takes no steps for the draws that it cuts off.
            state, out = recorded(state, warmup + start * thin, thin, count)
            parts.append(jax.tree.map(lambda a, n=count: fetched(a)[:n], out))
            moved(count, parts[-1])
    stacked = jax.tree.map(lambda *a: np.concatenate(a), *parts)
    return _chains_first(stacked, chains, fetched(state.codes))


def _chains_first(out: dict[str, PyTree], chains: int, last: Array) -> Draws:
    """Return the output of `_record` for all draws, without the padding of a call."""
    info = jax.tree.map(lambda rows: np.moveaxis(rows, 2, 0)[:chains], out["info"])
    return Draws(
        None if out["codes"] is None else np.moveaxis(out["codes"], 2, 0)[:chains],
        None if out["score"] is None else out["score"].T[:chains],
        out["memory"],
        info.changed,
        info.drawn,
        info.proposed,
        info.accepted,
        {k: np.moveaxis(v, 1, 0)[:chains] for k, v in out["observed"].items()},
        last[:, :chains],
    )


def filled_up(chains: int) -> int:
    """Return the number of chains that are run for `chains` chains.

    The last chain is repeated to fill up, and its copies are dropped again.
    """
    return 1 << (chains - 1).bit_length() if chains <= limits.LANES else -(-chains // limits.LANES) * limits.LANES


def _whole(number: int) -> jax.Array:
    """Return an integer on the device, without compiling anything."""
    return on_device(number, jax.dtypes.result_type(int))


def _first_state(kernel: AbstractKernel, codes: Array, spread: Spread | None) -> State:
    """Return the first state; nothing is compiled for a kernel that remembers nothing beside the codes."""
    begun = on_device(codes, np.int32) if spread is None else spread.put(np.asarray(codes, np.int32))
    return _begun(kernel, begun) if kernel.remembers else kernel.init(begun)


@bounded_jit
def _begun(kernel: AbstractKernel, codes: jax.Array) -> State:
    return kernel.init(codes)


@bounded_jit
def _cool(kernel: AbstractKernel, target: Target, keys: jax.Array, state: State, count: jax.Array) -> State:
    keys, hot = fold(keys, limits.ANNEALING), target._replace(beta=jnp.ones(state.codes.shape[1], float_type()))
    ready = kernel.prepared(hot)

    def step(t: Any, carried: PyTree) -> PyTree:
        return ready.move(hot._replace(beta=hot.beta * ((t + 1) / count)), fold(keys, t), carried)[0]

    return ready.leave(hot, jax.lax.fori_loop(0, count, step, ready.enter(hot, state)))


@bounded_jit
def _record(
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
    remember: Callable[[State], PyTree] = forget,
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
            "memory": remember(state) if keep else None,
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
