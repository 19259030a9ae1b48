"""Intervals cover: 500 data sets drawn exactly from a known law, fitted, and counted."""

from __future__ import annotations

import numpy as np
import pytest

import gmlmdsl as gm

SEED = 2407  # fixed before the first run
REPLICATIONS = 500
ROWS = 1000
PROBABILITY = 0.94

TEXT = """
graph G = grid(2, 3)
model six {
  var x[i in G.nodes] : spin
  param h[i in G.nodes]
  param J[(i, j) in G.edges]
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
mask pairs  = subsets(x, size = 2)
mask seeing given x {
  choose {x[i], x[j]} for (i, j) in G.edges weight exp(0.5 * x[i] * x[j])
  choose {x[i]}       for i in G.nodes      weight 0.5
}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("mask", ["single", "pairs", "seeing"])
def test_intervals_cover_as_often_as_they_say(mask: str):
    """Of 500 intervals of 94 %, each parameter's within 0.90 to 0.98 (3.8 standard errors), their mean within 0.94 +- 0.012."""
    model = gm.parse(TEXT).model()
    rng = np.random.default_rng(SEED)
    truth = {"h": rng.normal(0, 0.3, 6), "J": rng.normal(0, 0.3, 7)}
    states = np.stack(np.meshgrid(*6 * [[-1, 1]], indexing="ij"), axis=-1).reshape(-1, 6)
    p = np.exp(np.asarray(model.log_prob(truth, states), float))
    covered = {k: np.zeros(v.shape) for k, v in truth.items()}
    for _ in range(REPLICATIONS):
        fit = model.fit(states[rng.choice(len(p), ROWS, p=p / p.sum())], mask=mask)
        assert fit.status.converged
        for name, (low, high) in fit.interval(PROBABILITY).items():
            covered[name] += (low <= truth[name]) & (truth[name] <= high)
    rates = np.concatenate([covered["h"], covered["J"]]) / REPLICATIONS
    print(mask, np.round(rates, 3), "mean", round(rates.mean(), 4))
    assert abs(rates.mean() - PROBABILITY) <= 0.012
    assert rates.min() >= 0.90
    assert rates.max() <= 0.98
