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

from ._measure import Check, Report, figure

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
ALONE = 64


def run(quick: bool) -> Report:
    """Processor time a prompt; the weights are random, so that what is drawn is no text, and calls are those of text."""
    layers, width, many, few = (1, 16, 8, 2) if quick else (6, 128, 512, 16)
    model = gm.parse(PROGRAM, layers=layers, width=width).model()
    params = with_probe(model)
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, 5, n).tolist() for n in rng.integers(25, 32, many)]
    model.sample(params, "back", prompt=prompts, seed=0, progress=False)  # compiled
    plain = Plain(params)
    plain.complete(prompts[:1], 0)
    network_alone(params, ALONE, 1)
    ours, theirs, alone, calls = [], [], [], []
    for seed in range(1 if quick else 3):  # in turns: what else runs on the machine slows both
        found: list[Any] = []
        ours.append(
            _taken(lambda seed=seed, found=found: found.append(model.sample(params, "back", prompt=prompts, seed=seed, progress=False)))
            / many
        )
        counted: list[float] = []
        theirs.append(_taken(lambda seed=seed, counted=counted: counted.append(plain.complete(prompts[:few], seed))) / few)
        calls.append((float(np.mean(oracle_calls(found[0]))), counted[0] / few))
        alone.append(_taken(lambda: network_alone(params, ALONE, round(calls[-1][0]))) / ALONE)
    words = f"{layers} layers, width {width}, prompts of 25 to 31 symbols completed to {CELLS}"
    figures = (
        figure("guided", "gmlmdsl sample", f"processor time a prompt, {many} at once; {words}", ours, "s"),
        figure("guided", "a compiled step in a loop of Python", f"processor time a prompt, one at a time; {words}", theirs, "s"),
        figure("guided", "the network alone", f"as many steps of it, {ALONE} rows at once, without draws and verdicts", alone, "s"),
        figure("guided", "loop of Python / gmlmdsl", words, [t / o for t, o in zip(theirs, ours, strict=True)], "ratio", "goal: 5"),
    )
    mine, other = (float(np.mean(c)) for c in zip(*calls, strict=True))
    return Report(figures, (Check("guided", "oracle calls a prompt, of either", mine, other, 0.15 * other),))


def with_probe(model: gm.ConditionalModel) -> gm.ProbeFit:
    """Random weights, with a probe that refuses what ends with one of two symbols."""
    rng = np.random.default_rng(1)
    prefixes = [rng.integers(0, 5, n).tolist() for n in rng.integers(1, CELLS, 400)]
    return gm.train_probe(model, model.init_params(0), "seen", prefixes, [int(p[-1] > 1) for p in prefixes])


def oracle_calls(found: Any) -> np.ndarray:
    """Of each row."""
    return np.asarray(found["guided_stats"]["oracle_calls"])


def _taken(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


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
