"""Programs of the tests of guided generation: oracles of a few symbols, what their strings should be, every sampler."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import guided_brute as brute
import numpy as np

import gmlmdsl as gm

TABLE = """
model words {
  var x[i in t] : sym
  x[0] ~ categorical([0.5, 0.3, 0.2])
  x[i] ~ categorical(next[x[i - 1]]) for i in t if i > 0
}
"""
HMM = """
model words {
  latent z[i in t] : range(2)
  var    x[i in t] : sym
  param move[a in range(2), b in range(2)] : simplex
  param emit[a in range(2), s in sym]      : simplex
  z[0] ~ categorical([0.7, 0.3])
  z[i] ~ categorical(move[z[i - 1]]) for i in t if i > 0
  x[i] ~ categorical(emit[z[i]])     for i in t
}
"""
TILTED = """
model words {
  var    x[i in t] : sym
  latent g         : bit
  param h[s in sym]
  factor h[x[i]] for i in t
  factor 0.8 * h[x[i]] * h[x[i + 2]] for i in t if i < n - 2
  factor if g == 1 and x[1] == "b" then 0.9 else 0
}
"""
WANTED = """
model wanted {
  var    x[i in t] : sym
  latent c[i in t] : range(3)                     # the number of "a" so far
  require c[0] == (x[0] == "a")
  require c[i] == c[i - 1] + (x[i] == "a") for i in t if i > 0
  require c[n - 1] == 2
  require not (x[i] == "b" and x[i + 1] == "b") for i in t if i < n - 1
  factor if x[i] == "c" then 0.4 else 0 for i in t
}
verifier can  = completable(wanted)
value truth   = expected(wanted)
value rough   = noisy(truth, sd = 0.5)
"""
SAMPLERS = """
sampler rej   for words = rejection(can)
sampler rej3  for words = rejection(can, tries = 3)
sampler tok   for words = tokenwise_rejection(can)
sampler tok2  for words = tokenwise_rejection(can, tries = 2)
sampler tokv  for words = tokenwise_rejection(truth)
sampler tokv2 for words = tokenwise_rejection(truth, tries = 2)
sampler back  for words = backtracking(can, quota = 2, stride = 2)
sampler far   for words = backtracking(can, quota = 1, stride = 9)
sampler drop  for words = backtracking(can, quota = 2, stride = 1, regenerate = none)
sampler erase for words = backtracking(can, quota = 2, stride = 3, erase_prompt = true)
sampler never for words = backtracking(can, quota = 0, stride = 2)
sampler walk  for words = value_guided(truth, steps = 5)
sampler leaf  for words = value_guided(truth, steps = 5, result = first_leaf)
sampler node  for words = value_guided(truth, steps = 5, result = uniform_node)
sampler wide  for words = value_guided(rough, steps = 4, leaf = can)
sampler long  for words = value_guided(truth, steps = 300)
sampler best  for words = best_of(truth, n = 2)
sampler blk   for words = block_best_of(truth, n = 2, block = 2)
sampler ended for words = backtracking(can, quota = 1, stride = 2, end = "c", top_k = 2, temperature = 0.5)
sampler noisy_best for words = best_of(rough, n = 2)
sampler cut   for words = tokenwise_rejection(can, top_p = 0.75)
sampler draw  for words = autoregressive(decode = sample, end = "c")
"""
NEXT = "input next[sym, sym] : simplex = [[0.1, 0.6, 0.3], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]\n"
HEAD = 'input n : int = {n}\ndomain sym = labels("a", "b", "c")\nindex t = range(n)\n'
BITS = """
input n : int = 6
model words {{ var x[t in range(n)] : bit  x[t] ~ categorical([0.5, 0.5]) for t in range(n) }}
model wanted {{ var x[t in range(n)] : bit  {require} }}
verifier can for words = completable(wanted)
value truth  for words = expected(wanted)
verifier mine for words = python("guided_functions:zeros")
value own     for words = python("guided_functions:value")
sampler rej  for words = rejection(can)
sampler few  for words = rejection(can, tries = 5)
sampler tok  for words = tokenwise_rejection(can)
sampler back for words = backtracking(can, quota = 3, stride = 2)
sampler walk for words = value_guided(truth, steps = {steps})
sampler node for words = value_guided(truth, steps = {nodes}, result = uniform_node)
sampler best for words = best_of(truth, n = 3)
sampler python for words = tokenwise_rejection(mine)
sampler values for words = value_guided(own, steps = 20, leaf = mine)
sampler tokens for words = tokenwise_rejection(own)
"""
ZEROS = "require x[t] == 0 for t in range(n)"


def bits(require: str = ZEROS, n: int = 6, steps: int = 50, allow: bool = False, nodes: int = 40) -> gm.Model:
    """Fair bits, and what their strings should be."""
    return gm.parse(BITS.format(require=require, steps=steps, nodes=nodes), n=n, allow_python=allow).model("words")


@dataclass(frozen=True, eq=False)
class GuidedCase:
    """An oracle with every sampler on it."""

    name: str
    model_text: str
    params: dict[str, Any] = field(default_factory=dict)
    n: int = 4
    more: str = ""

    @cached_property
    def program(self) -> Any:
        """The bound program."""
        text = HEAD.format(n=self.n) + self.more + self.model_text + WANTED.replace("can  =", "can for words =")
        text = text.replace("truth   =", "truth for words =").replace("rough   =", "rough for words =")
        return gm.parse(text + SAMPLERS)

    @cached_property
    def model(self) -> Any:
        """The sampled model."""
        return self.program.model("words")

    def table(self, **options: Any) -> brute.Table:
        """Its laws by enumeration."""
        return brute.Table(self.program, "words", self.params, self.n, 3, **options)


CASES = {
    case.name: case
    for case in (
        GuidedCase("table", TABLE, more=NEXT),
        GuidedCase("hmm", HMM, {"move": np.array([[0.8, 0.2], [0.35, 0.65]]), "emit": np.array([[0.6, 0.3, 0.1], [0.15, 0.25, 0.6]])}),
        GuidedCase("tilted", TILTED, {"h": np.array([0.4, -0.3, 0.2])}),
    )
}


def sharpened(p: np.ndarray) -> np.ndarray:
    """Temperature 1/2, then the two likeliest."""
    r = p**2
    r = np.where(r >= np.sort(r)[-2], r, 0.0)
    return r / r.sum()


def nucleus(p: np.ndarray) -> np.ndarray:
    """The fewest likeliest with 3/4 of the probability."""
    order = np.argsort(-p, kind="stable")
    before = np.cumsum(p[order]) - p[order]
    kept = np.zeros_like(p)
    kept[order[before < 0.75]] = p[order[before < 0.75]]
    return kept / kept.sum()


def wanted(case: GuidedCase, sampler: str, prompt: tuple[int, ...] = ()) -> brute.Brute:
    """What a sampler gives, by brute force."""
    table, short = case.table(), case.table(end=2, shape=sharpened)
    can, truth = table.completable("wanted"), table.expected("wanted")
    ways: dict[str, Any] = {
        "rej": lambda: brute.rejection(table, can, prompt),
        "rej3": lambda: brute.rejection(table, can, prompt, 3),
        "tok": lambda: brute.tokenwise(table, can, prompt),
        "tok2": lambda: brute.tokenwise(table, can, prompt, 2),
        "tokv": lambda: brute.by_value(table, truth, prompt),
        "tokv2": lambda: brute.by_value(table, truth, prompt, 2),
        "back": lambda: brute.backtracking(table, can, 2, 2, prompt),
        "far": lambda: brute.backtracking(table, can, 1, 9, prompt),
        "drop": lambda: brute.backtracking(table, can, 2, 1, prompt, regenerate=False),
        "erase": lambda: brute.backtracking(table, can, 2, 3, prompt, erase_prompt=True),
        "never": lambda: brute.backtracking(table, can, 0, 2, prompt),
        "walk": lambda: brute.walk(table, truth, 5, prompt),
        "leaf": lambda: brute.walk(table, truth, 5, prompt, "first_leaf"),
        "node": lambda: brute.walk(table, truth, 5, prompt, "uniform_node"),
        "best": lambda: brute.block_best(table, truth, 2, None, prompt),
        "blk": lambda: brute.block_best(table, truth, 2, 2, prompt),
        "ended": lambda: brute.backtracking(short, short.completable("wanted"), 1, 2, prompt),
        "cut": lambda: brute.tokenwise(case.table(shape=nucleus), can, prompt),
        "draw": lambda: brute.backtracking(case.table(end=2), can, 0, 1, prompt),
    }
    return ways[sampler]()
