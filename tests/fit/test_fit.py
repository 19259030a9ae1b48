"""Fits against a plain minimiser of the oracle's objective, with the oracle's sandwich beside the standard errors."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest
from cases import BY_NAME
from fit_cases import TRUTH, counted, flat, rows, trio, unflat
from oracle import numerical_gradient
from scipy.optimize import minimize
from thinned import thinned

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")
N = 400
MASKS = ["single", "pairs", "whole", "seeing", "coin"]


@pytest.fixture(scope="module")
def data() -> tuple[Any, np.ndarray, np.ndarray]:
    """The distinct rows of a sample as values, as codes, and how often each stands there."""
    return counted(rows(N, seed=0))


@pytest.mark.parametrize("mask", thinned(MASKS, 6))
def test_the_estimate_is_where_the_oracles_gradient_vanishes(mask: str, data: tuple[Any, np.ndarray, np.ndarray]):
    """c * sum of w loss - log prior: its value agrees to 1e-9, its gradient is below 1e-5 of 400 rows."""
    x, codes, counts = data
    fit = trio.model.fit(x, mask, weights=counts)
    assert fit.status.code == "converged", fit
    np.testing.assert_allclose(fit.objective, trio.oracle.fit_objective(fit.params, codes, mask, counts), rtol=1e-9)
    gradient = numerical_gradient(lambda p: trio.oracle.fit_objective(p, codes, mask, counts), fit.params)
    assert np.abs(flat(gradient)).max() < 1e-5 * N
    np.testing.assert_allclose(fit.loss_trace[-1] * N, fit.objective, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("mask", thinned(["single", "pairs", "seeing"], 3, 1))
def test_the_estimate_is_a_plain_minimisers(mask: str, data: tuple[Any, np.ndarray, np.ndarray]):
    """SciPy's BFGS on the oracle's objective, started at the truth: estimates agree to 1e-5."""
    x, codes, counts = data

    def objective(v: np.ndarray) -> float:
        return trio.oracle.fit_objective(unflat(v, TRUTH), codes, mask, counts)

    def gradient(v: np.ndarray) -> np.ndarray:
        return flat(numerical_gradient(lambda p: trio.oracle.fit_objective(p, codes, mask, counts), unflat(v, TRUTH)))

    plain = minimize(objective, flat(TRUTH), jac=gradient, method="BFGS", options={"gtol": 1e-5})
    fit = trio.model.fit(x, mask, weights=counts)
    np.testing.assert_allclose(flat(fit.params), plain.x, atol=1e-5)


def sandwich(params: dict[str, np.ndarray], codes: np.ndarray, weights: np.ndarray, mask: str) -> np.ndarray:
    """H^-1 S H^-1 by central differences of the oracle, S from the weighted scores of the rows, their mean taken off."""
    here, step = flat(params), 1e-3  # rounding of the second differences: eps * 1000 / (1e-4 * 1e-3), far below 1e-4 of an entry
    c = trio.oracle.fit_objective(params, codes, mask, weights) + trio.oracle.log_prior(params)
    c = c / (weights @ trio.oracle.row_losses(params, codes, mask))

    def gradient(v: np.ndarray) -> np.ndarray:
        return flat(numerical_gradient(lambda p: trio.oracle.fit_objective(p, codes, mask, weights), unflat(v, params), 1e-4))

    unit = np.eye(len(here))
    hessian = np.array([(gradient(here + step * e) - gradient(here - step * e)) / (2 * step) for e in unit])
    ends = [[trio.oracle.row_losses(unflat(here + s * step * e, params), codes, mask) for e in unit] for s in (1, -1)]
    u = c * weights * (np.array(ends[0]) - np.array(ends[1])) / (2 * step)  # parameters, rows
    score = u @ u.T - np.outer(u.sum(axis=1), u.sum(axis=1)) / len(weights)
    return np.linalg.solve(hessian, np.linalg.solve(hessian, score).T)


@pytest.mark.slow
@pytest.mark.parametrize("mask", thinned(["single", "pairs", "seeing"], 3, 2))
def test_standard_errors_are_the_sandwich(mask: str, data: tuple[Any, np.ndarray, np.ndarray]):
    """Of what was optimised, weights and priors and all: against numerical derivatives of the oracle, to 1e-4."""
    x, codes, counts = data
    fit = trio.model.fit(x, mask, weights=counts)
    expected = sandwich(fit.params, codes, counts, mask)
    np.testing.assert_allclose(fit.covariance, expected, rtol=0, atol=1e-4 * np.diag(expected).max())
    np.testing.assert_allclose(flat(fit.standard_errors), np.sqrt(np.diag(expected)), rtol=1e-4)
    low, high = fit.interval(0.94)["h"]
    np.testing.assert_allclose(high - low, 2 * 1.8807936 * fit.standard_errors["h"], rtol=1e-7)


@pytest.mark.slow
def test_weights_repeat_rows(data: tuple[Any, np.ndarray, np.ndarray]):
    x, codes, counts = data
    weighted = trio.model.fit(x, "single", weights=counts)
    repeated = trio.model.fit(trio.values(np.repeat(codes, counts.astype(int), axis=0)), "single")
    np.testing.assert_allclose(flat(weighted.params), flat(repeated.params), atol=1e-6)
    np.testing.assert_allclose(weighted.objective, repeated.objective, rtol=1e-10)


def test_a_row_of_weight_zero_may_be_anything(data: tuple[Any, np.ndarray, np.ndarray]):
    """Even impossible: it takes no part in the fit."""
    _, codes, counts = data
    impossible = trio.oracle.states[trio.oracle.probabilities(TRUTH) == 0][:1]
    x = trio.values(np.concatenate([codes[:-1], impossible]))
    fit = trio.model.fit(x, "single", weights=np.append(counts[:-1], 0))
    expected = trio.oracle.fit_objective(fit.params, codes[:-1], "single", counts[:-1])
    np.testing.assert_allclose(fit.objective, expected, rtol=1e-9)


@pytest.mark.slow  # that the gradient vanishes where the fit ends is shown above, with few rows
def test_more_data_come_nearer_to_the_truth():
    """20 000 rows: every estimate within five of its standard errors, and these below 0.05 where the prior is weak."""
    x, _, counts = counted(rows(20_000, seed=4))
    fit = trio.model.fit(x, "pairs", weights=counts)
    for name in ("h", "J"):
        assert np.abs(fit.params[name] - TRUTH[name]).max() < 0.1
    differences = (fit.params["u"] - fit.params["u"].mean()) - (TRUTH["u"] - TRUTH["u"].mean())
    assert np.abs(differences).max() < 0.15


@pytest.mark.slow
def test_fixed_parameters_stay_and_have_no_error(data: tuple[Any, np.ndarray, np.ndarray]):
    x, codes, counts = data
    held = np.array([0.5, -0.25, 0.0])
    fit = trio.model.fit(x, "pairs", weights=counts, fixed={"u": held})
    np.testing.assert_array_equal(fit.params["u"], held)
    np.testing.assert_array_equal(fit.standard_errors["u"], 0)
    gradient = numerical_gradient(lambda p: trio.oracle.fit_objective(p, codes, "pairs", counts), fit.params)
    assert np.abs(np.append(gradient["h"], gradient["J"])).max() < 1e-5 * N
    assert fit.summary().loc["u[sun]", "note"] == "fixed"
    assert fit.standard_errors["h"].min() > 0


def test_a_start_changes_nothing_but_the_path(data: tuple[Any, np.ndarray, np.ndarray]):
    x, _, counts = data
    usual = trio.model.fit(x, "single", weights=counts)
    other = trio.model.fit(x, "single", weights=counts, init={"h": [1.0, -1.0, 0.5]})
    np.testing.assert_allclose(flat(other.params), flat(usual.params), atol=1e-6)
    assert other.loss_trace[0] != usual.loss_trace[0]


# Drawn masks


@pytest.mark.slow
def test_drawn_masks_are_kept_and_come_from_the_seed(data: tuple[Any, np.ndarray, np.ndarray]):
    """Two masks per row, drawn once: the same from the same seed, near the fit over all masks, and the result says so."""
    sample = trio.values(rows(N, seed=0))
    one, again, other = (trio.model.fit(sample, "pairs", n_masks=2, seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(flat(one.params), flat(again.params))
    assert np.abs(flat(one.params) - flat(other.params)).max() > 1e-4
    x, _, counts = data
    every = trio.model.fit(x, "pairs", weights=counts)
    assert np.abs(flat(one.params) - flat(every.params)).max() < 0.3
    assert one.meta["n_masks"] == 2
    assert every.meta["n_masks"] is None
    assert "2 masks per row, drawn" in repr(one)
    assert "all 6 masks" in repr(every)


@pytest.mark.slow  # a second program; the usual way is the one that is forced
def test_all_masks_can_be_forced(data: tuple[Any, np.ndarray, np.ndarray]):
    x, _, counts = data
    usual, forced = (trio.model.fit(x, "pairs", weights=counts, n_masks=n) for n in (None, "all"))
    np.testing.assert_array_equal(flat(usual.params), flat(forced.params))


# Other minimisers


@pytest.mark.slow  # the gate has minibatches in test_given_fits.py
def test_an_optax_transformation_comes_near_the_full_fit():
    """Adam on minibatches of 100 rows, 600 steps with a falling rate: the objective within 1 of its minimum near 1000."""
    sample = trio.values(rows(N, seed=0))
    full = trio.model.fit(sample, "single")
    rate = optax.cosine_decay_schedule(0.05, 600)
    fit = trio.model.fit(sample, "single", optimizer=optax.adam(rate), batch_size=100, max_steps=600)
    assert len(fit.loss_trace) == 600
    assert 0 <= fit.objective - full.objective < 1
    np.testing.assert_allclose(flat(fit.params), flat(full.params), atol=0.15)
    again = trio.model.fit(sample, "single", optimizer=optax.adam(rate), batch_size=100, max_steps=600)
    np.testing.assert_array_equal(flat(again.params), flat(fit.params))


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_has_rows(size: int):
    with pytest.raises(gm.GmlmError, match="batch_size must be"):
        trio.model.fit(trio.values(rows(N, seed=0)), "single", optimizer=optax.adam(0.01), batch_size=size)


# What a fit keeps


def test_a_fit_saved_and_loaded_is_the_same(tmp_path: Path, data: tuple[Any, np.ndarray, np.ndarray]):
    x, _, counts = data
    fit = trio.model.fit(x, "single", weights=counts)
    fit.save(tmp_path / "a.fit")
    loaded = gm.load_fit(tmp_path / "a.fit")
    for name, value in fit.params.items():
        np.testing.assert_array_equal(loaded.params[name], value)
        np.testing.assert_array_equal(loaded.standard_errors[name], fit.standard_errors[name])
    np.testing.assert_array_equal(loaded.covariance, fit.covariance)
    np.testing.assert_array_equal(loaded.loss_trace, fit.loss_trace)
    assert loaded.summary().equals(fit.summary())
    assert repr(loaded) == repr(fit)
    assert loaded.meta["seed"] == 0
    np.testing.assert_array_equal(loaded.model.log_prob(loaded.params, x), trio.model.log_prob(fit.params, x))


def test_a_fit_that_cannot_be_written_leaves_nothing(tmp_path: Path, data: tuple[Any, np.ndarray, np.ndarray]):
    x, _, counts = data
    fit = trio.model.fit(x, "single", weights=counts)
    with pytest.raises(gm.GmlmError, match="cannot write"):
        fit.save(tmp_path / "no" / "a.fit")
    with pytest.raises(gm.GmlmError, match="it is a folder"):
        fit.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_fit_is_refused(tmp_path: Path, data: tuple[Any, np.ndarray, np.ndarray]):
    x, _, counts = data
    path = tmp_path / "a.fit"
    trio.model.fit(x, "single", weights=counts).save(path)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:100] + bytes([whole[100] ^ 255]) + whole[101:], b""):
        path.write_bytes(damaged)
        with pytest.raises(gm.GmlmError) as caught:
            gm.load_fit(path)
        assert caught.value.diagnostics[0].code == "E520"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gmlmdsl.sample._draw.SamplingWarning")
def test_a_fit_samples_its_model(data: tuple[Any, np.ndarray, np.ndarray]):
    x, _, counts = data
    fit = trio.model.fit(x, "single", weights=counts)
    idata = fit.sample(draws=5, warmup=1, chains=2, seed=3)
    same = trio.model.sample(fit.params, "gibbs", draws=5, warmup=1, chains=2, seed=3)
    np.testing.assert_array_equal(idata.posterior["x"], same.posterior["x"])


def test_the_summary_names_every_entry(data: tuple[Any, np.ndarray, np.ndarray]):
    x, _, counts = data
    fit = trio.model.fit(x, "single", weights=counts)
    frame = fit.summary()
    assert list(frame.index) == ["h[0]", "h[1]", "h[2]", "J[0, 1]", "J[1, 2]", "u[sun]", "u[rain]", "u[snow]"]
    assert list(frame.columns) == ["estimate", "std_error", "3%", "97%"]
    np.testing.assert_allclose(frame["estimate"], flat(fit.params))
    assert "<table" in fit._repr_html_()


def test_parameters_come_in_the_types_of_the_library(data: tuple[Any, np.ndarray, np.ndarray]):
    import jax

    x, _, counts = data
    with jax.enable_x64(False):
        fit = trio.model.fit(x, "single", weights=counts)
    assert all(v.dtype == np.float32 for v in fit.params.values())
    assert fit.covariance.dtype == np.float64


# Other types of parameters


def test_simplex_parameters_are_smoothed_frequencies():
    """Under the whole mask a directed model has a closed form: (count + a - 1) / total, with a dirichlet(a) prior."""
    text = """
    domain mood = labels("calm", "angry", "sad")
    model pair {
      var a : bit
      var z : mood
      param first[k in range(2)] : simplex ~ dirichlet(1)
      param emit[k in range(2), m in mood] : simplex ~ dirichlet(2)
      a ~ categorical(first)
      z ~ categorical(emit[a])
    }
    mask whole = everything()
    """
    model = gm.parse(text).model()
    a, z = np.array([0, 0, 0, 1, 1, 1, 1]), np.array([0, 0, 1, 2, 2, 1, 0])
    fit = model.fit({"a": a, "z": z})
    counts = np.zeros((2, 3))
    np.add.at(counts, (a, z), 1)
    expected = (counts + 1) / (counts + 1).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fit.params["first"], [3 / 7, 4 / 7], atol=1e-6)
    np.testing.assert_allclose(fit.params["emit"], expected, atol=1e-6)
    np.testing.assert_allclose(fit.params["emit"].sum(axis=1), 1, atol=1e-12)
    error = np.sqrt((3 / 7) * (4 / 7) / 7)
    np.testing.assert_allclose(fit.standard_errors["first"], [error, error], rtol=1e-6)


def test_positive_and_bounded_parameters_and_every_prior():
    """Gradients of the oracle's objective vanish in the interior: beta, gamma, normal whose mean moves with the index."""
    case = BY_NAME["tied"]
    fit = case.model.fit(case.values(np.repeat(case.rows, 5, axis=0)), "single", fixed={"p": 0.4, "low": 0.5})
    assert fit.params["w"] > 0
    gradient = numerical_gradient(lambda q: case.oracle.fit_objective(q, np.repeat(case.rows, 5, axis=0), "single"), fit.params)
    assert np.abs(np.concatenate([np.ravel(gradient[k]) for k in ("J", "w", "h")])).max() < 1e-4
    assert fit.params["p"] == pytest.approx(0.4)


def test_a_prior_without_a_maximum_is_refused():
    text = "model m {{ var a : bit  param b : positive ~ gamma({}, 1)  factor b * a }}\nmask one = everything()"
    with pytest.raises(gm.GmlmError, match="unbounded density"):
        gm.parse(text.format(0.5)).model().fit([0, 1, 1])
    assert gm.parse(text.format(2)).model().fit([0, 1, 1]).status.converged


def test_a_mask_that_mentions_a_parameter_may_not_fit():
    text = "model m { var a : bit  var b : bit  param u  factor u * a * b }\nmask lean { choose {a} weight exp(u)  choose {b} weight 1 }"
    with pytest.raises(gm.GmlmError, match="it may sample, not fit") as caught:
        gm.parse(text).model().fit({"a": [0, 1], "b": [1, 1]})
    assert caught.value.diagnostics[0].code == "E702"


def test_arrays_of_a_saved_fit_hold_no_objects(tmp_path: Path, data: tuple[Any, np.ndarray, np.ndarray]):
    """Loading runs no code: every array is numbers, and the file opens without pickle."""
    x, _, counts = data
    trio.model.fit(x, "single", weights=counts).save(tmp_path / "a.fit")
    with np.load(io.BytesIO((tmp_path / "a.fit").read_bytes()), allow_pickle=False) as found:
        assert all(found[k].dtype.kind in "biufU" for k in found.files if k != "manifest.json")
