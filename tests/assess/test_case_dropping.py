"""Networks of subsets of rows, the CS coefficient, and tests of differences within a network, beside their definitions."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from refusals import refused

import gmlmdsl as gm
from gmlmdsl.assess import CaseDropping
from gmlmdsl.report import plot_case_dropping

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

SPINS = """
graph G = complete(range(4))
model m {
  var x[i in range(4)] : spin
  param h[i in range(4)] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i] for i in range(4)
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
PAIRS = np.array([(i, j) for i in range(4) for j in range(i + 1, 4)])


def rows(n: int = 60) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.where(rng.normal(size=(n, 1)) * [2, 1.5, 1, 0] + rng.normal(size=(n, 4)) > 0, 1, -1)


@pytest.fixture(scope="module")
def fit() -> Any:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # pyright: ignore[reportAttributeAccessIssue]
        return gm.parse(SPINS).model().fit(rows())


def strengths(params: Any) -> np.ndarray:
    return np.array([np.abs(params["J"])[np.equal(PAIRS, i).any(axis=1)].sum() for i in range(4)])


@pytest.mark.slow
def test_subsets_are_fits_of_the_rows_that_stay(fit: Any) -> None:
    found = fit.case_dropping(3, [0.5, 0.2], seed=4, score="value")
    np.testing.assert_array_equal(found.shares, [0.2, 0.5])
    np.testing.assert_array_equal(found.rows, [48, 30])
    for k, kept in enumerate((48, 30)):
        for r in range(3):
            stay = np.random.default_rng((4, k, r)).multivariate_hypergeometric(np.ones(60, int), kept)
            assert stay.sum() == kept
            again = fit.model.fit(rows()[stay > 0])
            for name, of in (("edges", lambda p: p["J"]), ("strength", strengths)):
                expected = np.corrcoef(of(again.params), of(fit.params))[0, 1]
                np.testing.assert_allclose(found.correlations[name][k, r], expected, rtol=1e-4)
    assert list(found.correlations) == ["edges", "strength", "expected_influence", "closeness", "betweenness"]
    np.testing.assert_array_equal(
        found.correlations["edges"][:, :2], fit.case_dropping(2, [0.2, 0.5], seed=4, score="value").correlations["edges"]
    )


def test_counts_are_dropped_one_by_one_and_importances_stay(fit: Any) -> None:
    x, counts = np.unique(rows(), axis=0, return_counts=True)
    model, options = fit.model, {"seed": 1, "score": "value"}
    counted = model.fit(x, weights=counts, weights_are="counts").case_dropping(2, [0.4], **options)
    stay = np.random.default_rng((1, 0, 1)).multivariate_hypergeometric(counts, 36)
    again, whole = (model.fit(x, weights=w, weights_are="counts").params["J"] for w in (stay, counts))
    np.testing.assert_allclose(counted.correlations["edges"][0, 1], np.corrcoef(again, whole)[0, 1], rtol=1e-4)
    weights = np.r_[np.zeros(10), np.full(50, 0.5)]
    weighted = model.fit(rows(), weights=weights).case_dropping(2, [0.4], **options)
    stay = np.random.default_rng((1, 0, 0)).multivariate_hypergeometric((weights > 0).astype(int), 30) * 0.5
    again, whole = (model.fit(rows(), weights=w).params["J"] for w in (stay, weights))
    np.testing.assert_allclose(weighted.correlations["edges"][0, 0], np.corrcoef(again, whole)[0, 1], rtol=1e-4)
    assert weighted.rows.tolist() == [30]


def dropped(**correlations: Any) -> CaseDropping:
    found = {name: np.array(c, float) for name, c in correlations.items()}
    return CaseDropping(np.array([0.1, 0.3, 0.6]), np.array([90, 70, 40]), found, 0.7, 0.75, 1, 2.0)


def test_the_coefficient_is_the_largest_share_whose_subsets_are_correlated_enough() -> None:
    """More than three in four subsets above 0.7; subsets without an estimate do not count."""
    nan = np.nan
    high, low = [0.9] * 5, [0.1] * 5
    four = [0.9, 0.9, 0.9, 0.71, 0.7]  # 4 of 5 are above
    found = dropped(a=[high, four, low], b=[high, [0.9, 0.9, 0.9, 0.7, nan], low], c=[low] * 3, d=[low, low, [0.9, nan, nan, nan, 0.8]])
    assert found.coefficients == {"a": 0.3, "b": 0.1, "c": 0.0, "d": 0.6}
    table = found.table().set_index(["statistic", "dropped"])
    np.testing.assert_allclose(table.loc["a", "mean"], np.array([0.9, np.mean(four), 0.1]))
    np.testing.assert_allclose(table.loc["a", "above"], [1, 0.8, 0])
    np.testing.assert_allclose(table.loc[("a", 0.3), ["2.5%", "97.5%"]].tolist(), np.quantile(four, [0.025, 0.975]))
    assert table.loc["b", "subsets"].tolist() == [5, 4, 5]
    text = str(found)
    assert "a: 0.3" in text
    assert "d: 0.6, the highest share that was tried" in text
    assert "1 refits did not converge" in text
    axes = plot_case_dropping(found).axes[0]
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_xydata()), np.c_[[10, 30, 60], [0.9, np.mean(four), 0.1]])
    assert axes.lines[-1].get_ydata()[0] == 0.7  # pyright: ignore[reportIndexIssue]
    assert "a: CS 0.30" in {t.get_text() for t in axes.figure.legends[0].get_texts()}  # pyright: ignore[reportAttributeAccessIssue]


def test_differences_within_a_network_are_percentiles_of_differences(fit: Any) -> None:
    boot = fit.bootstrap(5)
    rng = np.random.default_rng(0)
    estimates = np.tile(boot.estimate, (400, 1)) + rng.normal(0, 0.2, (400, 10))
    estimates[:3, 2] = np.nan, np.inf, -np.inf  # these replications are left out
    boot = dataclasses.replace(boot, estimates=estimates)
    found = fit.bootstrap_differences(boot, level=0.9)
    j, again = fit.params["J"], estimates[3:, 4:]
    names = [f"x[{a}] - x[{b}]" for a, b in PAIRS]
    assert len(found) == 15
    for _, row in found.iterrows():
        a, b = names.index(row["first"]), names.index(row["second"])
        apart = again[:, a] - again[:, b]
        np.testing.assert_allclose([row["a"], row["b"], row["value"]], [j[a], j[b], j[a] - j[b]], rtol=1e-10)
        ends = np.quantile(apart, [0.05, 0.95])
        np.testing.assert_allclose(row[["5%", "95%"]].tolist(), ends, rtol=1e-9)
        assert row["differs"] == (ends[0] > 0 or ends[1] < 0)
        assert row["p_value"] == min(1.0, 2 * (min((apart <= 0).sum(), (apart >= 0).sum()) + 1) / 398)
    assert set(found["differs"]) == {True, False}
    assert found["p_value"].is_monotonic_increasing
    nodes = fit.bootstrap_differences(boot, "strength", score="value")
    apart = np.abs(again) @ [(PAIRS == 0).any(axis=1), (PAIRS == 3).any(axis=1)][0] - np.abs(again) @ (PAIRS == 3).any(axis=1)
    mine = nodes[(nodes["first"] == "x[0]") & (nodes["second"] == "x[3]")].iloc[0]
    np.testing.assert_allclose(mine[["3%", "97%"]].tolist(), np.quantile(apart, [0.03, 0.97]), rtol=1e-9)


@pytest.mark.slow
def test_edges_that_are_equal_differ_as_rarely_as_the_level_says() -> None:
    """60 data sets with J[0, 1] = J[0, 2]: rejections at 10 % are binomial, 99.9 % of which are up to 14."""
    model = gm.parse(SPINS).model()
    params = {"h": np.zeros(4), "J": np.array([0.4, 0.4, 0, 0, 0, 0])}
    x = np.asarray(model.sample(params, "exact", draws=60 * 200, chains=1, seed=3)["posterior"]["x"].values[0]).reshape(60, 200, 4)
    wrong = right = 0
    for own in x:
        fit = model.fit(own)
        found = fit.bootstrap_differences(fit.bootstrap(60, progress=False), level=0.9).set_index(["first", "second"])["differs"]
        wrong += found["x[0] - x[1]", "x[0] - x[2]"]
        right += found["x[0] - x[1]", "x[2] - x[3]"]
    assert wrong <= 14
    assert right >= 45


def test_what_cannot_be_dropped_or_compared(fit: Any, tmp_path: Any) -> None:
    refused("E507", lambda: fit.case_dropping(2, [0.0]), "shares", "between 0 and 1")
    refused("E507", lambda: fit.case_dropping(2, "half"), "shares")
    refused("E507", lambda: fit.case_dropping(2, [0.99]), "fewer than 2", "[1]")
    refused("E507", lambda: fit.case_dropping(1, [0.5]), "replications")
    refused("E507", lambda: fit.case_dropping(2, [0.5], correlation=1), "correlation")
    refused("E507", lambda: fit.case_dropping(2, [0.5], certainty="a"), "certainty")
    refused("E507", lambda: fit.case_dropping(2, [0.5], score="apc"), "norm")
    refused("E546", lambda: fit.case_dropping(50, [0.5], max_seconds=1e-9), "50 refits")
    refused("E507", lambda: fit.bootstrap_differences(3), "fit.bootstrap")
    boot = fit.bootstrap(2)
    refused("E507", lambda: fit.bootstrap_differences(boot, "edge"), "'strength'")
    refused("E507", lambda: fit.bootstrap_differences(boot, level=95), "0.95")
    refused("E507", lambda: plot_case_dropping(boot), "case_dropping")
    fit.save(tmp_path / "a.fit")
    refused("E505", lambda: gm.load_fit(tmp_path / "a.fit").case_dropping(2, [0.5]))
