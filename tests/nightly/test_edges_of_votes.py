"""Which votes go together, of the 232 members who gave all 16: two runs agree, and with a fit where it is sure."""

from __future__ import annotations

import numpy as np
import pytest
from real_data import real_file

import gmlmdsl as gm

TEXT = """
index vote = range(16)
graph G = complete(vote)
model votes {
  var   x[i in vote]         : spin
  param h[i in vote]         ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ PRIOR
  factor h[i] * x[i]           for i in vote
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
"""
ERRORS = 5.0  # joint Monte Carlo errors: of 120 edges


@pytest.mark.slow
def test_edges_of_votes(standard_promotion: None):
    lines = real_file("house-votes-84.csv").read_text().splitlines()[1:]
    rows = np.array([[{"y": 1, "n": -1}.get(c, 0) for c in line.split(",")[1:]] for line in lines])
    x = rows[(rows != 0).all(axis=1)]
    assert x.shape == (232, 16)
    model = gm.parse(TEXT.replace("PRIOR", "spike_slab(sd = 1, probability = 0.5)")).model()
    one, two = (gm.inclusion(model.posterior(x, draws=200, warmup=100, chains=2, seed=s), "J") for s in (0, 1))
    apart = (one["probability"] - two["probability"]).abs() / np.hypot(one["mcse"], two["mcse"])
    assert apart.max() < ERRORS  # nan where an entry never moved is left out
    assert one["r_hat"].max() < 1.2
    fit = gm.parse(TEXT.replace("PRIOR", "normal(0, 1)")).model().fit(x)
    z = np.abs(fit.params["J"] / fit.standard_errors["J"])
    probability = (one["probability"] + two["probability"]).to_numpy() / 2
    assert (probability[z > 6] > 0.9).all()
    assert (probability[z < 0.5] < 0.5).all()
