"""Draws of parameters with log likelihoods: against a grid, against ArviZ, and refused where there is no likelihood."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.assess._posterior import _metropolis
from gmlmdsl.sample._arviz import arviz, groups_of, quiet

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")
COIN = """
model coin {
  var   x[i in range(2)] : bit
  param h    ~ normal(0.5, 1)
  param J
  factor h * (x[0] + x[1])
  factor J * x[0] * x[1]
}
mask single = subsets(size = 1)
mask whole  = everything()
"""
ROWS = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [9, 6, 5, 10], axis=0)


@functools.cache
def fitted(mask: str, held: bool) -> Any:
    return gm.parse(COIN).model().fit(ROWS, mask, fixed={"J": 0.3} if held else None)


@functools.cache
def drawn(held: bool) -> Any:
    return fitted("whole", held).to_arviz(draws=1500, chains=2, seed=1)


def row_log_likelihoods(h: np.ndarray, coupling: np.ndarray | float) -> np.ndarray:
    """log p(x_r) by hand, the rows last."""
    weight = np.stack([0 * h, h, h, 2 * h + coupling], axis=-1)
    table = weight - np.log(np.exp(weight).sum(axis=-1, keepdims=True))
    return table[..., ROWS[:, 0] * 2 + ROWS[:, 1]]


def test_draws_are_the_posteriors():
    """One parameter: mean and spread of the draws against a grid, within 5 Monte Carlo errors; log p(x_r) against a formula."""
    grid = np.linspace(-4, 4, 4001)
    density = np.exp(row_log_likelihoods(grid, 0.3).sum(axis=1) - 0.5 * (grid - 0.5) ** 2)
    density /= density.sum()
    mean, spread = density @ grid, np.sqrt(density @ grid**2 - (density @ grid) ** 2)
    groups = groups_of(drawn(True))
    h = groups["posterior"]["h"].values
    with quiet():
        size = float(arviz().ess(drawn(True), var_names=["h"])["h"])
    assert size > 800
    assert abs(h.mean() - mean) < 5 * spread / np.sqrt(size)
    assert abs(h.std() / spread - 1) < 5 / np.sqrt(2 * size)
    pointwise = groups["log_likelihood"]["x"]
    assert pointwise.dims == ("chain", "draw", "row")
    np.testing.assert_allclose(pointwise.values, row_log_likelihoods(h, 0.3), atol=1e-9)
    prior = -0.5 * (h - 0.5) ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(groups["sample_stats"]["lp"].values, pointwise.values.sum(axis=2) + prior, atol=1e-8)
    assert (groups["posterior"]["J"].values == 0.3).all()
    np.testing.assert_array_equal(groups["observed_data"]["x"].values, ROWS)


def test_arviz_leaves_one_out_as_the_grid_does():
    """elpd_loo of `arviz.loo` against leaving each row out on the grid, to 0.05; and near half of -CLIC."""
    grid = np.linspace(-4, 4, 4001)
    rows = row_log_likelihoods(grid, 0.3)
    joint = rows.sum(axis=1) - 0.5 * (grid - 0.5) ** 2
    rest = np.exp(joint[:, None] - rows)
    exact = np.log((rest * np.exp(rows)).sum(axis=0) / rest.sum(axis=0)).sum()
    with quiet():
        loo = arviz().loo(drawn(True))
    found = float(getattr(loo, "elpd", None) or loo["elpd_loo"])
    assert abs(found - exact) < 0.05
    assert abs(found + fitted("whole", True).information_criterion().value / 2) < 0.3


def test_arviz_compares_fits():
    with quiet():
        table = arviz().compare({"held": drawn(True), "free": drawn(False)})
    assert set(table.index) == {"held", "free"}


def test_draws_come_from_the_seed():
    fit = fitted("whole", False)
    one, again, other = (groups_of(fit.to_arviz(draws=5, chains=2, seed=s))["posterior"]["h"].values for s in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_metropolis_keeps_the_law_and_leaves_impossible_starts():
    """Proposals of three kinds with weights 1, 2 and 4: visited in these shares, within 4 standard errors of the chain's."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, (4, 5000))
    kinds[0, :3] = 3
    weight = np.log(np.array([1.0, 2.0, 4.0, 1e-300]))
    weight[3] = -np.inf
    kept, accepted = _metropolis(weight[kinds], rng)
    here = np.take_along_axis(kinds, kept, axis=1)
    assert (here[0, :3] == 3).all() and (here[:, 10:] < 3).all()
    shares = np.array([(here[:, 10:] == k).mean() for k in range(3)])
    assert np.abs(shares - np.array([1, 2, 4]) / 7).max() < 0.02
    np.testing.assert_array_equal(accepted[:, 1:], kept[:, 1:] == np.arange(1, 5000))


def test_a_pseudolikelihood_has_no_likelihood_of_rows():
    with pytest.raises(gm.GmlmError, match=r"mask `single` has a pseudolikelihood") as caught:
        fitted("single", False).to_arviz()
    assert caught.value.codes == ("E550",)
    assert "gm.compare" in caught.value.diagnostics[0].help
    weighted = gm.parse(COIN).model().fit(ROWS, "whole", weights=np.arange(1.0, 31))
    with pytest.raises(gm.GmlmError, match="rows with weights have no likelihood"):
        weighted.to_arviz()
    ones = gm.parse(COIN).model().fit(ROWS, "whole", weights=np.ones(30))
    assert groups_of(ones.to_arviz(draws=2, chains=1))["posterior"]["h"].shape == (1, 2)


def test_what_has_no_posterior_or_costs_too_much_is_refused():
    separated = gm.parse(COIN).model().fit(ROWS[:9], "whole")
    with pytest.raises(gm.GmlmError) as caught:
        separated.to_arviz()
    assert caught.value.codes == ("E552",)
    with pytest.raises(gm.GmlmError, match=r"log p of 30 rows at 4.*e\+09|log p of 30 rows at 4,000,000,400 draws") as caught:
        fitted("whole", False).to_arviz(draws=10**9)
    assert caught.value.codes == ("E601",)
    with pytest.raises(gm.GmlmError, match="draws must be"):
        fitted("whole", False).to_arviz(draws=0)


def test_a_posterior_far_from_normal_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gmlmdsl.assess._posterior.LEAST_ACCEPTED", 1.1)
    with pytest.warns(gm.SamplingWarning, match="far from normal"):
        fitted("whole", False).to_arviz(draws=5, chains=1)
