"""Prompts completed with backtracking over a causal network, beside a loop of Python whose steps are compiled once, a prompt at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
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
sampler back = backtracking(seen, quota = 4, stride = 4, top_p = 0.9)
"""
CELLS, QUOTA, STRIDE, TOP_P = 64, 4, 4, 0.9
ALONE = 64  # rows of the network alone
GOAL = 1 / 5  # of the processor time of the loop of Python


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
    """Processor time a prompt, of some of the 10 000 prompts; the weights are random: what is drawn is no text, and takes as many calls.

    The first calls of each, which compile, are figures of their own. Then all take turns: what else runs on the machine slows all alike.
    """
    layers, width, many, few = (1, 16, 8, 2) if quick else (6, 128, 512, 16)
    model = gm.parse(PROGRAM, layers=layers, width=width).model()
    params = with_probe(model)
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, 5, n).tolist() for n in rng.integers(25, 32, many)]
    drawn = partial(model.sample, params, "back", prompt=prompts, progress=False)
    plain, calls = Plain(params), []
    first, first_plain = Spent(1), Spent(1)
    first.on(lambda: drawn(seed=0))
    first_plain.on(lambda: plain.complete(prompts[:1], 0))
    network_alone(params, ALONE, 1)
    ours, theirs, alone = Spent(many), Spent(few), Spent(ALONE)
    for seed in range(1 if quick else 3):
        found = ours.on(lambda seed=seed: drawn(seed=seed))
        counted = theirs.on(lambda seed=seed: plain.complete(prompts[:few], seed))
        calls.append((float(np.mean(oracle_calls(found))), counted / few))
        alone.on(lambda: network_alone(params, ALONE, round(calls[-1][0])))
    words = f"{layers} layers, width {width}, prompts of 25 to 31 symbols completed to {CELLS}"
    names, looped = ("gmlmdsl sample", "a compiled step in a loop of Python"), "gmlmdsl / loop of Python"
    figures = (
        figure("guided", names[0], f"processor time a prompt, {many} at once; {words}", ours.processor, "s"),
        figure("guided", names[1], f"processor time a prompt, {few} one at a time; {words}", theirs.processor, "s"),
        figure(
            "guided", "the network alone", f"as many steps of it, {ALONE} rows at once, without draws and verdicts", alone.processor, "s"
        ),
        ratio("guided", looped, f"processor time a prompt; {words}", ours.processor, theirs.processor, GOAL),
        ratio("guided", looped, f"the same by the clock; {words}", ours.clock, theirs.clock, None),
        ratio("guided", "gmlmdsl / the network alone", f"processor time a prompt; {words}", ours.processor, alone.processor, None),
        figure("guided", names[0], f"processor time of the first call, compiling, {many} prompts", first.processor, "s"),
        figure("guided", names[1], "processor time of the first prompt, compiling", first_plain.processor, "s"),
    )
    mine, other = (float(np.mean(c)) for c in zip(*calls, strict=True))
    return Report(figures, (Check("guided", "oracle calls a prompt, of either", mine, other, 0.15 * other),))


def with_probe(model: Any) -> gm.ProbeFit:
    """Random weights, with a probe that refuses what ends with one of two symbols."""
    rng = np.random.default_rng(1)
    prefixes = [rng.integers(0, 5, n).tolist() for n in rng.integers(1, CELLS, 400)]
    return gm.train_probe(model, model.init_params(0), "seen", prefixes, [int(p[-1] > 1) for p in prefixes])


def oracle_calls(found: Any) -> np.ndarray:
    """Of each row."""
    return np.asarray(found["guided_stats"]["oracle_calls"])


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

    def complete(self, prompts: list[list[int]], seed: int) -> float:
        """The oracle calls of all prompts, completed one after another by Algorithm 1."""
        return float(sum(self._one(p, jax.random.fold_in(jax.random.key(seed), r)) for r, p in enumerate(prompts)))

    def _one(self, prompt: list[int], key: Any) -> int:
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
        return calls


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
