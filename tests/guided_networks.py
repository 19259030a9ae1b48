"""A small causal network with probes, evaluated in NumPy, prefix by prefix; every run of guided samplers over it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import equinox as eqx
import guided_brute as brute
import jax
import numpy as np
from oracle import _networks as loops

import gmlmdsl as gm

Q, N = 3, 4
Prefix = tuple[int, ...]
PROGRAM = """
network lm = transformer(layers = 1, heads = 2, width = 8, causal = true)
model words {
  var x[i in range(4)] : range(3)
  conditional x ~ lm()
}
model apart {
  var x[i in range(4)] : range(3)
  require x[i] != x[i + 1] for i in range(4) if i < 3
}
verifier seen for words = probe(lm, threshold = 0.5)
verifier can  for words = completable(apart)
value    good for words = probe(lm)

sampler plain for words = autoregressive(decode = sample)
sampler rej   for words = rejection(seen)
sampler tries for words = rejection(can, tries = 2)
sampler tok   for words = tokenwise_rejection(can)
sampler back  for words = backtracking(seen, quota = 2, stride = 2)
sampler bare  for words = backtracking(seen, quota = 2, stride = 2, regenerate = none)
sampler cut   for words = backtracking(seen, quota = 1, stride = 3, top_p = 0.8, temperature = 1.5)
sampler erase for words = backtracking(seen, quota = 2, stride = 2, erase_prompt = true)
sampler ends  for words = backtracking(seen, quota = 2, stride = 2, end = 2)
sampler walk  for words = value_guided(good, steps = 5)
sampler node  for words = value_guided(good, steps = 5, result = uniform_node)
sampler often for words = value_guided(good, steps = 40, result = uniform_node)
sampler leaf  for words = value_guided(good, steps = 5, leaf = can)
sampler best  for words = best_of(good, n = 2)
sampler block for words = block_best_of(good, n = 2, block = 2)
"""


@cache
def params() -> Any:
    """Random weights, and probes that tell prefixes that end with 0 from others, not without doubt."""
    with jax.enable_x64(True):
        model = gm.parse(PROGRAM).model("words")
        rng = np.random.default_rng(5)
        prefixes = [rng.integers(0, Q, n).tolist() for n in rng.integers(1, N + 1, 200)]
        labels = [int((p[-1] == 0) == (rng.random() < 0.7)) for p in prefixes]
        network: Any = model.init_params(2)["lm"]
        weights = {"lm": eqx.tree_at(lambda net: net.embedding, network, 0.4 * network.embedding)}  # laws that are not sure
        return gm.train_probe(model, gm.train_probe(model, weights, "seen", prefixes, labels), "good", prefixes, labels)


@cache
def one_pass(prefix: Prefix) -> tuple[np.ndarray, np.ndarray]:
    """p(next symbol | prefix) and the last layer's state, by loops over the cells of this prefix alone."""
    logits, states = loops.causal_transformer(params()["lm"], np.array(prefix, int))
    e = np.exp(logits[-1] - logits[-1].max())
    return e / e.sum(), states[-1]


class NetworkTable(brute.Table):
    """The law of the next symbol from loops, not from a joint law."""

    def __init__(self, end: int | None = None, shape: Any = None):
        self.n, self.q, self.end, self.shape = N, Q, end, shape or (lambda p: p)

    def law(self, prefix: Prefix) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """p(next symbol | prefix)."""
        return self.shape(one_pass(prefix)[0])


def probability(name: str, prefix: Prefix) -> float:
    """What a probe says of a prefix."""
    probe = params()[name]
    return float(1 / (1 + np.exp(-(one_pass(prefix)[1] @ np.asarray(probe.weight) + float(probe.bias)))))


def seen(prefix: Prefix) -> float:
    """0 or 1."""
    return float(probability("seen", prefix) >= 0.5)


def good(prefix: Prefix) -> float:
    """The probability."""
    return probability("good", prefix)


def can(prefix: Prefix) -> float:
    """Whether no two neighbours are equal: of three values each has another one to go on with."""
    return float(all(a != b for a, b in itertools.pairwise(prefix)))


def narrowed(p: np.ndarray) -> np.ndarray:
    """p at temperature 1.5, of which the fewest values that hold 0.8 are kept."""
    sharp = p ** (1 / 1.5) / (p ** (1 / 1.5)).sum()
    kept, total = np.zeros(Q), 0.0
    for v in np.argsort(-sharp, kind="stable"):
        kept[v] = sharp[v]
        total += sharp[v]
        if total >= 0.8:
            break
    return kept / kept.sum()


def leafed(prefix: Prefix) -> float:
    """The value, and of whole strings the verifier."""
    return can(prefix) if len(prefix) == N else good(prefix)


TABLE = NetworkTable()
WANTED: dict[str, Callable[[Prefix], brute.Brute]] = {
    "rej": lambda s: brute.rejection(TABLE, seen, s),
    "tries": lambda s: brute.rejection(TABLE, can, s, tries=2),
    "tok": lambda s: brute.tokenwise(TABLE, can, s),
    "back": lambda s: brute.backtracking(TABLE, seen, 2, 2, s),
    "bare": lambda s: brute.backtracking(TABLE, seen, 2, 2, s, regenerate=False),
    "cut": lambda s: brute.backtracking(NetworkTable(shape=narrowed), seen, 1, 3, s),
    "erase": lambda s: brute.backtracking(TABLE, seen, 2, 2, s, erase_prompt=True),
    "ends": lambda s: brute.backtracking(NetworkTable(end=2), seen, 2, 2, s),
    "walk": lambda s: brute.walk(TABLE, good, 5, s),
    "node": lambda s: brute.walk(TABLE, good, 5, s, result="uniform_node"),
    "leaf": lambda s: brute.walk(TABLE, leafed, 5, s),
    "best": lambda s: brute.block_best(TABLE, good, 2, None, s),
    "block": lambda s: brute.block_best(TABLE, good, 2, 2, s),
}
