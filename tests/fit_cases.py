"""The model that the tests of fitting share, with its data."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases import Case

TRIO = """
domain sky = labels("sun", "rain", "snow")
graph G = chain(3)
model trio {
  var x[i in G.nodes] : spin
  var w               : sky
  param h[i in G.nodes] ~ normal(0.2, 2)
  param J[(i, j) in G.edges] ~ student_t(4, 0, 1)
  param u[a in sky] ~ normal(0, 1.5)
  factor h[i] * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
  factor u[w] * x[0]
  require not (w == "snow" and x[2] == 1)
}
mask single = subsets(size = 1)
mask pairs  = subsets(size = 2)
mask whole  = everything()
mask seeing given x { choose {x[i], x[j]} for (i, j) in G.edges weight exp(0.5 * x[i] * x[j])  choose {x[i], w} for i in G.nodes weight 0.4 }
mask coin   = bernoulli(rate = 0.4)
sampler gibbs { update K where K ~ pairs }
"""
trio = Case("trio", TRIO)
TRUTH = {"h": np.array([0.2, -0.3, 0.1]), "J": np.array([0.4, -0.3]), "u": np.array([0.3, -0.4, 0.2])}


def rows(n: int, seed: int) -> np.ndarray:
    """Codes of rows drawn from the model at `TRUTH`."""
    p = trio.oracle.probabilities(TRUTH)
    return trio.oracle.states[np.random.default_rng(seed).choice(len(p), n, p=p)]


def counted(codes: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """The distinct rows, as values and as codes, and how often each stands there."""
    distinct, counts = np.unique(codes, axis=0, return_counts=True)
    return trio.values(distinct), distinct, counts.astype(float)


def flat(params: dict[str, np.ndarray]) -> np.ndarray:
    """One vector, in the order of declaration."""
    return np.concatenate([np.ravel(v) for v in params.values()]).astype(float)


def unflat(vector: np.ndarray, like: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inverse."""
    out, at = {}, 0
    for name, value in like.items():
        out[name] = vector[at : at + np.size(value)].reshape(np.shape(value))
        at += np.size(value)
    return out
