"""Runs a kernel: annealing, warm-up, and one scan over draws for all chains at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..data import keys_of
from ..derive import AbstractKernel, Info, State, Target, bounded_jit, float_type, fold

Array = np.ndarray
STEPS_PER_CALL = 64  # draws per compiled call: the progress bar moves between calls
ANNEALING = 2**32 - 1  # folded into the keys of annealing steps: no step of the chain has that number
Observe = Callable[[jax.Array], dict[str, jax.Array]]


@dataclass(frozen=True)
class Draws:
    """What sampling gives.

    Attributes:
        codes: (chains, draws, cells), or None where draws were not kept.
        score: unnormalised log p, or what the kernel records instead, (chains, draws); None where there is nothing.
        memory: what `remember` gave of each draw, leading axis draws.
        changed, drawn: cells that changed and that were drawn, (chains, draws, updates).
        proposed, accepted: exchanges of neighbouring replicas, (chains, draws, pairs).
        observed: by name, (chains, draws, *shape).
        last: the final codes, (cells, chains).
    """

    codes: Array | None
    score: Array | None
    memory: Any
    changed: Array
    drawn: Array
    proposed: Array
    accepted: Array
    observed: dict[str, Array]
    last: Array


def forget(state: State) -> None:
    """Keep nothing beside the codes."""


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
    keys: Any = None,
    remember: Callable[[State], Any] = forget,
) -> Draws:
    """Run every chain from its start; draw t of chain c depends on the seed, c and t only.

    Before the warm-up come `anneal` steps on p to the power 1/anneal, 2/anneal, .., 1. `keys` are the chains' own, where a chain's
    number does not say which it is; `remember` keeps of each draw what a kernel leaves beside the codes.
    """
    keys = keys_of(seed, np.arange(codes.shape[1])) if keys is None else keys
    state = kernel.init(jnp.asarray(codes, jnp.int32))
    if anneal:
        state = _cool(kernel, target, fold(keys, ANNEALING), state, _whole(anneal))
    parts = []
    per_call = min(STEPS_PER_CALL, draws)

    def recorded(state: State, first: int, thin: int, count: int) -> tuple[State, dict[str, Any]]:
        steps = _whole(first), _whole(thin), _whole(count)
        return _record(kernel, target, keys, state, *steps, per_call, observe, keep, remember)

    if warmup:  # one draw that nobody keeps, behind so many steps: a program of its own would be compiled as long again
        state, _ = recorded(state, 0, warmup, 1)
    with _bar(draws, progress) as moved:
        for start in range(0, draws, per_call):
            count = min(per_call, draws - start)
            # Every call records as many draws, so that one compilation serves; the last takes no step for those it cuts off.
            state, out = recorded(state, warmup + start * thin, thin, count)
            parts.append(jax.tree.map(lambda a, n=count: np.asarray(a)[:n], out))
            moved(count, parts[-1])
    stacked = jax.tree.map(lambda *a: np.concatenate(a), *parts)
    info = jax.tree.map(lambda rows: np.moveaxis(rows, 2, 0), stacked["info"])
    return Draws(
        None if stacked["codes"] is None else np.moveaxis(stacked["codes"], 2, 0),
        None if stacked["score"] is None else stacked["score"].T,
        stacked["memory"],
        info.changed,
        info.drawn,
        info.proposed,
        info.accepted,
        {k: np.moveaxis(v, 1, 0) for k, v in stacked["observed"].items()},
        np.asarray(state.codes),
    )


def _whole(number: int) -> jax.Array:
    """A number on the device, for which nothing is compiled."""
    return jax.device_put(np.asarray(number, jax.dtypes.result_type(int)))


@bounded_jit
def _cool(kernel: AbstractKernel, target: Target, keys: Any, state: State, count: Any) -> State:
    def step(t: Any, state: State) -> State:
        beta = jnp.full(state.codes.shape[1], (t + 1) / count, float_type())
        return kernel.step(target._replace(beta=beta), fold(keys, t), state)[0]

    return jax.lax.fori_loop(0, count, step, state)


@bounded_jit
def _record(
    kernel: AbstractKernel,
    target: Target,
    keys: Any,
    state: State,
    first: Any,
    thin: Any,
    count: Any,
    most: int,
    observe: Observe | None,
    keep: bool,
    remember: Callable[[State], Any] = forget,
) -> tuple[State, dict[str, Any]]:
    """`count` draws, and as many copies of the last as make `most`."""

    def one(state: State, k: Any) -> tuple[State, dict[str, Any]]:
        def step(j: Any, carry: tuple[State, Info]) -> tuple[State, Info]:
            state, info = carry
            state, more = kernel.step(target, fold(keys, first + k * thin + j), state)
            return state, jax.tree.map(jnp.add, info, more)

        steps = jnp.where(k < count, thin, 0)
        state, info = jax.lax.fori_loop(0, steps, step, (state, kernel.nothing(state.codes.shape[1])))
        out = {
            "codes": state.codes.astype(_small(target)) if keep else None,
            "score": kernel.score(target, state),
            "memory": remember(state) if keep else None,
            "info": info,
            "observed": {} if observe is None else observe(state.codes),
        }
        return state, out

    return jax.lax.scan(one, state, jnp.arange(most))


def _small(target: Target) -> Any:
    return jnp.int32 if target.graph.most_values > 127 else jnp.int8


class _bar:
    """A progress bar over draws: time left, log p and flip rate; nothing where it is not wanted."""

    def __init__(self, total: int, show: bool):
        self.total, self.show, self.progress = total, show, None

    def __enter__(self) -> Callable[[int, dict[str, Any]], None]:
        if not self.show:
            return lambda count, out: None
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("sampling"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} draws"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self.progress = Progress(*columns)
        self.progress.start()
        task = self.progress.add_task("", total=self.total, note="")

        def moved(count: int, out: dict[str, Any]) -> None:
            rate = out["info"].changed.sum() / max(out["info"].drawn.sum(), 1)
            score = "" if out["score"] is None else f"log p {out['score'][-1].mean():.4g}, "
            note = f"{score}flip rate {rate:.2g}"
            assert self.progress is not None
            self.progress.update(task, advance=count, note=note)

        return moved

    def __exit__(self, *exc: object) -> None:
        if self.progress is not None:
            self.progress.stop()
