"""Prompts completed with backtracking over a causal network, beside a loop of Python whose steps are compiled once, a prompt at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import gmlmdsl as gm
from gmlmdsl.derive import CausalOracle
from gmlmdsl.networks import Probe

from ._measure import Check, Report, figure, ratio

PROGRAM = """
input layers : int
input width : int
network lm = transformer(layers = layers, heads = 8, width = width, causal = true)
model words {
  var x[i in range(64)] : range(5)
  conditional x ~ lm()
}
verifier seen = probe(lm, threshold = 0.5)
sampler plain = autoregressive(decode = sample, top_p = 0.9)
sampler back = backtracking(seen, quota = 4, stride = 4, top_p = 0.9)
"""
CELLS, QUOTA, STRIDE, TOP_P = 64, 4, 4, 0.9
ALONE = 64  # rows of the network alone
GOAL = 1 / 5  # of the processor time of the loop of Python


WARM = 64  # prompts of the first call, which compiles: as many rows as are drawn side by side
ERRORS = 4.5  # standard errors that means of both may be apart


class Spent:
    """What calls took, a prompt: of the processor, all threads together, and by the clock."""

    def __init__(self, prompts: int):
        self.prompts, self.processor, self.clock = prompts, [], []

    def on(self, call: Callable[[], Any]) -> Any:
        """What a call returns, its time added."""
        clock, processor = time.perf_counter(), time.process_time()
        found = call()
        self.processor.append((time.process_time() - processor) / self.prompts)
        self.clock.append((time.perf_counter() - clock) / self.prompts)
        return found


def run(quick: bool) -> Report:
    """Time a prompt, of 10 000 prompts at once and of some one at a time; weights are random: what is drawn is no text, and takes as many calls.

    The loop of Python completes 64 of the same prompts in each round, as it takes each alone: its time for all is that many times as much.
    The first calls of each, which compile, are figures of their own. Then all take turns: what else runs on the machine slows all alike.
    """
    layers, width, many, few = (1, 16, 64, 16) if quick else (6, 128, 10_000, 64)
    model = gm.parse(PROGRAM, layers=layers, width=width).model()
    params = with_probe(model)
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, 5, n).tolist() for n in rng.integers(25, 32, many)]
    plain = Plain(params)
    first, first_plain = Spent(1), Spent(1)
    first.on(lambda: model.sample(params, "back", prompt=prompts[:WARM], seed=0, progress=False))
    first_plain.on(lambda: plain.complete(prompts[:1], 0))
    network_alone(params, ALONE, 1)
    unguided = prompts[: 8 * WARM]
    model.sample(params, "plain", prompt=unguided, seed=0, progress=False)
    ours, theirs, alone, draws = Spent(many), Spent(few), Spent(ALONE), Spent(len(unguided))
    took: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for seed in range(1 if quick else 3):
        found = ours.on(lambda seed=seed: model.sample(params, "back", prompt=prompts, seed=seed, progress=False))
        took[1].append(theirs.on(lambda seed=seed: plain.complete(prompts[seed * few : (seed + 1) * few], seed)))
        took[0].append(counted(found))
        draws.on(lambda seed=seed: model.sample(params, "plain", prompt=unguided, seed=seed, progress=False))
        alone.on(lambda: network_alone(params, ALONE, round(float(took[0][-1][:, 0].mean()))))
    words = f"{layers} layers, width {width}, prompts of 25 to 31 symbols completed to {CELLS}"
    names, looped = ("gmlmdsl sample", "a compiled step in a loop of Python"), "gmlmdsl / loop of Python"
    steps = f"as many steps of it, {ALONE} rows at once, without draws and verdicts"
    figures = (
        figure("guided", names[0], f"processor time a prompt, {many:,} at once; {words}", ours.processor, "s"),
        figure("guided", names[0], f"by the clock, all {many:,} prompts", [many * t for t in ours.clock], "s"),
        figure("guided", names[1], f"processor time a prompt, {few} of them one at a time; {words}", theirs.processor, "s"),
        figure("guided", names[1], f"by the clock, {many:,} prompts: {many / few:g} times what {few} took", [many * t for t in theirs.clock], "s"),
        figure("guided", "autoregressive", f"processor time a prompt, {len(unguided)} at once, nothing verified; {words}", draws.processor, "s"),
        figure("guided", "the network alone", steps, alone.processor, "s"),
        ratio("guided", looped, f"processor time a prompt; {words}", ours.processor, theirs.processor, GOAL),
        ratio("guided", looped, f"the same by the clock; {words}", ours.clock, theirs.clock, GOAL),
        ratio("guided", "gmlmdsl / the network alone", f"processor time a prompt; {words}", ours.processor, alone.processor, None),
        figure("guided", names[0], f"processor time of the first call, compiling, {min(many, WARM)} prompts", first.processor, "s"),
        figure("guided", names[1], "processor time of the first prompt, compiling", first_plain.processor, "s"),
    )  # fmt: skip
    return Report(figures, agreement(*(np.concatenate(t) for t in took)))


def agreement(ours: np.ndarray, theirs: np.ndarray) -> tuple[Check, ...]:
    """Means of calls and of backtracks, and of the squares of calls, within so many standard errors of their difference."""
    moments = {
        "oracle calls a prompt": lambda t: t[:, 0],
        "backtracks a prompt": lambda t: t[:, 1],
        "square of the oracle calls a prompt": lambda t: t[:, 0] ** 2.0,
    }
    checks = []
    for what, of in moments.items():
        a, b = of(ours), of(theirs)
        allowed = ERRORS * float(np.sqrt(a.var() / len(a) + b.var() / len(b)))
        checks.append(Check("guided", f"{what}, of either; {ERRORS} standard errors", float(a.mean()), float(b.mean()), allowed))
    return tuple(checks)


def with_probe(model: Any) -> gm.ProbeFit:
    """Random weights, with a probe that refuses what ends with one of two symbols."""
    rng = np.random.default_rng(1)
    prefixes = [rng.integers(0, 5, n).tolist() for n in rng.integers(1, CELLS, 400)]
    return gm.train_probe(model, model.init_params(0), "seen", prefixes, [int(p[-1] > 1) for p in prefixes])


def counted(found: Any) -> np.ndarray:
    """Oracle calls and backtracks of each row, shape (rows, 2)."""
    stats = found["guided_stats"]
    calls, backs = np.asarray(stats["oracle_calls"]), np.asarray(stats["backtracks"])
    return np.stack([calls.ravel(), backs.sum(axis=-1).ravel()], axis=1)


def network_alone(params: Any, rows: int, steps: int) -> None:
    """Symbols pushed by one compiled loop."""
    oracle = CausalOracle(params["lm"], None, CELLS)
    jax.block_until_ready(_pushed(oracle, jnp.zeros((rows, 28), jnp.int32), jnp.asarray(steps)))


@eqx.filter_jit
def _pushed(oracle: CausalOracle, prompts: Any, steps: Any) -> Any:
    def one(k: Any, state: Any) -> Any:
        return oracle.push(oracle.pop(state, jnp.where(state.lengths >= CELLS, 1, 0)), jnp.full(len(prompts), k % 5, jnp.int32))

    return jax.lax.fori_loop(0, steps, one, oracle.start(prompts)).states[:, :, 0].sum()


class Plain:
    """What a user would write: the same network and cache, every step compiled once and its state donated, the choices made in Python."""

    def __init__(self, params: Any):
        self.oracle, self.probe = CausalOracle(params["lm"], None, CELLS), params["seen"]

    def complete(self, prompts: list[list[int]], seed: int) -> np.ndarray:
        """Oracle calls and backtracks of each prompt, completed one after another by Algorithm 1."""
        return np.array([self._one(p, jax.random.fold_in(jax.random.key(seed), r)) for r, p in enumerate(prompts)])

    def _one(self, prompt: list[int], key: Any) -> tuple[int, int]:
        state = _begun(self.oracle, jnp.asarray([[*prompt, *[-1] * (31 - len(prompt))]], jnp.int32))
        length, floor, quota, calls = len(prompt), len(prompt), QUOTA, 0
        while length < CELLS:
            key, state, good = _drawn(self.oracle, self.probe, key, state)
            length, calls = length + 1, calls + 1
            if quota and not good:
                back = min(STRIDE, length - floor)
                state, length, quota = _back(self.oracle, state, jnp.asarray([back], jnp.int32)), length - back, quota - 1
                for _ in range(min(STRIDE, CELLS - length)):
                    state, length, calls = _likeliest(self.oracle, state), length + 1, calls + 1
        return calls, QUOTA - quota


_begun = eqx.filter_jit(lambda oracle, prompt: oracle.start(prompt))
_back = eqx.filter_jit(lambda oracle, state, n: oracle.pop(state, n), donate="all-except-first")


@eqx.filter_jit(donate="all-except-first")
def _likeliest(oracle: CausalOracle, state: Any) -> Any:
    return oracle.push(state, oracle.next_log_probs(state).argmax(axis=-1).astype(jnp.int32))


@eqx.filter_jit
def _drawn(oracle: CausalOracle, probe: Probe, key: Any, state: Any) -> Any:
    own, key = jax.random.split(key)
    law = oracle.next_log_probs(state)[0]
    order = jnp.argsort(-law)
    before = jnp.cumsum(jnp.exp(law[order])) - jnp.exp(law[order])
    symbol = order[jax.random.categorical(own, jnp.where(before < TOP_P, law[order], -jnp.inf))]
    state = oracle.push(state, symbol[None].astype(jnp.int32))
    return key, state, probe(oracle.features(state))[0] >= 0.5
