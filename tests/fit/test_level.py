"""`level=` of a fit is the probability of all intervals for which no other is given, in its checks and in its file too."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from refusals import refused
from scipy.stats import norm

import gmlmdsl as gm
from gmlmdsl.report import fit_report

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

SPINS = """
graph G = complete(range(3))
model m {
  var x[i in range(3)] : spin
  param h[i in range(3)] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i] for i in range(3)
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
ENDS = ["2.5%", "97.5%"]


def rows() -> np.ndarray:
    rng = np.random.default_rng(4)
    return np.where(rng.normal(size=(70, 1)) + rng.normal(size=(70, 3)) > 0, 1, -1)


@pytest.fixture(scope="module")
def fit() -> Any:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # pyright: ignore[reportAttributeAccessIssue]
        return gm.parse(SPINS).model().fit(rows(), level=0.95)


def test_intervals_of_a_fit_have_its_level(fit: Any) -> None:
    j, error, z = fit.params["J"], fit.standard_errors["J"], norm.ppf(0.975)
    assert fit.level == 0.95
    low, high = fit.interval()["J"]
    np.testing.assert_allclose([low, high], [j - z * error, j + z * error], rtol=1e-9)
    np.testing.assert_allclose(fit.summary()[ENDS].to_numpy()[3:], np.stack([low, high], axis=1), rtol=1e-9)
    table = fit.couplings(score="value")
    np.testing.assert_allclose(table[ENDS].to_numpy(), np.stack([low, high], axis=1)[np.argsort(-np.abs(j))], rtol=1e-9)
    assert table.attrs["probability"] == 0.95
    contrast = fit.contrast({"J": [1, 0, 0]})
    np.testing.assert_allclose(contrast.interval(), [low[0], high[0]], rtol=1e-9)
    np.testing.assert_allclose(contrast.interval(0.5), j[0] + norm.ppf(0.75) * error[0] * np.array([-1, 1]), rtol=1e-9)
    assert list(fit.summary(0.9).columns)[2:4] == ["5%", "95%"]  # said otherwise


@pytest.mark.slow
def test_checks_of_a_fit_have_its_level(fit: Any) -> None:
    boot = fit.bootstrap(5)
    np.testing.assert_array_equal(boot.interval()["J"], boot.interval(0.95)["J"])
    assert set(ENDS) <= set(boot.summary().columns)
    assert {f"strength {e}" for e in ENDS} <= set(fit.centrality("value", boot).columns)
    assert set(ENDS) <= set(fit.bootstrap_differences(boot).columns)
    assert fit.profile("J[0, 1]", 5).probability == 0.95
    page = fit_report(fit, check=fit.predictive(draws=40)).html()
    assert "95 % interval" in page
    assert "94 %" not in page


def test_bands_of_statistics_have_the_level() -> None:
    """k of m replicated values lie beyond each end of a band, k = (1 - level) / 2 (m + 1)."""
    fit = gm.parse(SPINS).model().fit(rows())
    default, wide, own = (fit.predictive(draws=99, seed=3, **how)["marginals"] for how in ({}, {"level": 0.98}, {"level": 0.9}))
    for s, k, ends in ((default, 3, ["3%", "97%"]), (wide, 1, ["1%", "99%"]), (own, 5, ["5%", "95%"])):
        ordered = np.sort(s.replicated, axis=0)
        np.testing.assert_array_equal(s.bands, [ordered[k - 1], ordered[-k]])
        np.testing.assert_allclose(s.expected_outside, 3 * 2 * k / 100)
        assert set(ends) <= set(s.table().columns)
        assert f"outside the {100 * s.level:g} % band" in repr(s)
    assert len(fit.predictive(draws=39, level=0.95)["pairs"].replicated) == 39
    refused("E507", lambda: fit.predictive(draws=38, level=0.95), "draws", "39")
    refused("E507", lambda: fit.predictive(level=95), "level", "between 0 and 1")


def test_a_level_is_kept_and_changed(fit: Any, tmp_path: Any) -> None:
    fit.save(tmp_path / "a.fit")
    again = gm.load_fit(tmp_path / "a.fit")
    assert again.level == 0.95
    assert set(ENDS) <= set(again.summary().columns)
    other = again.with_level(0.9)
    assert (other.level, again.level) == (0.9, 0.95)
    assert "5%" in other.summary().columns
    assert gm.parse(SPINS).model().fit(rows()).level == 0.94
    refused("E507", lambda: fit.with_level(95), "level", "0.95")
    refused("E507", lambda: gm.parse(SPINS).model().fit(rows(), level=True), "level")


@pytest.mark.slow
def test_intervals_cover_the_true_value_as_often_as_the_level_says() -> None:
    """300 data sets of 400 rows: coverage of three couplings, whose binomial standard error is 1.3 %, within four of them."""
    model = gm.parse(SPINS.replace(" ~ normal(0, 1)", "")).model()
    params = {"h": np.array([0.2, -0.1, 0.0]), "J": np.array([0.3, 0.0, -0.2])}
    x = np.asarray(model.sample(params, "exact", draws=300 * 400, chains=1, seed=8)["posterior"]["x"].values[0]).reshape(300, 400, 3)
    inside = []
    for own in x:
        low, high = model.fit(own, level=0.95, progress=False).interval()["J"]
        inside.append((low <= params["J"]) & (params["J"] <= high))
    np.testing.assert_allclose(np.mean(inside, axis=0), 0.95, atol=4 * np.sqrt(0.95 * 0.05 / 300))
