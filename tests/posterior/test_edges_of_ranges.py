"""Posteriors of parameters whose estimate is at the edge of their range, or a saddle: NUTS adapts its scale, and the draws are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.sample import groups_of

PAIR = """
model pair {
  var x[i in range(2)] : spin
  param w ~ half_normal(1)
  factor w * x[0] * x[1]
}
mask whole = everything(x)
mask one = subsets(x, size = 1)
"""
ROWS = np.array([[1, 1]] * 18 + [[1, -1]] * 22)
pytestmark = [
    pytest.mark.usefixtures("standard_promotion"),
    pytest.mark.filterwarnings("ignore:.* diverged:gmlmdsl.SamplingWarning"),  # a few of thousands, where w is nearly 0
]


def expected() -> tuple[float, float]:
    """Mean and standard deviation of w, by quadrature: log p of a row is w x y - log cosh w - log 4."""
    w = np.linspace(0, 6, 200_001)
    log = (ROWS[:, 0] * ROWS[:, 1]).sum() * w - len(ROWS) * np.log(np.cosh(w)) - w**2 / 2
    p = np.exp(log - log.max())
    mean = (p * w).sum() / p.sum()
    return mean, np.sqrt((p * (w - mean) ** 2).sum() / p.sum())


def drawn(idata: Any) -> np.ndarray:
    return groups_of(idata)["posterior"]["w"].values


@pytest.mark.slow  # statistical
def test_a_posterior_around_an_estimate_at_the_edge():
    fit = gm.parse(PAIR).model().fit(ROWS, "whole")
    assert float(fit.params["w"]) < 1e-3
    draws = drawn(fit.posterior(1000, 4, seed=1))
    mean, sd = expected()
    error = sd / np.sqrt(draws.size / 4)  # a fourth of the draws counts as independent
    np.testing.assert_allclose([draws.mean(), draws.std()], [mean, sd], atol=4 * error)


@pytest.mark.slow
def test_a_pseudo_posterior_at_the_edge_has_finite_draws():
    draws = drawn(gm.parse(PAIR).model().fit(ROWS, "one").posterior(500, 2, None, seed=1))
    assert np.isfinite(draws).all()
    assert 0 < draws.mean() < 1


@pytest.mark.slow
def test_a_pseudo_posterior_at_the_edge_is_not_calibrated_in_silence():
    fit = gm.parse(PAIR).model().fit(ROWS, "one")
    with pytest.raises(gm.GmlmError, match="no minimiser to calibrate at"):
        fit.posterior(10, 1)


@pytest.mark.slow
def test_chains_of_a_hierarchical_prior_start_where_the_density_is_finite():
    text = """
model steps {
  var x[i in range(3)] : bit
  param mu ~ normal(0, 1)
  param tau ~ half_normal(1)
  param h[i in range(3)] ~ normal(mu, tau)
  factor log(1.5 - h[i]) * x[i] for i in range(3)
}
mask whole = everything(x)
"""
    x = np.random.default_rng(0).integers(0, 2, (40, 3))
    found = groups_of(gm.parse(text).model().posterior(x, "whole", draws=100, chains=8, warmup=150, seed=1))
    assert np.isfinite(found["sample_stats"]["lp"].values).all()
    assert (found["posterior"]["h"].values.std(axis=1) > 0.01).all()
