"""Errors of a fit of other kinds: Laplace's, counts, intervals of bounded parameters, the bootstrap, the profile, the Wald test."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from events import traced_or_compiled
from fit_cases import counted, flat, rows, trio, unflat
from oracle import numerical_gradient
from scipy.optimize import brentq, minimize
from scipy.stats import chi2, norm
from scipy.stats import f as f_law
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.assess._wald import holm
from gmlmdsl.evaluate._parameters import unflatten
from gmlmdsl.evaluate._priors import log_prior
from gmlmdsl.fit import _existence

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")
N = 400


@cache
def made(seed: int = 0) -> tuple[gm.Fit, np.ndarray, np.ndarray]:
    """A fit of the trio with its distinct rows as codes, and how often each stands there."""
    x, codes, counts = counted(rows(N, seed=seed))
    return trio.model.fit(x, "single", weights=counts, weights_are="counts"), codes, counts


@pytest.mark.slow
def test_laplace_errors_are_the_inverse_hessian():
    """By central differences of the oracle's objective, to 1e-4 of the largest."""
    fit, codes, counts = made()
    here, step = flat(fit.params), 1e-3

    def gradient(v: np.ndarray) -> np.ndarray:
        p = unflat(v, fit.params)
        return flat(numerical_gradient(lambda q: trio.oracle.fit_objective(q, codes, "single", counts), p, 1e-4))

    hessian = np.array([(gradient(here + step * e) - gradient(here - step * e)) / (2 * step) for e in np.eye(len(here))])
    expected = np.linalg.inv(0.5 * (hessian + hessian.T))
    np.testing.assert_allclose(fit.covariance_of("laplace"), expected, atol=1e-4 * np.diag(expected).max())
    np.testing.assert_allclose(fit.summary(errors="laplace")["std_error"], np.sqrt(np.diag(expected)), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("mask", "noted"), thinned([("whole", False), ("one", True), ("both", False), ("seen", True)], 4, 1))
def test_laplace_errors_of_what_is_no_likelihood_are_noted(mask: str, noted: bool, tmp_path: Path):
    """Only where every block is all that the mask can reach the Hessian is the covariance of the gradient; files keep the note."""
    text = PAIR + "mask whole = everything()\nmask both = blocks({a, b})\n"
    fit = gm.parse(text).model().fit({"a": FOUR[:, 0], "b": FOUR[:, 1]}, mask)
    fit.save(tmp_path / "a.fit")
    for f in (fit, gm.load_fit(tmp_path / "a.fit")):
        notes = list(f.summary(errors="laplace").get("note", []))
        assert notes == ["no valid error: the mask's loss is not a likelihood"] * 2 * noted


PAIR = """
model m {
  var a : bit
  var b : bit
  param h
  param J ~ normal(0, 3)
  factor h * a
  factor J * a * b
}
mask one = subsets(size = 1)
mask seen given a { choose {a, b} weight 1 + a  choose {b} weight 0.5 }
"""
pair, FOUR = gm.parse(PAIR).model(), np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
plain_pair = gm.parse(PAIR.replace("~ normal(0, 3)", "")).model()


def fit_pair(counts: Any, mask: str = "one", model: Any = pair) -> gm.Fit:
    return model.fit({"a": FOUR[:, 0], "b": FOUR[:, 1]}, mask, weights=counts, weights_are="counts")


@pytest.mark.slow
@pytest.mark.parametrize("mask", thinned(["one", "seen"], 2))
def test_a_weight_that_counts_is_so_many_rows(mask: str):
    """Estimate, objective, standard errors, and c, which is a mean over rows where the mask looks at them."""
    counts = np.array([5, 4, 3, 9])
    fit, whole = fit_pair(counts, mask), np.repeat(FOUR, counts, axis=0)
    repeated = pair.fit({"a": whole[:, 0], "b": whole[:, 1]}, mask)
    np.testing.assert_allclose(fit.objective, repeated.objective, rtol=1e-10)
    np.testing.assert_allclose(flat(fit.params), flat(repeated.params), atol=1e-6)
    np.testing.assert_allclose(fit.covariance, repeated.covariance, rtol=1e-5)
    assert fit.one_mask_covariance is not None
    np.testing.assert_allclose(fit.one_mask_covariance, repeated.one_mask_covariance, rtol=1e-5)
    importances = pair.fit({"a": FOUR[:, 0], "b": FOUR[:, 1]}, mask, weights=counts)
    assert np.abs(importances.covariance / fit.covariance - 1).max() > 0.5


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"weights": np.ones(24), "weights_are": "frequency"}, "E540"),
        ({"weights": np.full(24, 0.5), "weights_are": "counts"}, "E541"),
        ({"weights": np.ones(24), "weights_are": "counts", "n_masks": 1}, "E542"),
    ],
)
def test_weights_that_cannot_be_counts_are_refused(options: dict[str, Any], code: str):
    x = trio.values(np.repeat(trio.oracle.states[:1], 24, axis=0))
    with pytest.raises(gm.GmlmError) as caught:
        trio.model.fit(x, "single", **options)
    assert caught.value.codes == (code,)


# Intervals


@pytest.mark.produces("E547")
def test_intervals_stay_inside_the_range_of_a_parameter():
    """A positive one: v exp(-+ z e / v); a share: the logit; a real one: v -+ z e."""
    text = """model m {
      var a : bit
      var b : range(2)
      param h
      param s : positive
      param p[k in range(2)] : simplex
      factor h * a
      factor s * a * (b == 0)
      b ~ categorical(p)
    }
    mask one = everything()"""
    rows = {"a": [0, 1, 0, 1, 1, 1, 0, 1, 0, 0, 0], "b": [0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0]}
    fit = gm.parse(text).model().fit(rows)
    z = norm.ppf(0.97)
    low, high = fit.interval(0.94)["s"]
    v, e = fit.params["s"], fit.standard_errors["s"]
    assert v - z * e < 0 < low < v < high
    np.testing.assert_allclose([low, high], [v * np.exp(-z * e / v), v * np.exp(z * e / v)])
    low, high = fit.interval(0.94)["p"]
    v, e = fit.params["p"], fit.standard_errors["p"]
    odds = np.log(v / (1 - v))
    np.testing.assert_allclose(low, 1 / (1 + np.exp(-(odds - z * e / (v * (1 - v))))))
    np.testing.assert_allclose(low, 1 - high[::-1])
    v, e = fit.params["h"], fit.standard_errors["h"]
    np.testing.assert_allclose(fit.interval(0.94)["h"], (v - z * e, v + z * e))
    np.testing.assert_allclose(fit.summary().loc["s"].to_numpy()[2:].astype(float), np.ravel(fit.interval(0.94)["s"]))
    with pytest.raises(gm.GmlmError) as caught:
        fit.profile("s")
    assert caught.value.codes == ("E547",)


# Contrasts


@pytest.mark.slow
def test_a_contrast_has_the_variance_of_its_parts():
    fit, _, _ = made()
    c = np.array([1.0, -1, 0, 0.5, 0, 0, 0, 2])
    found = fit.contrast({"h": [1, -1, 0], "J": [0.5, 0], "u": [0, 0, 2]})
    assert found.estimate == pytest.approx(c @ flat(fit.params))
    assert found.std_error == pytest.approx(np.sqrt(c @ fit.covariance @ c))
    low, high = found.interval(0.5)
    assert high - low == pytest.approx(2 * norm.ppf(0.75) * found.std_error)


@pytest.mark.produces("E544")
@pytest.mark.parametrize("parts", [{}, {"h": 1}, {"h": ["a", "b", "c"]}, {"h": [0, 0, 0]}, 3])
def test_a_contrast_that_does_not_fit_is_refused(parts: Any):
    with pytest.raises(gm.GmlmError) as caught:
        made()[0].contrast(parts)
    assert caught.value.codes == ("E544",)


@pytest.mark.produces("E543")
def test_errors_of_another_kind_are_refused():
    with pytest.raises(gm.GmlmError) as caught:
        made()[0].summary(errors="naive")
    assert caught.value.codes == ("E543",)


# The bootstrap


def test_the_bootstrap_compiles_nothing_and_its_intervals_are_its_own_estimates():
    fit, _, _ = made()
    fit.bootstrap(2)  # weights are drawn for the first time
    with traced_or_compiled() as compiled:
        boot = fit.bootstrap(30, seed=1)
    assert compiled == []
    assert boot.estimates.shape == (30, 8)
    np.testing.assert_array_equal(boot.without_estimate, 0)
    np.testing.assert_allclose(np.sqrt(np.diag(boot.covariance)), flat(boot.standard_errors))
    low, high = boot.interval(0.9)["h"]
    ordered = np.sort(boot.estimates[:, :3], axis=0)
    np.testing.assert_array_equal(low, ordered[1])  # the 2nd of 30 is the 5 % point: 1 / 30 < 0.05 <= 2 / 30
    np.testing.assert_array_equal(high, ordered[28])
    np.testing.assert_array_equal(boot.estimates[:2], fit.bootstrap(2, seed=1).estimates)
    assert list(boot.summary().columns) == ["estimate", "std_error", "3%", "97%", "no_estimate"]
    assert repr(boot) == str(boot) and repr(boot).startswith("Bootstrap of ")
    assert "<p>Bootstrap of " in boot._repr_html_() and "<th>std_error</th>" in boot._repr_html_()


@pytest.mark.slow  # in the gate replications without an estimate are those that enumeration says
def test_the_bootstrap_agrees_with_the_sandwich():
    """150 replications: each standard error within 25 %, four of its own standard errors (1 / sqrt(2 * 150) = 5.8 %)."""
    fit, _, _ = made()
    boot = fit.bootstrap(150, seed=1)
    np.testing.assert_allclose(flat(boot.standard_errors) / flat(fit.standard_errors), 1, atol=0.25)


@pytest.mark.slow
def test_replications_without_an_estimate_are_counted_and_not_averaged():
    """One row of 12 keeps J from infinity: a replication that does not draw it separates."""
    counts = np.array([4, 4, 3, 1])
    fit = fit_pair(counts, model=plain_pair)
    boot = fit.bootstrap(60, seed=3)
    drawn = np.array([np.random.default_rng((3, r)).multinomial(12, counts / 12) for r in range(60)])
    lost = (drawn[:, 3] == 0) & (drawn[:, :3] > 0).all(axis=1)
    assert 10 < lost.sum() < 40
    assert (boot.estimates[lost, 1] == -np.inf).all()
    whole = (drawn > 0).all(axis=1)
    assert np.isfinite(boot.estimates[whole]).all()
    assert boot.without_estimate[1] >= lost.sum()
    assert boot.interval(0.94)["J"][0] == -np.inf
    assert np.isfinite(boot.standard_errors["J"])
    assert "no finite estimate" in str(boot)


@pytest.mark.slow  # replications without an estimate are above
def test_refits_do_not_ask_what_the_data_alone_leave_open_and_find_what_a_fit_finds(monkeypatch: pytest.MonkeyPatch):
    """J has a prior, h none: without a row of a = 1 h runs to minus infinity, whatever is asked of J without its prior."""
    counts, asked = np.array([5, 4, 1, 1]), []
    fit, search = fit_pair(counts), _existence._recession
    monkeypatch.setattr(_existence, "_recession", lambda *a: asked.append(set(a[3])) or search(*a))
    boot = fit.bootstrap(30, seed=3)
    assert asked
    assert all(held == {"J"} for held in asked)
    drawn = np.array([np.random.default_rng((3, r)).multinomial(11, counts / 11) for r in range(30)])
    lost = (drawn[:, 2:] == 0).all(axis=1)
    assert lost.any()
    np.testing.assert_array_equal(boot.estimates[:, 0] == -np.inf, lost)
    asked.clear()
    own = fit_pair(drawn[lost][0])
    assert set() in asked  # a fit that is looked at is told whether the prior decides
    assert own.status.separated.tolist() == [-1, 0]


@pytest.mark.produces("E546")
def test_a_bootstrap_without_data_or_beyond_its_limit_is_refused(tmp_path: Any):
    fit, _, _ = made()
    for options, code in (({"max_seconds": 1e-9}, "E546"), ({"replications": 1}, "E507"), ({"seed": -1}, "E507")):
        with pytest.raises(gm.GmlmError) as caught:
            fit.bootstrap(**options)
        assert caught.value.codes == (code,)
    fit.save(tmp_path / "a.fit")
    with pytest.raises(gm.GmlmError) as caught:
        gm.load_fit(tmp_path / "a.fit").bootstrap()
    assert caught.value.codes == ("E505",)


# The profile


@pytest.mark.slow
def test_a_profile_minimises_over_the_rest():
    """At two points of the grid SciPy's BFGS on the oracle's objective, with the entry held, finds the same to 1e-6."""
    fit, codes, counts = made()
    found = fit.profile("J[0, 1]", points=7)
    assert found.name == "J[0, 1]"
    for k in (0, 5):

        def objective(v: np.ndarray, held: float = found.grid[k]) -> float:
            return trio.oracle.fit_objective(unflat(np.insert(v, 3, held), fit.params), codes, "single", counts)

        plain = minimize(objective, np.delete(flat(fit.params), 3), method="BFGS", options={"gtol": 1e-4})
        assert found.objective[k] == pytest.approx(plain.fun, abs=1e-6)
    ratio = fit.covariance[3, 3] / fit.covariance_of("laplace")[3, 3]
    assert found.adjustment == pytest.approx(ratio, rel=1e-6)
    low, high = found.interval
    np.testing.assert_allclose([low, high], np.ravel(fit.interval(0.94)["J"])[[0, 2]], atol=0.2 * fit.standard_errors["J"][0])
    np.testing.assert_allclose(np.interp([low, high], found.grid, found.drop), norm.ppf(0.97) ** 2, rtol=0.05)
    np.testing.assert_allclose(found.table()["drop"].min(), 0)


def test_a_profile_of_a_likelihood_is_not_adjusted_and_ends_where_chi_square_says():
    """One bit, 3 of 40: the interval of the log odds solves 2 n KL = chi-square, and the drop is not divided by more than rounding."""
    model = gm.parse("model m { var x : bit  param h  factor h * x }\nmask one = everything()").model()
    fit = model.fit([0, 1], weights=[37, 3], weights_are="counts")
    found = fit.profile("h", points=41, probability=0.95)

    def excess(h: float) -> float:
        def loss(u: float) -> float:
            return 40 * np.log1p(np.exp(u)) - 3 * u

        return 2 * (loss(h) - loss(np.log(3 / 37))) - chi2.ppf(0.95, 1)

    assert found.adjustment == pytest.approx(1, rel=1e-5)
    np.testing.assert_allclose(found.interval, (brentq(excess, -8, -2.6), brentq(excess, -2.4, 0)), rtol=2e-3)


@pytest.mark.slow
def test_the_weakest_direction_is_profiled_by_itself():
    fit, _, _ = made()
    found = fit.profile(points=5)
    values, vectors = np.linalg.eigh(np.linalg.inv(fit.covariance_of("laplace")))
    assert values[0] > 0
    np.testing.assert_allclose(found.direction, vectors[:, 0] / vectors[np.abs(vectors[:, 0]).argmax(), 0], atol=1e-4)
    assert "`u[" in found.name


@pytest.mark.parametrize(("along", "code"), [("J[0, 2]", "E506"), (3, "E547"), ({"h": [1, 0]}, "E544")])
def test_a_direction_without_a_profile_is_refused(along: Any, code: str):
    with pytest.raises(gm.GmlmError) as caught:
        made()[0].profile(along)
    assert caught.value.codes == (code,)


# The Wald test


def test_a_wald_test_is_the_quadratic_form_of_the_difference():
    a, b = made(0)[0], made(1)[0]
    found = gm.wald_test(a, b)
    d = flat(a.params) - flat(b.params)
    curve = jax.jit(jax.hessian(lambda v: log_prior(a.graph, unflatten(a.graph, v))))
    prior = -np.asarray(curve(jnp.asarray((flat(a.params) + flat(b.params)) / 2)))
    apart = a.covariance_of("laplace") - b.covariance_of("laplace")
    v = a.covariance + b.covariance + apart @ prior @ apart
    assert found.statistic == pytest.approx(d @ np.linalg.pinv(v, rcond=1e-8) @ d, rel=1e-6)
    assert found.degrees_of_freedom == 7  # data say nothing of what h[0] and u share: no fit varies there
    n = found.rows
    assert n == pytest.approx(min(made(k)[2].sum() for k in (0, 1)))
    assert found.p_value == pytest.approx(f_law.sf(found.statistic * (n - 7) / (7 * (n - 1)), 7, n - 7))
    assert found.p_value > 0.001  # one law made both
    z = d / np.sqrt(np.diag(v))
    np.testing.assert_allclose(found.table["z"].to_numpy(), z[np.argsort(-np.abs(z), kind="stable")], rtol=1e-6)
    some = gm.wald_test(a, b, ["J"], names=("left", "right"))
    assert some.degrees_of_freedom == 2
    assert set(some.table.index) == {"J[0, 1]", "J[1, 2]"}
    assert list(some.table.columns[:2]) == ["left", "right"]
    np.testing.assert_allclose(some.statistic, d[3:5] @ np.linalg.solve(v[3:5, 3:5], d[3:5]), rtol=1e-6)


def test_a_wald_test_sees_a_difference():
    a, codes, counts = made(0)
    turned = trio.model.fit(trio.values(codes), "single", weights=np.where(codes[:, 0] == 1, 4 * counts, counts), weights_are="counts")
    found = gm.wald_test(a, turned)
    assert found.p_value < 1e-6
    assert found.table.index[0] == "h[0]"
    assert found.table["p_holm"].iloc[0] < 1e-4


def test_holms_values_are_known():
    np.testing.assert_allclose(holm(np.array([0.04, 0.01, 0.03])), [0.06, 0.03, 0.06])
    np.testing.assert_allclose(holm(np.array([0.9, 0.8])), [1, 1])


@pytest.mark.produces("E545")
def test_entries_without_an_estimate_are_left_out_and_unlike_fits_refused():
    whole, never = (fit_pair(c, model=plain_pair) for c in ([5, 4, 3, 6], [5, 4, 3, 0]))
    found = gm.wald_test(whole, never)
    assert found.left_out == ("J",)
    assert found.degrees_of_freedom == 1
    assert "left out" in str(found)
    with pytest.raises(gm.GmlmError, match="nothing to compare"):
        gm.wald_test(whole, never, "J")
    masked, held = (replace(whole, meta=whole.meta | changed) for changed in ({"mask": "seen"}, {"fixed": ["J"]}))
    for other, told in ((made()[0], "models"), (masked, "masks"), (held, "fixed parameters"), (fit_pair([5, 4, 3, 6]), "programs")):
        with pytest.raises(gm.GmlmError, match=f"different {told}") as caught:
            gm.wald_test(whole, other)
        assert caught.value.codes == ("E545",)
