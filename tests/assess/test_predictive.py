"""Predictive checks: statistics by hand, p-values under the model, misfit found and a near neighbour let pass."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from fit_cases import TRUTH, rows, trio

import gmlmdsl as gm
from gmlmdsl.assess._predictive import Statistics
from gmlmdsl.fit import Inferred

pytestmark = pytest.mark.usefixtures("standard_promotion")
N = 60
CODES = rows(N, seed=5)

SPINS = """
index site = range(4)
graph G = complete(site)
model spins {
  var   x[i in site] : spin
  param h[i in site]         ~ normal(0, 3)
  param J[(i, j) in G.edges] ~ normal(0, 3)
  let pull[i in site] = x[i] * x[0]
  factor h[i] * x[i]           for i in site
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
sampler sweep { update x[i] for i in site }
sampler slow  { update x[K] where K ~ single }
"""
STATES = np.array(list(np.ndindex(2, 2, 2, 2))) * 2 - 1


@functools.cache
def at_truth() -> Any:
    return trio.model.fit(trio.values(CODES), "single", fixed=TRUTH)


@pytest.fixture
def truth(standard_promotion: None) -> Any:
    """The fit that holds every parameter of trio at the truth, so that it is the law its rows come from."""
    return at_truth()


def spins(log_weight: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Rows with the given log weights of `STATES`."""
    p = np.exp(log_weight)
    return STATES[np.random.default_rng(seed).choice(16, n, p=p / p.sum())]


@functools.cache
def three_body(strength: float) -> Any:
    """A pairwise fit to 600 rows with one interaction of three cells."""
    x = spins(0.3 * STATES[:, 0] * STATES[:, 1] + strength * STATES[:, 1:].prod(axis=1), 600, 0)
    return gm.parse(SPINS).model().fit(x)


# Statistics


@pytest.mark.slow
def test_observed_statistics_are_those_of_pairs_that_are_both_there(truth: Any):
    """With gaps and weights, by loops: each cell and pair among the rows where it is observed."""
    rng = np.random.default_rng(0)
    gaps = rng.random((N, 4)) < 0.3
    gaps[:, 3] &= gaps[:, 0]
    weights = rng.uniform(0.5, 2, N)
    x, hidden = trio.values(CODES), np.where(gaps, -1, CODES)
    x = {"x": np.where(gaps[:, :3], -9, x["x"]), "w": np.where(gaps[:, 3], -9, CODES[:, 3])}
    found = truth.predictive(draws=40, x=x, missing=-9, weights=weights)
    assert (found.rows, found.incomplete) == (N, int(gaps.any(axis=1).sum()))

    def share(holds: np.ndarray, both: np.ndarray) -> float:
        return float((weights * holds * both).sum() / (weights * both).sum())

    expected = {}
    for c, v in [(0, 1), (1, 1), (2, 1), (3, 0), (3, 1), (3, 2)]:
        name = f"x[{c}] = 1" if c < 3 else f"w = {['sun', 'rain', 'snow'][v]}"
        expected[name] = share(hidden[:, c] == v, ~gaps[:, c])
    assert list(found["marginals"].labels) == list(expected)
    np.testing.assert_allclose(found["marginals"].observed, list(expected.values()), rtol=1e-12)
    expected = {f"x[{i}] = x[{j}]": share(hidden[:, i] == hidden[:, j], ~gaps[:, i] & ~gaps[:, j]) for i, j in [(0, 1), (0, 2), (1, 2)]}
    for i in range(3):
        for a in (0, 1):
            for b, label in enumerate(["sun", "rain", "snow"]):
                holds = (hidden[:, i] == a) & (hidden[:, 3] == b)
                expected[f"x[{i}] = {2 * a - 1}, w = {label}"] = share(holds, ~gaps[:, i] & ~gaps[:, 3])
    observed = dict(zip(found["pairs"].labels, found["pairs"].observed, strict=True))
    assert list(observed) == list(expected)
    np.testing.assert_allclose([observed[k] for k in expected], list(expected.values()), rtol=1e-12)


def test_replicated_statistics_have_the_models_mean_and_spread(truth: Any):
    """Against the oracle's probabilities: the mean within 5 standard errors of 800 data sets, the spread within 15 %."""
    gaps = np.random.default_rng(0).random((N, 4)) < 0.3
    x = {"x": np.where(gaps[:, :3], -9, 1), "w": np.where(gaps[:, 3], -9, 0)}
    found = truth.predictive(draws=800, x=x, missing=-9)
    p, states = trio.oracle.probabilities(TRUTH), trio.oracle.states
    for name, holds, both in (
        ("x[1] = 1", states[:, 1] == 1, ~gaps[:, 1]),
        ("w = rain", states[:, 3] == 1, ~gaps[:, 3]),
        ("x[0] = x[2]", states[:, 0] == states[:, 2], ~gaps[:, 0] & ~gaps[:, 2]),
        ("x[2] = -1, w = sun", (states[:, 2] == 0) & (states[:, 3] == 0), ~gaps[:, 2] & ~gaps[:, 3]),
    ):
        s = found["marginals" if "," not in name and name.count("x[") < 2 else "pairs"]
        k, mean = s.labels.index(name), float(p @ holds)
        spread = np.sqrt(mean * (1 - mean) / both.sum())
        assert abs(s.mean[k] - mean) < 5 * spread / np.sqrt(800), name
        assert abs(s.spread[k] / spread - 1) < 0.15, name


def test_functions_and_summaries_are_of_complete_rows(truth: Any):
    x = trio.values(CODES)
    gaps = np.arange(N) % 3 == 0
    hidden = {"x": np.where(gaps[:, None], -9, x["x"]), "w": CODES[:, 3]}
    found = truth.predictive(
        draws=40,
        statistics=(),
        functions={"total": lambda x: x["x"].sum()},
        summaries={"distinct": lambda x: len(np.unique(x["x"], axis=0))},
        x=hidden,
        missing={"x": -9},
    )
    total = np.asarray(x["x"])[~gaps].sum(axis=1)
    s = found["total"]
    assert s.labels == ("mean of total", "spread of total", "total = -3", "total = -1", "total = 1", "total = 3")
    shares = [(total == v).mean() for v in (-3, -1, 1, 3)]
    np.testing.assert_allclose(s.observed, [total.mean(), total.std(), *shares], rtol=1e-12)
    np.testing.assert_allclose(s.replicated[:, 2:].sum(axis=1), 1, rtol=1e-12)
    assert found["distinct"].observed == [len(np.unique(np.asarray(x["x"])[~gaps], axis=0))]


def test_a_let_and_many_values_are_statistics_too():
    fit = three_body(0.0)
    found = fit.predictive(draws=40, statistics=(), functions={"pulled": lambda x: jnp.sum(x * jnp.array([1.0, 2.3, 5.9, 13.1]))})
    assert len(found["pulled"].labels) == 2 + 10
    np.testing.assert_allclose(found["pulled"].observed[2:].sum(), 1)
    with pytest.raises(gm.GmlmError, match=r"must give one number for each configuration, got an array of shape \(4,\)"):
        fit.predictive(draws=40, functions={"pull": "pull"})


# p-values


def test_p_values_bands_and_counts_are_one_thing():
    """With ties as they come: p <= 0.06 is outside the band; p is (r + 1) / (m + 1) on the nearer side, doubled."""
    rng = np.random.default_rng(1)
    for m in (33, 99, 100, 400):
        s = Statistics("s", tuple("abcdef"), rng.integers(0, 25, 6) / 10, rng.integers(0, 25, (m, 6)) / 10)
        np.testing.assert_array_equal(s.outside, s.p_values <= 0.06 + 1e-12)
        for k in range(6):
            above, below = (s.replicated[:, k] >= s.observed[k]).sum(), (s.replicated[:, k] <= s.observed[k]).sum()
            assert s.p_values[k] == min(1, 2 * (min(above, below) + 1) / (m + 1))
    edge = Statistics("s", ("a", "b"), np.array([0.0, 1.0]), np.tile([0.0, 0.0], (40, 1)))
    assert edge.z.tolist() == [0.0, np.inf] and edge.p_values.tolist() == [1.0, 2 / 41]


@pytest.mark.slow
def test_p_values_are_uniform_under_the_model(truth: Any):
    """120 data sets of the model, parameters held: the shares of p below 0.1, 0.25, 0.5 within 4 standard errors; and of the largest |z|."""
    weird = {"s": lambda x: x["x"][0] + 0.37 * x["x"][1] + 0.211 * x["x"][2] + 0.1 * x["w"]}
    alone, together = [], []
    for k in range(120):
        s = truth.predictive(draws=39, statistics=(), functions=weird, x=trio.values(rows(N, seed=1000 + k)), seed=k)["s"]
        alone.append(s.p_values[0])
        together.append(s.worst_p_value)
    for p in (np.array(alone), np.array(together)):
        for level in (0.1, 0.25, 0.5):
            assert abs((p <= level + 1e-12).mean() - level) < 4 * np.sqrt(level * (1 - level) / 120), level


# Misfit


def test_a_three_body_interaction_is_found_and_its_neighbour_is_not():
    """A pairwise fit matches marginals and pairs of both; the product of three cells tells them apart."""
    product = {"product": lambda x: x[1] * x[2] * x[3]}
    wrong, right = (three_body(s).predictive(functions=product) for s in (0.4, 0.0))
    for found in (wrong, right):
        assert np.abs(found["pairs"].z).max() < 1 and np.abs(found["marginals"].z).max() < 1
    assert abs(wrong["product"].z[0]) > 6 and wrong["product"].worst_p_value < 0.01
    assert "mean of product" in wrong.table(4).index
    assert abs(right["product"].z[0]) < 2.5 and right["product"].worst_p_value > 0.06
    assert "2 of" not in repr(right["product"])
    assert "outside the 94 % band" in repr(wrong) and "<table" in wrong._repr_html_()
    with pytest.raises(gm.GmlmError, match="no statistics `pair`"):
        wrong["pair"]


# Chains


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
def test_chains_agree_with_all_configurations_and_say_when_they_do_not_suffice():
    x = spins(0.6 * (STATES[:, 0] * STATES[:, 1] + STATES[:, 1] * STATES[:, 2] + STATES[:, 2] * STATES[:, 3]), 200, 3)
    fit = gm.parse(SPINS).model().fit(x)
    exact, chains = fit.predictive(draws=200), fit.predictive("sweep", draws=200, chains=4, warmup=50)
    for name in ("marginals", "pairs"):
        assert np.abs((exact[name].mean - chains[name].mean) / exact[name].spread).max() < 0.6
        np.testing.assert_allclose(chains[name].spread, exact[name].spread, rtol=0.25)
    assert "4 chains of `sweep`" in chains.source and chains.notes == ()
    slow = fit.predictive("slow", draws=33, chains=4, warmup=50, thin=1)
    assert any("too correlated for 200 rows" in n for n in slow.notes)
    with pytest.raises(gm.GmlmError, match="no sampler `exacte`"):
        fit.predictive("exacte")


@pytest.mark.slow  # a fit of 17 cells for a refusal
def test_models_too_large_to_list_need_a_sampler():
    large = gm.parse(SPINS.replace("range(4)", "range(17)").replace("complete(site)", "chain(site)").replace("~ normal(0, 3)", ""))
    x = np.ones((5, 17), int) * np.array([1, -1, 1, -1, 1])[:, None]
    fit = large.model().fit(x, max_steps=1)
    with pytest.raises(gm.GmlmError, match="2 samplers: say which"):
        fit.predictive()
    with pytest.raises(gm.GmlmError, match=r"exact draws of 17 cells: 1.31e\+05 configurations") as caught:
        fit.predictive("exact")
    assert caught.value.codes == ("E601",)


# Faults


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"draws": 32}, "E507", "draws must be a whole number of at least 33"),
        ({"seed": -1}, "E507", "seed must be"),
        ({"statistics": "pairs"}, "E553", "statistics must be a list"),
        ({"statistics": ("triples",)}, "E553", "got `triples`"),
        ({"statistics": ()}, "E553", "one at least"),
        ({"functions": [len]}, "E553", "functions must be a dict"),
        ({"functions": {"pairs": lambda x: 1.0}}, "E553", "need a name each"),
        ({"functions": {"f": lambda x: x["x"]}}, "E553", r"an array of shape \(3,\)"),
        ({"functions": {"f": lambda x: 1.0 if x["x"][0] > 0 else 0.0}}, "E553", "`f` fails: TracerBoolConversionError"),
        ({"functions": {"f": lambda x: jnp.log(x["x"].sum() * 1.0)}}, "E553", "not finite"),
        ({"functions": {"f": "lett"}}, "E506", "no `let` called `lett`"),
        ({"summaries": {"f": 3}}, "E553", "must be a function of a data set"),
        ({"summaries": {"f": lambda x: x["x"].mean(axis=0)}}, "E553", "one finite number"),
        ({"summaries": {"f": lambda x: x["y"]}}, "E553", "`f` fails: KeyError"),
    ],
)
def test_what_does_not_fit_is_one_diagnostic(truth: Any, options: dict[str, Any], code: str, said: str):
    with pytest.raises(gm.GmlmError, match=said) as caught:
        truth.predictive(**options)
    assert caught.value.codes == (code,)


def test_a_fit_that_diverged_makes_no_data(truth: Any):
    import dataclasses

    fit = dataclasses.replace(truth, inference=Inferred(dataclasses.replace(truth.status, code="diverged"), {}))
    with pytest.raises(gm.GmlmError, match="the fit diverged") as caught:
        fit.predictive()
    assert caught.value.codes == ("E552",)


def test_functions_need_a_row_without_gaps(truth: Any):
    x = {"x": np.full((3, 3), -9), "w": ["sun"] * 3}
    with pytest.raises(gm.GmlmError, match="need rows without gaps"):
        truth.predictive(functions={"f": lambda x: 1.0}, x=x, missing={"x": -9})
    assert truth.predictive(draws=33, x=x, missing={"x": -9})["marginals"].labels == ("w = sun", "w = rain", "w = snow")


def test_all_pairs_of_many_cells_are_refused_with_the_figure(truth: Any):
    for draws, said in (
        (10**9, r"statistics of 1,000,000,000 data sets .* GiB"),
        (5 * 10**7, r"all pairs of 4 cells in 50000000 .* operations"),
    ):
        with pytest.raises(gm.GmlmError, match=said) as caught:
            truth.predictive(draws=draws)
        assert caught.value.codes == ("E601",)


# Pictures


@pytest.mark.slow  # pictures are dear; the numbers in them are tested above
def test_pictures_name_the_worst_and_the_report_has_them(truth: Any, monkeypatch: pytest.MonkeyPatch):
    from gmlmdsl.report import fit_report, plot_predictive

    found = truth.predictive(draws=40, summaries={"ones": lambda x: (x["x"] == 1).sum()}, functions={"far": lambda x: x["x"][0] * x["w"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures = {k: plot_predictive(s) for k, s in found.statistics.items()}
    named = [t.get_text() for t in figures["pairs"].axes[1].get_yticklabels()]
    assert named == list(found["pairs"].table(12).index)
    assert len(figures["marginals"].axes) == 1
    assert figures["ones"].axes[0].get_xlabel() == "ones"
    page = fit_report(truth, check=found).html()
    assert "Does the model make data like these?" in page and "outside their 94 % band" in page
    assert "Does the model make data like these?" in fit_report(truth).html()
    monkeypatch.setattr("gmlmdsl.report._fit_report.MOST_CHECKED_STATES", 3)
    assert "make data like these" not in fit_report(truth).html()
