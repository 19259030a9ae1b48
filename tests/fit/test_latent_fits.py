"""Fits with latents: they minimise the objective that sums them out, and say so; Monte Carlo EM finds the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest
from oracle import Oracle, numerical_gradient
from test_latent import BY_ROW, MIXTURE

import gmlmdsl as gm

HERE = Path(__file__).resolve().parents[2]


def mixture_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two clear components, as values and as codes that lack the latent."""
    rng = np.random.default_rng(2)
    z = rng.random(n) < 0.6
    y = (rng.random((n, 4)) < np.where(z[:, None], [0.9, 0.8, 0.85, 0.2], [0.1, 0.25, 0.15, 0.7])).astype(int)
    return y, np.concatenate([np.full((n, 1), -1), y], axis=1)


@pytest.fixture(scope="module")
def summed() -> tuple[gm.Fit, np.ndarray, dict[str, np.ndarray]]:
    """A fit that sums the latent out, its rows as codes, and its estimates."""
    y, codes = mixture_rows(150)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        fit = gm.parse(MIXTURE).model().fit(y, "all", seed=1)
    return fit, codes, {k: np.asarray(v, float) for k, v in fit.params.items()}


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(gm.parse(MIXTURE).checked, "m", {})


def test_a_fit_minimises_the_objective(summed: tuple[gm.Fit, np.ndarray, dict[str, np.ndarray]], oracle: Oracle, tmp_path: Path) -> None:
    fit, codes, params = summed
    assert fit.status.converged
    assert not fit.meta["convex"]
    np.testing.assert_allclose(fit.objective, oracle.fit_objective(params, codes, "all"), rtol=1e-6)
    gradient = numerical_gradient(lambda p: oracle.fit_objective(p, codes, "all"), params, exact=True)
    assert max(np.abs(g).max() for g in gradient.values()) < 1e-3
    # A latent is not missing data, and nothing is said of missing completely at random.
    assert fit.missing.rows == 0
    assert fit.missing.cells.sum() == 0
    assert fit.missing.words == "latent `z`: summed out in 150 rows"
    hint = "hidden variables: there may be lower minima than this one"
    assert hint in str(fit)
    assert (HERE / "docs/how-to/fit-hidden-variables.md").is_file()
    assert hint not in str(dataclasses.replace(fit, missing=None))
    fit.save(tmp_path / "a.fit")
    again = gm.load_fit(tmp_path / "a.fit")
    assert again.missing.words == fit.missing.words
    np.testing.assert_array_equal(again.covariance, fit.covariance)


@pytest.mark.slow  # the gate has the sandwich of rows with gaps, whose sums are these: test_missing.py
def test_a_fit_reports_its_sandwich(summed: tuple[gm.Fit, np.ndarray, dict[str, np.ndarray]], oracle: Oracle) -> None:
    fit, codes, params = summed
    order = list(params)

    def flat(arrays: dict[str, np.ndarray]) -> np.ndarray:
        return np.concatenate([np.ravel(arrays[k]) for k in order])

    distinct, which = np.unique(codes, axis=0, return_inverse=True)
    scores = np.array([flat(numerical_gradient(lambda p, r=r: oracle.loss(p, r[None], "all"), params, exact=True)) for r in distinct])
    scores = scores[which.reshape(-1)]
    hessian = np.zeros((scores.shape[1],) * 2)
    for k in range(scores.shape[1]):
        ends = []
        for sign in (1, -1):
            moved = flat(params)
            moved[k] += sign * 1e-4
            at = {"b": moved[:8].reshape(2, 4), "c": moved[8]}
            ends.append(flat(numerical_gradient(lambda p: oracle.fit_objective(p, codes, "all"), at, exact=True)))
        hessian[k] = (ends[0] - ends[1]) / 2e-4
    centred = scores - scores.mean(axis=0)
    sandwich = np.linalg.inv(hessian) @ centred.T @ centred @ np.linalg.inv(hessian)
    np.testing.assert_allclose(fit.covariance, sandwich, rtol=2e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_monte_carlo_em_finds_the_optimum_that_summing_finds() -> None:
    y, _ = mixture_rows(150)
    model = gm.parse(MIXTURE).model()
    exact = model.fit(y, "all", seed=1)
    drawn = model.fit(y, "all", seed=1, method=gm.MonteCarloEM(copies=40), init=exact.params | {"c": np.array(0.0)})
    assert drawn.status.converged, drawn.status
    assert "drawn in 150 rows by Monte Carlo EM" in drawn.missing.words
    scale = exact.flat(exact.standard_errors)
    assert (np.abs(drawn.flat(drawn.params) - exact.flat(exact.params)) < 4 * drawn.missing.noise * scale + 0.05 * scale).all()
    np.testing.assert_allclose(drawn.flat(drawn.standard_errors), scale, rtol=0.15)
    with pytest.raises(gm.GmlmError) as caught:
        drawn.profile("c")
    assert caught.value.codes == ("E547",)
    score = drawn.score(y)
    np.testing.assert_allclose(score.mean, exact.score(y).mean, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
def test_checks_of_a_fit_with_latents(summed: tuple[gm.Fit, np.ndarray, dict[str, np.ndarray]], oracle: Oracle) -> None:
    (fit, codes, params), (y, _) = summed, mixture_rows(150)
    np.testing.assert_allclose(fit.score(y).losses, oracle.row_losses(params, codes, "all"), rtol=1e-5)
    check = fit.predictive(draws=40, functions={"total": lambda y: y.sum()}, summaries={"mean": lambda y: y.mean()})
    assert check.incomplete == 0
    assert not any("z" in label for s in check.statistics.values() for label in s.labels)
    assert fit.information_criterion().effective_parameters < 10
    posterior = fit.to_arviz(draws=50, chains=2)
    assert list(posterior.observed_data) == ["y"]
    assert fit.bootstrap(3).failed == 0


@pytest.mark.produces("E704")
def test_impute_is_not_about_latents() -> None:
    y, _ = mixture_rows(20)
    with pytest.raises(gm.GmlmError, match="MonteCarloEM") as caught:
        gm.parse(MIXTURE).model().fit(y, "all", impute=True)
    assert caught.value.codes == ("E704",)


@pytest.mark.parametrize("mask", ["by", "sees"])
def test_monte_carlo_em_refuses_a_mask_that_varies_with_rows(mask: str) -> None:
    x, y = np.array([[0, 1], [1, 1], [1, 0]]), np.array([0.5, -1.0, 2.0])
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse(BY_ROW).model().fit(x, mask, given={"y": y}, method="mcem")
    assert caught.value.codes == ("E704",)
