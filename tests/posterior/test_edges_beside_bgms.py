"""Inclusion probabilities of edges between symptoms of ADHD beside those that the R package bgms gave for the same rows and priors.

Rows: the first six items of the data set `ADHD`, 355 children (Silk and others 2019, doi:10.1371/journal.pone.0211053.s004, CC BY 4.0).
Numbers: bgms 0.1.6.3, two chains of 200 draws by NUTS, seed 201: `tests/compliance/fixtures/bgm_adhd_nuts_bernoulli.rds` of
github.com/Bayesian-Graphical-Modelling-Lab/bgms at 9f85b8a, made by `generate_fixtures.R` beside it.

bgms draws from the same pseudolikelihood, with slabs Cauchy(0, 2.5), and fields h whose exp(h) is beta-prime(1/2, 1/2). Our draws are under
normal priors near these, and weighted by the ratio of the priors.
"""

from __future__ import annotations

import numpy as np
import pytest

import gmlmdsl as gm

ROWS = """
000000:139 000001:16 000010:2 000011:1 000100:5 000111:1 001000:17 001001:10 001010:2 001011:3 001100:1 001101:4 001110:3 001111:4
010000:2 010010:1 010101:1 010111:3 011000:1 011010:1 011011:2 011101:2 011111:6 100000:2 100001:1 100111:2 101000:3 101001:2 101011:11
101100:1 101101:4 101110:2 101111:22 110011:1 110101:1 110110:2 110111:1 111000:1 111001:1 111010:2 111011:24 111101:4 111110:5 111111:36
"""
PROBABILITY = [1.0, 1.0, 0.7875, 1.0, 0.99, 0.1525, 0.48, 1.0, 0.49, 0.82, 1.0, 1.0, 1.0, 0.9975, 0.9875]
ERROR = [0.0, 0.0, 0.0491, 0.0, 0.0086, 0.0236, 0.0494, 0.0, 0.0625, 0.0524, 0.0, 0.0, 0.0, 0.0025, 0.0165]
MEAN = [1.3067, 1.968, 0.5398, 1.6216, 1.0069, 0.0363, 0.2589, 1.9206, 0.323, 0.6164, 1.441, 1.4792, 1.2316, 1.0033, 1.1533]
TEXT = """
graph G = complete(6)
model symptoms {
  var x[i in G.nodes] : bit
  param h[i in G.nodes] ~ normal(-2, 2)
  param J[(i, j) in G.edges] ~ spike_slab(sd = 3.133, probability = 0.5)
  factor h[i] * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
"""
ERRORS = 4.0


def rows() -> np.ndarray:
    found = [[list(map(int, bits))] * int(count) for bits, count in (word.split(":") for word in ROWS.split())]
    return np.array([row for rows in found for row in rows])


def log_ratio(h: np.ndarray, coupling: np.ndarray) -> np.ndarray:
    """Log of the priors of bgms over ours, up to a constant; an entry that is out, 0, has a spike in both."""
    fields = h / 2 - np.logaddexp(0, h) + ((h + 2) / 2) ** 2 / 2
    cauchy, normal = -np.log(np.pi * 2.5 * (1 + (coupling / 2.5) ** 2)), -((coupling / 3.133) ** 2) / 2 - np.log(3.133 * np.sqrt(2 * np.pi))
    return fields.sum(axis=-1) + np.where(coupling == 0, 0.0, cauchy - normal).sum(axis=-1)


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_edges_beside_bgms():
    x = rows()
    assert x.shape == (355, 6)
    idata = gm.parse(TEXT).model().posterior(x, draws=500, warmup=100, chains=4, seed=1)
    draws, told = idata["posterior"], gm.inclusion(idata, "J")
    log = log_ratio(draws["h"].values, draws["J"].values)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    assert 1 / (weight**2).sum() > 0.5 * weight.size  # the priors are near one another
    found = np.einsum("cd,cde->e", weight, draws["J_included"].values)
    mean = np.einsum("cd,cde->e", weight, draws["J"].values)
    print(np.stack([PROBABILITY, found], axis=1).round(3), np.stack([MEAN, mean], axis=1).round(3), sep="\n")
    ours = np.nan_to_num(1.5 * told["mcse"].to_numpy(), nan=0.0)  # the weights make it a little larger
    floor = 3 / 400  # what all draws of bgms agree on is known to this
    assert (np.abs(found - PROBABILITY) < np.maximum(ERRORS * np.hypot(ERROR, ours), 3 * floor)).all()
    np.testing.assert_allclose(mean, MEAN, atol=0.2)  # four errors of bgms' means, the largest of which is 0.05
