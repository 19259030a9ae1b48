"""Fits of models with given variables: against logistic regressions, in batches, and through every check."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest
from events import programs, traced_or_compiled
from scipy.optimize import minimize
from typer.testing import CliRunner

import gmlmdsl as gm
from gmlmdsl.cli._commands import app

CRF = """
input n : int = 3
index site = range(n)
index feature = range(2)
model crf {
  given f[i in site, j in feature] : real
  given side : spin
  var x[i in site] : spin
  param h[i in site] ~ normal(0, 3)
  param beta[j in feature] ~ normal(0, 3)
  param J ~ normal(0, 3)
  param c ~ normal(0, 3)
  let pulled = f[0, 0] * x[0]
  let first = x[0] + 0
  factor h[i] * x[i] + c * side * x[i] for i in site
  factor beta[j] * f[i, j] * x[i] for i in site for j in feature
  factor J * x[i] * x[i + 1] for i in site if i < n - 1
}
mask one = subsets(x, size = 1)
mask whole = everything()
mask leaning given f { choose {x[i]} for i in site weight exp(0.5 * f[i, 0]) }
sampler gibbs { update x[i] for i in site }
"""


@pytest.fixture(scope="module")
def crf() -> tuple[Any, np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A model, 400 rows drawn exactly from it, their given data and the parameters."""
    rng = np.random.default_rng(5)
    truth = {"h": np.array([0.3, -0.2, 0.1]), "beta": np.array([0.8, -0.5]), "J": np.array(0.4), "c": np.array(0.3)}
    f, side = rng.normal(size=(400, 3, 2)), rng.choice([-1, 1], 400)
    states = 2 * ((np.arange(8)[:, None] >> np.arange(3)) & 1) - 1
    field = truth["h"] + f @ truth["beta"] + truth["c"] * side[:, None]
    score = field @ states.T + truth["J"] * (states[:, :-1] * states[:, 1:]).sum(axis=1)
    p = np.exp(score - score.max(axis=1, keepdims=True))
    x = np.stack([states[rng.choice(8, p=row / row.sum())] for row in p])
    return gm.parse(CRF).model(), x, {"f": f, "side": side}, truth


def logistic_objective(v: np.ndarray, x: np.ndarray, f: np.ndarray, side: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The penalised pseudolikelihood as so many logistic regressions, written by hand; `weights` of the cells of each row."""
    h, beta, J, c = v[:3], v[3:5], v[5], v[6]
    near = np.zeros(x.shape)
    near[:, :-1] += x[:, 1:]
    near[:, 1:] += x[:, :-1]
    field = h + f @ beta + c * side[:, None] + J * near
    losses = np.logaddexp(0, -2 * x * field)
    prior = (v**2).sum() / 18 + len(v) * np.log(3 * np.sqrt(2 * np.pi))
    return float((losses if weights is None else weights * losses).sum() + prior)


@pytest.mark.usefixtures("standard_promotion")
class TestFits:
    @pytest.mark.slow  # how often is compiled; test_first_calls.py counts it for other verbs
    def test_more_rows_of_data_compile_nothing(self, crf: Any):
        """Data that come with the rows have room for as many as the rows themselves; without, more rows compiled three programs."""
        model, x, given, _ = crf
        for rows, count in ((97, None), (103, 0)):
            with traced_or_compiled() as events:
                fit = model.fit(x[:rows], "one", given={k: v[:rows] for k, v in given.items()}, progress=False)
                fit.standard_errors  # noqa: B018 - computes them
            assert count is None or programs(events) == count

    @pytest.mark.slow
    @pytest.mark.parametrize("mask", [pytest.param("one", marks=pytest.mark.slow), "leaning"])
    def test_estimates_are_those_of_logistic_regressions(self, crf: Any, mask: str):
        model, x, given, truth = crf
        weights = None
        if mask == "leaning":  # a mask of one cell, drawn by what is given: c = 3 cells over E|K| = 1
            weights = np.exp(0.5 * given["f"][:, :, 0])
            weights = 3 * weights / weights.sum(axis=1, keepdims=True)
        expected = minimize(logistic_objective, np.zeros(7), (x, given["f"], given["side"], weights), method="BFGS", options={"gtol": 1e-8})
        fit = model.fit(x, mask, given=given)
        assert fit.status.converged
        np.testing.assert_allclose(fit.flat(fit.params), expected.x, atol=2e-5)
        np.testing.assert_allclose(fit.objective, expected.fun, rtol=1e-7)
        assert (np.abs(fit.flat(fit.params) - fit.flat(truth)) < 4 * fit.flat(fit.standard_errors)).all()

    @pytest.mark.slow
    def test_minibatches_do_not_mix_rows_up(self, crf: Any):
        model, x, given, _ = crf
        full = model.fit(x, "one", given=given)
        schedule = optax.exponential_decay(0.05, 300, 0.2)
        batches = model.fit(x, "one", given=given, optimizer=optax.adam(schedule), batch_size=50, max_steps=1200, seed=2)
        np.testing.assert_allclose(batches.flat(batches.params), full.flat(full.params), atol=0.05)
        swapped = model.fit(x, "one", given={**given, "f": given["f"][::-1]})
        assert np.abs(swapped.params["beta"] - full.params["beta"]).max() > 0.3

    @pytest.mark.slow
    def test_checks_carry_the_given_data(self, crf: Any):
        model, x, given, _ = crf
        fit = model.fit(x[:300], "whole", given={k: v[:300] for k, v in given.items()})
        rest = {k: v[300:] for k, v in given.items()}
        log_p = np.asarray(model.log_prob(fit.params, x[300:], given=rest))
        np.testing.assert_allclose(fit.score(x[300:], given=rest).losses, -log_p, rtol=1e-4)
        assert fit.score(x[300:], given=rest, mask="leaning").mean > 0
        assert fit.cross_validate(3).held_out.losses.shape == (300,)

    @pytest.mark.slow  # in the gate they carry no given data: test_scores.py, test_fit_errors.py, test_draws.py
    def test_every_check_carries_the_given_data(self, crf: Any):
        model, x, given, _ = crf
        fit = model.fit(x[:300], "whole", given={k: v[:300] for k, v in given.items()})
        assert fit.information_criterion().effective_parameters == pytest.approx(7, abs=2)
        assert fit.bootstrap(8, progress=False).standard_errors["beta"].shape == (2,)
        assert np.isfinite(fit.profile("J", 5, progress=False).interval).all()
        pointwise = fit.to_arviz(draws=20, chains=1).log_likelihood["x"]
        near = np.asarray(model.log_prob(fit.params, x[:300], given={k: v[:300] for k, v in given.items()}))
        assert np.abs(np.asarray(pointwise).mean(axis=(0, 1)) - near).max() < 0.5

    @pytest.mark.slow  # test_given.py draws with given data
    def test_draws_of_a_fit(self, crf: Any):
        model, x, given, _ = crf
        one = {k: v[0] for k, v in given.items()}
        fit = model.fit(x, "one", given=one)
        assert fit.sample("gibbs", draws=200, warmup=20, chains=4).posterior["x"].shape == (4, 200, 3)
        with pytest.raises(gm.GmlmError, match="given variables"):
            model.fit(x, "one", given=given).sample("gibbs")

    def test_replicated_rows_are_drawn_given_their_own_data(self, crf: Any):
        """Means of data sets are means over rows of enumerated conditionals, within six Monte Carlo errors of 400 data sets."""
        model, x, given, _ = crf
        some = {k: v[:60] for k, v in given.items()}
        fit = model.fit(x[:60], "one", given=some)
        p = fit.params
        states = 2 * ((np.arange(8)[:, None] >> np.arange(2, -1, -1)) & 1) - 1
        field = p["h"] + some["f"] @ p["beta"] + p["c"] * some["side"][:, None]
        score = field @ states.T + p["J"] * (states[:, :-1] * states[:, 1:]).sum(axis=1)
        law = np.exp(score - score.max(axis=1, keepdims=True))
        law /= law.sum(axis=1, keepdims=True)
        together = lambda x: float((x[:, 0] * some["side"]).mean())  # noqa: E731
        found = fit.predictive(summaries={"together": together}, functions={"total": lambda x: x.sum()}, draws=400, seed=2)
        assert found.source == "independent rows from all 8 configurations, given the data of each row"
        means = law @ (states == 1)
        np.testing.assert_allclose(found["marginals"].mean, means.mean(axis=0), atol=6 * 0.5 / np.sqrt(60 * 400))
        np.testing.assert_allclose(found["marginals"].observed, (x[:60] == 1).mean(axis=0))
        assert found["marginals"].labels == ("x[0] = 1", "x[1] = 1", "x[2] = 1")
        own = (law @ states[:, 0] * some["side"]).mean()
        np.testing.assert_allclose(found["together"].mean, own, atol=6 / np.sqrt(60 * 400))
        assert abs(own - (law @ states[:, 0]).mean() * some["side"].mean()) > 12 / np.sqrt(60 * 400)  # rows in another order fail
        totals = (law @ states.sum(axis=1)).mean()
        np.testing.assert_allclose(found["total"].mean[0], totals, atol=6 * np.sqrt(3) * 2 / np.sqrt(60 * 400))
        spread = np.sqrt((means * (1 - means)).sum(axis=0)) / 60
        np.testing.assert_allclose(found["marginals"].spread, spread, rtol=0.25)
        with pytest.raises(gm.GmlmError, match="`pulled` mentions a given variable"):
            fit.predictive(functions={"pulled": "pulled"})
        assert fit.predictive(functions={"first": "first"}, draws=40)["first"].labels == ("mean of first",)
        one = fit.predictive(x=x[:5], given={k: v[0] for k, v in some.items()}, draws=40)
        assert one.rows == 5

    @pytest.mark.slow  # a fit for a refusal
    def test_what_cannot_be_checked_says_so(self, crf: Any, tmp_path: Any):
        model, x, given, _ = crf
        fit = model.fit(x, "one", given=given)
        with pytest.raises(gm.GmlmError, match="each row has its own"):
            fit.predictive("gibbs")
        fit.save(tmp_path / "crf.fit")
        loaded = gm.load_fit(tmp_path / "crf.fit")
        np.testing.assert_allclose(loaded.score(x, given=given).mean, fit.score(x, given=given).mean, rtol=1e-6)

    @pytest.mark.slow  # the gate imputes in test_latent.py and test_fit_status.py
    def test_imputed_cells_follow_their_rows(self, crf: Any):
        """Cells imputed by Monte Carlo EM and cells summed out estimate the same, near it with so few copies."""
        model, x, given, _ = crf
        holes = np.where(np.random.default_rng(4).random(x.shape) < 0.15, -9, x)
        summed = model.fit(holes, "whole", missing=-9, given=given)
        imputed = model.fit(holes, "whole", missing=-9, impute=True, given=given)
        assert imputed.missing.imputed == (holes == -9).any(axis=1).sum() > 100
        errors = summed.flat(summed.standard_errors)
        assert (np.abs(imputed.flat(imputed.params) - summed.flat(summed.params)) < 0.5 * errors).all()

    def test_commands_read_given_arrays_beside_x(self, crf: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
        model, x, given, _ = crf
        monkeypatch.chdir(tmp_path)
        (tmp_path / "crf.gmlm").write_text(CRF)
        (tmp_path / "x.csv").write_text("1,1,-1\n-1,1,1\n")
        np.savez(tmp_path / "crf.npz", x=x, **given)
        np.savez(tmp_path / "bare.npz", x=x, side=given["side"])

        def run(*words: str) -> tuple[int, str]:
            found = CliRunner().invoke(app, words)
            return found.exit_code, found.output

        status, text = run("fit", "crf.gmlm", "crf.npz", "--mask", "one", "--out", "crf.fit")
        assert status == 0, text
        expected = model.fit(x, "one", given=given).params["beta"]
        np.testing.assert_allclose(gm.load_fit("crf.fit").params["beta"], expected, rtol=1e-5)
        for words in (
            ("fit", "crf.gmlm", "bare.npz", "--mask", "one"),
            ("fit", "crf.gmlm", "x.csv", "--mask", "one"),
            ("sample", "crf.fit"),
        ):
            status, text = run(*words)
            assert status == 1, text
            assert "E510" in text
        assert "lacks `f`" in run("fit", "crf.gmlm", "bare.npz", "--mask", "one")[1]
        assert run("explain", "crf.gmlm")[0] == run("info", "crf.gmlm")[0] == 0
