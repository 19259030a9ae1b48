"""Small models of every kind, each with every form of mask and of sampler that may stand beside it: what verbs are crossed with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import gmlmdsl as gm

MASKS = """
mask one      = subsets({x}, size = 1)
mask two      = subsets(size = 2)
mask whole    = everything({x})
mask listed   = blocks({{{x}[0], {x}[1]}}, {{{x}[1]}})
mask rated    = bernoulli({x}, rate = 0.5)
mask any_rate = bernoulli({x}, rate = uniform(0, 1))
mask chosen {{ choose {{{x}[i]}} for i in site weight 1 + i }}
mask apart  {{ each {x}[i] for i in site rate 0.3 + 0.2 * i }}
mask seeing given {x} {{ choose {{{x}[i]}} for i in site weight 0.5 + ({x}[i] == 1)  choose {{{x}[0], {x}[1]}} weight 1 }}
mask hot    given {x} {{ each {x}[i] for i in site rate 0.3 + 0.4 * ({x}[i] == 1) }}
mask never  given {x} {{ choose {{{x}[0]}} weight {x}[1] == 1  choose {{{x}[1]}} weight {x}[0] == 1 }}
mask mixed  = mixture {{ 1 : one  2 : seeing }}
"""
NAIVE = "sampler naive   { update x[K] independently where K ~ whole }\n"  # refused where p has zeros
KERNELS = """
sampler random  { update x[K] where K ~ one }
sampler sweep   { update x[i] for i in site }
sampler block   { update {x[0], x[1]} }
sampler naive   { update x[K] independently where K ~ whole }
sampler sees    { update x[K] where K ~ seeing }
sampler rates   { update x[K] where K ~ hot }
sampler still   { update x[K] where K ~ never }
sampler thrice  { repeat 3 { update x[K] where K ~ rated } }
sampler some    { mixture { 1 : update x[K] where K ~ mixed  2 : cycle { update x  update x[0] } } }
sampler ladder  { temper(betas = [0.3, 1]) { update x[i] for i in site  update x[K] where K ~ any_rate } }
sampler nested  { update x[0]  mixture { 1 : temper(betas = [0, 1, 2]) { update x[K] where K ~ one }  1 : update x[1] } }
"""
JOINT = (
    """
index site = range(3)
graph G = chain(site)
model m {
  var   x[i in site] : spin
  param J
  param h[i in site] ~ normal(0, 1)
  factor J * x[i] * x[j] for (i, j) in G.edges
  factor h[i] * x[i] for i in site
}
mask steered { choose {x[i]} for i in site weight exp(h[i]) }
mask grown = percolation(G.edges)
sampler steers   { update x[K] where K ~ steered }
sampler clusters { update x[K] where K ~ grown }
"""
    + MASKS.format(x="x")
    + KERNELS
)
SHUT = (
    """
index site = range(3)
model m {
  var   x[i in site] : labels("a", "b", "c")
  var   y : range(2)
  param u
  param p[a in range(2)] : simplex ~ dirichlet(2)
  y ~ categorical(p)
  factor u * (x[i] == x[i + 1]) * (1 + y) for i in site if i < 2
  require not (x[0] == "a" and y == 1)
}
"""
    + MASKS.format(x="x").replace("x[i] == 1", 'x[i] == "b"').replace("x[1] == 1", 'x[1] == "b"').replace("x[0] == 1", 'x[0] == "b"')
    + KERNELS.replace(NAIVE, "")
    + "sampler all { update x  update y }\n"
)
LATENT = (
    """
index site = range(2)
model m {
  var    x[i in site] : bit
  latent z : range(2)
  param J[i in site]
  param b
  factor J[i] * x[i] * z for i in site
  factor b * z + 0.3 * x[0] * x[1]
}
sampler both { update z  update x[i] for i in site }
"""
    + MASKS.format(x="x")
    + KERNELS
)
GIVEN = (
    """
index site = range(2)
model m {
  given a : bit
  given r : real
  var   x[i in site] : bit
  param J ~ normal(0, 1)
  param c
  factor J * x[0] * x[1] + c * a * x[0] + 0.2 * r * x[1]
}
mask told given a { choose {x[0]} weight 1 + a  choose {x[1]} weight 1 }
sampler tells { update x[K] where K ~ told }
"""
    + MASKS.format(x="x")
    + KERNELS
)
NETWORK_MASKS = """
mask one      = subsets(x, size = 1)
mask two      = subsets(size = 2)
mask whole    = everything(x)
mask listed   = blocks({x[0], x[1]}, {x[1]})
mask rated    = bernoulli(x, rate = 0.5)
mask any_rate = bernoulli(x, rate = uniform(0, 1))
mask noisy    = bernoulli(x, rate = 0.5, noise = {hide: 0.6, uniform: 0.2, keep: 0.2})
mask chosen { choose {x[i]} for i in site weight 1 + i }
mask apart  { each x[i] for i in site rate 0.3 + 0.2 * i }
mask seeing given x { choose {x[i]} for i in site weight 0.5 + x[i] }
mask mixed  = mixture { 1 : one  2 : listed }
"""
DECODERS = """
sampler random  { update x[K] where K ~ one }
sampler sweep   { update x[i] for i in site }
sampler naive   { update x[K] independently where K ~ whole }
sampler doubt   { repeat 2 { update x[K] independently where K ~ least_confident(x, count = 1) } }
sampler some    { mixture { 1 : update x[K] independently where K ~ mixed  2 : cycle { update x[0]  update x[1] } } }
sampler few     = mask_predict(steps = 2, lengths = 1)
sampler again   = refinement(schedule = one)
sampler drawn   = refinement(steps = 2, schedule = cosine, decode = sample)
sampler fresh   = refinement(steps = 2, decode = sample, start = uniform)
sampler best    = refinement(steps = 1, decode = sample, starts = 2)
"""
NETWORK = "index site = range(2)\nnetwork net = mlp(layers = 1, width = 4)\nmodel m { var x[i in site] : bit  conditional x ~ net() }\n"
TOLD = "index site = range(2)\nnetwork net = mlp(layers = 1, width = 4)\nmodel m { given a : bit  var x[i in site] : bit  conditional x ~ net(a) }\n"
JUDGES = """
model wanted { var x[i in site] : bit  require not (x[0] == 1 and x[1] == 1) }
verifier can for m = completable(wanted)
"""
VALUES = """
value truth for m = expected(wanted)
value rough for m = noisy(truth, sd = 0.5)
"""
GUIDED = """
sampler rej   for m = rejection(can)
sampler tok   for m = tokenwise_rejection(can)
sampler back  for m = backtracking(can, quota = 1, stride = 2)
sampler draw  for m = autoregressive(decode = sample)
sampler beams for m = autoregressive(beam = 2)
"""
VALUED = """
sampler walk  for m = value_guided(truth, steps = 3)
sampler node  for m = value_guided(rough, steps = 3, result = uniform_node)
sampler best  for m = best_of(truth, n = 2)
sampler blk   for m = block_best_of(truth, n = 2, block = 1)
"""
CAUSAL = (
    "index site = range(2)\nnetwork net = transformer(layers = 1, heads = 1, width = 4, causal = true)\n"
    "model m { var x[i in site] : bit  conditional x ~ net() }\nmask forced for m = everything(x, noise = {keep: 1})\n" + JUDGES + GUIDED
)
WORDS = (
    "index site = range(2)\nmodel m { var x[i in site] : bit  param u  factor u * x[i] for i in site }\nmask one for m = subsets(x, size = 1)\n"
    "sampler sweep for m { update x[i] for i in site }\n" + JUDGES + VALUES + GUIDED + VALUED
)


@dataclass(frozen=True, eq=False)
class FormCase:
    """A program with one model `m`, and rows of data for it."""

    name: str
    text: str
    x: Any
    given: Mapping[str, Any] | None = None

    @cached_property
    def model(self) -> Any:
        """The compiled model."""
        return gm.parse(self.text).model("m")

    @cached_property
    def params(self) -> dict[str, Any]:
        """Some parameters."""
        return self.model.init_params(3)

    @property
    def row(self) -> Any:
        """The first row of data."""
        return {k: v[0] for k, v in self.x.items()} if isinstance(self.x, Mapping) else self.x[0]

    @property
    def told(self) -> dict[str, Any]:
        """`given=` of the first row, where the model has given variables."""
        return {} if self.given is None else {"given": {k: v[0] for k, v in self.given.items()}}

    @property
    def all_told(self) -> dict[str, Any]:
        """`given=` of all rows."""
        return {} if self.given is None else {"given": self.given}

    def __str__(self) -> str:
        return self.name


def refusal(ask: Callable[[], Any]) -> gm.GmlmError | None:
    """The error of the language with which a call is refused; None where it answers. Its warnings are no matter; other errors pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ask()
        except gm.GmlmError as error:
            return error
    return None


BITS = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [1, 1], [0, 1]])
SPINS = np.array([[1, 1, -1], [-1, -1, -1], [1, -1, 1], [1, 1, 1], [-1, 1, 1], [-1, -1, 1]])
LABELS = {"x": np.array([["b", "a", "c"], ["c", "c", "b"], ["a", "b", "b"], ["b", "b", "a"]]), "y": np.array([1, 0, 0, 1])}
TELLS = {"a": np.array([0, 1, 1, 0, 1, 0]), "r": np.array([0.5, -1.0, 0.0, 2.0, 0.3, -0.7])}
FORM_CASES = {
    c.name: c
    for c in (
        FormCase("joint", JOINT, SPINS),
        FormCase("shut", SHUT, LABELS),
        FormCase("latent", LATENT, BITS),
        FormCase("given", GIVEN, BITS, TELLS),
        FormCase("network", NETWORK + NETWORK_MASKS + DECODERS, BITS),
        FormCase("told", TOLD + NETWORK_MASKS + DECODERS, BITS, {"a": TELLS["a"]}),
        FormCase("causal", CAUSAL, BITS),
        FormCase("words", WORDS, BITS),
    )
}
