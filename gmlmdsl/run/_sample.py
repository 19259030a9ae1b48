"""Runs a kernel: starts, warm-up, and one scan over draws for all chains at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail
from ..derive import AbstractKernel, Info, State, Target, compiled, graph_arrays, log_potential
from ..graph import FactorGraph
from ._data import encode

Array = np.ndarray
STEPS_PER_CALL = 64  # draws per compiled call: the progress bar moves between calls
START_TRIES = 2000
Observe = Callable[[jax.Array], dict[str, jax.Array]]


@dataclass(frozen=True)
class Draws:
    """What sampling gives.

    Attributes:
        codes: (chains, draws, cells), or None where draws were not kept.
        log_potential: unnormalised log p, (chains, draws).
        changed, drawn: cells that changed and that were drawn, (chains, draws, updates).
        observed: by name, (chains, draws, *shape).
        last: the final codes, (cells, chains).
    """

    codes: Array | None
    log_potential: Array
    changed: Array
    drawn: Array
    observed: dict[str, Array]
    last: Array


def starts(graph: FactorGraph, chains: int, seed: int, init: Any, held: tuple[Array, Array], params: Mapping[str, Any]) -> Array:
    """Codes of shape (cells, chains) with positive probability: given, or independent uniform values.

    Raises:
        GmlmError: E509 if a start is impossible, or no uniform start was found that satisfies every `require`.
    """
    fixed, values = held
    device = graph_arrays(graph)

    def possible(codes: Array) -> Array:
        return np.asarray(compiled.log_potential(device, params, jnp.asarray(codes))) > -np.inf

    if init is not None:
        data = encode(graph, init, "init")
        if data.shape not in ((), (chains,)):
            raise fail("E501", f"init must hold one configuration, or one for each of {chains} chains, got rows of shape {data.shape}")
        codes = np.broadcast_to(data.codes, (graph.n_cells, chains)).copy()
        codes[fixed] = values[fixed, None]
        bad = ~possible(codes)
        if bad.any():
            raise fail(
                "E509", f"the start of chain {int(np.argmax(bad))} has probability zero", help="pass another `init=`, or loosen `clamp=`"
            )
        return codes
    codes = np.zeros((graph.n_cells, chains), np.int32)
    for c in range(chains):
        rng = np.random.default_rng([seed, c])
        tries = 1
        while True:  # more at a time after each failure
            found = rng.integers(0, graph.sizes[:, None], (graph.n_cells, tries), dtype=np.int32)
            found[fixed] = values[fixed, None]
            good = possible(found)
            if good.any():
                codes[:, c] = found[:, int(np.argmax(good))]
                break
            if tries >= START_TRIES:
                raise fail(
                    "E509",
                    "no start of positive probability was found among uniform values",
                    help="pass one that satisfies every `require`: `init=..`",
                )
            tries = min(START_TRIES, tries * 8)
    return codes


def sample(
    kernel: AbstractKernel,
    target: Target,
    codes: Array,
    *,
    seed: int,
    draws: int,
    warmup: int,
    thin: int,
    observe: Observe | None,
    keep: bool,
    progress: bool,
) -> Draws:
    """Run every chain from its start; draw t of chain c depends on the seed, c and t only."""
    chains = codes.shape[1]
    keys = jax.vmap(lambda c: jax.random.fold_in(jax.random.key(seed), c))(jnp.arange(chains))
    state = kernel.init(jnp.asarray(codes, jnp.int32))
    state = _advance(kernel, target, keys, state, jnp.asarray(0), jnp.asarray(warmup))
    parts = []
    per_call = min(STEPS_PER_CALL, draws)
    with _bar(draws, progress) as moved:
        for start in range(0, draws, per_call):
            count = min(per_call, draws - start)
            # The last call runs whole too, so that it needs no second compilation; what is too much is cut off.
            first = jnp.asarray(warmup + start * thin)
            state, out = _record(kernel, target, keys, state, first, jnp.asarray(thin), per_call, observe, keep)
            parts.append(jax.tree.map(lambda a, n=count: np.asarray(a)[:n], out))
            moved(count, parts[-1])
    stacked = jax.tree.map(lambda *a: np.concatenate(a), *parts)
    return Draws(
        None if stacked["codes"] is None else np.moveaxis(stacked["codes"], 2, 0),
        stacked["log_potential"].T,
        np.moveaxis(stacked["info"].changed, 2, 0),
        np.moveaxis(stacked["info"].drawn, 2, 0),
        {k: np.moveaxis(v, 1, 0) for k, v in stacked["observed"].items()},
        np.asarray(state.codes),
    )


@eqx.filter_jit
def _advance(kernel: AbstractKernel, target: Target, keys: Any, state: State, first: Any, count: Any) -> State:
    def step(t: Any, state: State) -> State:
        return kernel.step(target, _step_keys(keys, t), state)[0]

    return jax.lax.fori_loop(first, first + count, step, state)


@eqx.filter_jit
def _record(
    kernel: AbstractKernel, target: Target, keys: Any, state: State, first: Any, thin: Any, count: int, observe: Observe | None, keep: bool
) -> tuple[State, dict[str, Any]]:
    chains = state.codes.shape[1]
    none = jnp.zeros((kernel.updates, chains), jnp.int32)

    def one(state: State, k: Any) -> tuple[State, dict[str, Any]]:
        def step(j: Any, carry: tuple[State, Info]) -> tuple[State, Info]:
            state, info = carry
            state, more = kernel.step(target, _step_keys(keys, first + k * thin + j), state)
            return state, Info(info.changed + more.changed, info.drawn + more.drawn)

        state, info = jax.lax.fori_loop(0, thin, step, (state, Info(none, none)))
        out = {
            "codes": state.codes.astype(_small(target)) if keep else None,
            "log_potential": log_potential(target.graph, target.params, state.codes),
            "info": info,
            "observed": {} if observe is None else observe(state.codes),
        }
        return state, out

    return jax.lax.scan(one, state, jnp.arange(count))


def _small(target: Target) -> Any:
    return jnp.int32 if target.graph.most_values > 127 else jnp.int8


def _step_keys(keys: Any, t: Any) -> Any:
    return jax.vmap(lambda k: jax.random.fold_in(k, t))(keys)


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
            note = f"log p {out['log_potential'][-1].mean():.4g}, flip rate {rate:.2g}"
            assert self.progress is not None
            self.progress.update(task, advance=count, note=note)

        return moved

    def __exit__(self, *exc: object) -> None:
        if self.progress is not None:
            self.progress.stop()
