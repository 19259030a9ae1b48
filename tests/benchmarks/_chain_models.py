"""Chains of `chains.py`: program, parameters, data, and the log likelihood as a forward algorithm written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
HMM, CRF = "hidden Markov", "random field"
HMM_PROGRAM = """
input length : int
input states : int
input symbols : int
index time = range(length)
model hmm {
  latent z[t in time] : range(states)
  var    x[t in time] : range(symbols)
  param first[a in range(states)]                       : simplex ~ dirichlet(1.1)
  param move[a in range(states), b in range(states)]    : simplex ~ dirichlet(1.1)
  param emit[a in range(states), s in range(symbols)]   : simplex ~ dirichlet(1.1)
  z[0] ~ categorical(first)
  z[t] ~ categorical(move[z[t - 1]]) for t in time if t > 0
  x[t] ~ categorical(emit[z[t]])     for t in time
}
mask whole = everything(x)
"""
CRF_PROGRAM = """
input length : int
input symbols : int
index place = range(length)
model tagger {
  given word[t in place] : range(symbols)
  var   tag[t in place]  : range(5)
  param means[a in range(5), w in range(symbols)] ~ normal(0, 1)
  param moves[a in range(5), b in range(5)]       ~ normal(0, 2)
  factor means[tag[t], word[t]]    for t in place
  factor moves[tag[t], tag[t + 1]] for t in place if t < length - 1
}
mask whole = everything(tag)
"""


@dataclass(frozen=True)
class Chains:
    """A program with its inputs; data; parameters to ask at; minus the mean log likelihood of a row, by hand.

    Slopes are those of free parameters, as in a fit: off the simplex two formulas of one law may differ.
    """

    program: str
    inputs: dict[str, int]
    x: Array
    given: dict[str, Array] | None
    params: dict[str, Array]  # free ones
    by_hand: Callable[[Any], Any]
    simplex: bool

    def constrained(self, free: Any) -> Any:
        """The parameters: softmax of free ones where they are probabilities."""
        import jax

        return {k: jax.nn.softmax(v) for k, v in free.items()} if self.simplex else free


def hidden_markov(states: int, length: int, symbols: int, rows: int) -> Chains:
    """Sharp transitions and emissions, drawn from Dirichlet laws."""
    rng = np.random.default_rng(0)
    move, emit = rng.dirichlet(np.full(states, 0.1), states), rng.dirichlet(np.full(symbols, 0.2), states)
    z, x = rng.integers(0, states, rows), np.zeros((rows, length), int)
    for t in range(length):
        x[:, t] = _draw(emit[z], rng)
        z = _draw(move[z], rng)
    shapes = {"first": (states,), "move": (states, states), "emit": (states, symbols)}
    params = {k: rng.normal(size=shape) for k, shape in shapes.items()}

    def by_hand(p: Any) -> Any:
        import jax
        import jax.numpy as jnp

        moves, emits = jnp.log(p["move"]), jnp.log(p["emit"])[:, x]  # emits: (states, rows, length)

        def step(behind: Any, emitted: Any) -> tuple[Any, None]:
            return jax.nn.logsumexp(behind[:, :, None] + moves, axis=1) + emitted.T, None

        start = jnp.log(p["first"]) + emits[:, :, 0].T
        return -jax.nn.logsumexp(jax.lax.scan(step, start, jnp.moveaxis(emits[:, :, 1:], 2, 0))[0], axis=1).mean()

    return Chains(HMM_PROGRAM, {"states": states, "length": length, "symbols": symbols}, x, None, params, by_hand, True)


def random_field(length: int, symbols: int, rows: int) -> Chains:
    """Words of any law, and tags drawn from the model itself."""
    rng = np.random.default_rng(0)
    params = {"means": rng.normal(0, 1, (5, symbols)), "moves": rng.normal(0, 2, (5, 5))}
    words, tags = rng.integers(0, symbols, (rows, length)), np.zeros((rows, length), int)
    local = params["means"].T[words]
    behind = np.zeros_like(local)
    for t in reversed(range(length - 1)):
        behind[:, t] = np.logaddexp.reduce(params["moves"] + (local + behind)[:, t + 1, None, :], axis=2)
    for t in range(length):
        score = (local + behind)[:, t] + (params["moves"][tags[:, t - 1]] if t else 0)
        tags[:, t] = (score + rng.gumbel(size=score.shape)).argmax(axis=1)

    def by_hand(p: Any) -> Any:
        import jax
        import jax.numpy as jnp

        scores = jnp.moveaxis(p["means"].T[words], 1, 0)  # (length, rows, tags)

        def step(behind: Any, local: Any) -> tuple[Any, None]:
            return jax.nn.logsumexp(behind[:, :, None] + p["moves"], axis=1) + local, None

        total = jax.nn.logsumexp(jax.lax.scan(step, scores[0], scores[1:])[0], axis=1)
        own = p["means"][tags, words].sum(axis=1) + p["moves"][tags[:, :-1], tags[:, 1:]].sum(axis=1)
        return (total - own).mean()

    return Chains(CRF_PROGRAM, {"length": length, "symbols": symbols}, tags, {"word": words}, params, by_hand, False)


def _draw(p: Array, rng: np.random.Generator) -> Array:
    """A value by each row of probabilities."""
    return (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1).clip(max=p.shape[1] - 1)


MAKE: dict[str, Callable[..., Chains]] = {HMM: hidden_markov, CRF: random_field}
