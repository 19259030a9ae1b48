"""Simulated errors against enumeration: S is the covariance of the gradient over all data sets that the model makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import Oracle

import gmlmdsl as gm
from gmlmdsl.assess import _simulated_errors
from gmlmdsl.assess._scored_rows import params64, rows_under
from gmlmdsl.fit._fit import reopen
from gmlmdsl.report import fit_report

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")
DRAWS = 2000
STEP = 1e-4  # of central differences

RING = """
graph G = chain(5, wrap = true)
model ring {
  var x[i in G.nodes] : spin
  param field
  param coupling ~ normal(0, 2)
  factor field * x[i] for i in G.nodes
  factor coupling * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(size = 1)
mask pairs = subsets(size = 2)
mask seeing given x { choose {x[i], x[j]} for (i, j) in G.edges weight exp(0.5 * x[i] * x[j])  choose {x[i]} for i in G.nodes weight 0.4 }
sampler sweep { update x[i] for i in G.nodes }
sampler some { update x[i] for i in G.nodes if i > 0 }
sampler biased { update x independently }
"""
LABELS = """
domain sky = labels("sun", "rain", "snow")
model m {
  var a : sky
  var b : sky
  var c : bit
  param first[k in sky] : simplex ~ dirichlet(2)
  param J[k in sky, l in sky] ~ normal(0, 1)
  param s : positive ~ gamma(2, 1)
  gauge zero_sum(J)
  a ~ categorical(first)
  factor J[a, b]
  factor s * c * (b == "rain")
}
mask whole = everything()
"""
GIVEN = """
model m {
  given z[k in range(2)] : real
  var y[i in range(3)] : bit
  param beta[k in range(2)] ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor beta[k] * z[k] * y[i] for i in range(3) for k in range(2)
  factor J * y[i] * y[j] for i in range(3) for j in range(3) if i < j
}
mask single = subsets(size = 1)
sampler sweep { update y[i] for i in range(3) }
"""
HIDDEN = """
model m {
  latent z : bit
  var x[i in range(3)] : bit
  param h[i in range(3)] ~ normal(0, 1)
  param J ~ normal(1, 1)
  factor h[i] * x[i] for i in range(3)
  factor J * z * x[i] for i in range(3)
}
mask single = subsets(x, size = 1)
"""
SPINS = np.array([[1, 1, -1, 1, 1], [-1, 1, -1, -1, 1], [1, -1, -1, 1, 1]])
GAPPED = np.where(np.array([[0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 1, 0, 0]]), 9, SPINS)


@dataclass(frozen=True)
class Case:
    """Rows to fit; `given` has one row for each."""

    text: str
    x: Any
    mask: str
    options: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] | None = None

    @property
    def rows(self) -> int:
        return len(next(iter(self.x.values())) if isinstance(self.x, dict) else self.x)

    def fit(self) -> gm.Fit:
        return gm.parse(self.text).model().fit(self.x, self.mask, given=self.given, **self.options)

    def oracle(self, row: int) -> Oracle:
        return Oracle(gm.parse(self.text).checked, None, {}, None if self.given is None else {k: v[row] for k, v in self.given.items()})


CASES = {
    "one row": Case(RING, SPINS[:1], "single"),
    "weights and missing cells": Case(RING, GAPPED, "pairs", {"missing": 9, "weights": [1.0, 2.0, 0.5]}),
    "counts": Case(RING, SPINS, "pairs", {"weights": [1, 3, 0], "weights_are": "counts"}),
    "a mask that looks at x": Case(RING, SPINS[:2], "seeing"),
    "labels, a gauge, a simplex": Case(LABELS, {"a": ["sun", "rain", "snow"], "b": ["rain", "rain", "sun"], "c": [1, 0, 1]}, "whole"),
    "given data": Case(GIVEN, np.array([[1, 0, 0], [0, 1, 1]]), "single", {}, {"z": np.array([[0.5, -1.0], [1.0, 0.3]])}),
    "a latent": Case(HIDDEN, np.array([[1, 0, 1], [1, 1, 0], [0, 0, 1]]), "single"),
}
SLOW = ("one row", "counts", "a latent", "labels, a gauge, a simplex", "a mask that looks at x", "weights and missing cells")  # to compile


@cache
def made(name: str) -> gm.Fit:
    return CASES[name].fit()


def expected(case: Case, fit: gm.Fit, draws: int = DRAWS) -> tuple[np.ndarray, np.ndarray]:
    """Variances of the entries by enumeration, and the standard deviation of an estimate from so many draws, at most."""
    codes, inverse = fit.evidence.codes[: case.oracle(0).n_cells].T, fit.determined_covariance("laplace")
    w = np.asarray(fit.evidence.options.weights if fit.evidence.options.weights is not None else np.ones(case.rows), float)
    counts = case.options.get("weights_are") == "counts"
    params = {k: np.asarray(v, float) for k, v in fit.params.items()}
    c = case.oracle(0).fit_constant(params, np.repeat(codes, w.astype(int), axis=0) if counts else codes, case.mask)
    variance, noise = np.zeros(len(inverse)), np.zeros(len(inverse))
    for r in np.flatnonzero(w).tolist():
        oracle = case.oracle(r)
        p = oracle.probabilities(params)
        states = np.where(codes[r] < 0, -1, oracle.states)
        moved = inverse @ gradients(oracle, fit, params, states, case.mask)
        apart = c * (moved - (moved @ p)[:, None])
        weight = w[r] if counts else w[r] ** 2
        variance += weight * (apart**2 @ p)
        noise += weight * np.sqrt(np.maximum(apart**4 @ p - (apart**2 @ p) ** 2, 0))
    return variance, noise / np.sqrt(draws)


def gradients(oracle: Oracle, fit: gm.Fit, params: dict[str, np.ndarray], states: np.ndarray, mask: str) -> np.ndarray:
    """Of the loss of each state by every entry, shape (entries, states)."""
    flat, out = fit.flat(params), []
    for e in STEP * np.eye(len(flat)):
        ends = []
        for v in (flat + e, flat - e):
            parts = np.split(v, np.cumsum([params[k].size for k in params])[:-1])
            ends.append(oracle.row_losses({k: part.reshape(params[k].shape) for k, part in zip(params, parts, strict=True)}, states, mask))
        out.append((ends[0] - ends[1]) / (2 * STEP))
    return np.array(out)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in CASES])
@pytest.mark.slow
def test_simulated_errors_are_those_of_all_data_sets_of_the_model(name: str):
    """Each variance within four of its Monte Carlo errors of the enumerated one."""
    fit = made(name)
    variance, noise = expected(CASES[name], fit)
    found = fit.simulated_errors(DRAWS, seed=15)
    errors = found.flat(found.standard_errors)
    assert (np.abs(errors**2 - variance) <= 4 * noise + 1e-9).all(), (errors**2, variance, noise)
    assert (variance > 0).any()
    np.testing.assert_array_equal(found.flat(found.params), fit.flat(fit.params))


@pytest.mark.slow
def test_chains_and_exact_draws_agree_and_the_effective_number_is_said():
    fit = made("one row")
    variance, noise = expected(CASES["one row"], fit)
    found = fit.simulated_errors(DRAWS, seed=3, sampler="sweep", warmup=50)
    assert found.simulated is not None
    effective = found.simulated["effective"]
    assert 0.3 * DRAWS < effective <= DRAWS
    assert (np.abs(found.flat(found.standard_errors) ** 2 - variance) <= 4 * noise * np.sqrt(DRAWS / effective)).all()
    assert "draws of 8 chains of `sweep`" in str(found)
    assert f"worth {effective:,.0f} independent ones" in str(found)
    given = made("given data")
    variance, noise = expected(CASES["given data"], given)
    found = given.simulated_errors(DRAWS, seed=3, sampler="sweep", warmup=50, thin=2)
    effective = found.simulated["effective"]  # type: ignore[index]
    assert (np.abs(found.flat(found.standard_errors) ** 2 - variance) <= 4 * noise * np.sqrt(DRAWS / effective)).all()


UNEVEN = """
model m {
  given z : real
  var y[i in range(6)] : spin
  param h ~ normal(0, 1)
  factor h * y[i] for i in range(6)
  factor z * y[i] * y[i + 1] for i in range(5)
}
mask whole = everything()
sampler sweep { update y[i] for i in range(6) }
"""


@pytest.mark.slow
def test_the_effective_number_of_draws_counts_every_kind_of_rows():
    """Chains of the last rows hardly move: their spins hold each other. Gradients of two kinds of rows are held at once."""
    y = np.random.default_rng(0).choice([-1, 1], (9, 6))
    z = np.repeat([0.1, 2.5], [6, 3])
    fit = gm.parse(UNEVEN).model().fit(np.where(z[:, None] > 1, y[:, :1], y), "whole", given={"z": z})
    far, near = (fit.simulated_errors(DRAWS, sampler="sweep", warmup=50, thin=thin) for thin in (100, 1))
    assert near.simulated["effective"] < 100  # type: ignore[index]
    assert far.simulated["effective"] > 5 * near.simulated["effective"]  # type: ignore[index]
    assert [("few-draws" in [f.slug for f in found.status.findings]) for found in (far, near)] == [False, True]


@pytest.mark.slow
def test_each_of_many_rows_of_given_data_has_its_own_law():
    """200 rows, more than a byte counts: those that count lie behind the 150th, and have other data than the rest."""
    z = np.where(np.arange(200)[:, None] < 150, [0.0, 0.5], [2.0, -2.0])
    y = np.random.default_rng(1).integers(0, 2, (200, 3))
    case = Case(GIVEN, y, "single", {"weights": np.where((np.arange(200) >= 150) & (np.arange(200) % 5 == 0), 1.0, 0.0)}, {"z": z})
    fit = case.fit()
    variance, noise = expected(case, fit, 400)
    errors = fit.simulated_errors(400, seed=2)
    assert (np.abs(errors.flat(errors.standard_errors) ** 2 - variance) <= 4 * noise).all()


@pytest.mark.slow
def test_a_mask_that_looks_at_x_is_drawn_anew_with_the_random_numbers_of_the_row():
    """Each of the 32 rows has one mask, by its own values; by enumeration of the gradients of fits to each row alone."""
    fit = gm.parse(RING).model().fit(SPINS[:1], "seeing", n_masks=1, seed=8, init={"field": 0.1}, fixed={"coupling": 0.3})
    oracle, params = Oracle(gm.parse(RING).checked, None, {}), params64(fit)
    c = float(rows_under(fit.evidence, params).objective.factor)
    slopes = []
    for state in oracle.states:
        row = rows_under(replace(fit.evidence, codes=state[:, None].astype(np.int32)), params)
        slopes.append(c / float(row.objective.factor) * row.scores(params, np.eye(2))[0, 0])
    p, u = oracle.probabilities({k: np.asarray(v) for k, v in params.items()}), np.array(slopes)
    moved = (u - u @ p) * fit.determined_covariance("laplace")[0, 0]
    variance = moved**2 @ p
    noise = np.sqrt((moved**4 @ p - variance**2) / DRAWS)
    found = fit.simulated_errors(DRAWS, seed=5).standard_errors["field"]
    assert abs(found**2 - variance) <= 4 * noise


@pytest.mark.slow
def test_masks_that_were_drawn_are_kept():
    """One mask of the row, drawn: the errors of the fit whose mask is that pair of cells alone, with all of the cells' weight."""
    for seed in range(20):
        fit = gm.parse(RING).model().fit(SPINS[:1], "pairs", n_masks=1, seed=seed)
        objective, _ = reopen(fit.evidence, fit.params)
        cells = np.sort(np.asarray(objective.masks)[0, :, 0])
        if len(set(SPINS[0, cells])) == 2:  # of two equal spins the field has no finite estimate
            break
    text = RING.replace("sampler sweep", f"mask own = blocks({{x[{cells[0]}], x[{cells[1]}]}})\nsampler sweep")
    alone = gm.parse(text.replace("normal(0, 2)", "normal(0, 10^0.5)")).model().fit(SPINS[:1], "own")  # c is 1, and was 5 / 2
    np.testing.assert_allclose(fit.flat(fit.params), alone.flat(alone.params), rtol=1e-4)
    for seed in (0, 1):
        left, right = (f.simulated_errors(200, seed) for f in (fit, alone))
        np.testing.assert_allclose(left.covariance, right.covariance, rtol=1e-3)


@pytest.mark.slow  # words and files; the errors themselves are compared above
def test_the_result_says_that_it_assumes_the_model(tmp_path: Path):
    fit = made("one row")
    found = fit.simulated_errors(DRAWS, seed=15)
    assert np.isinf(fit.standard_errors["field"])
    assert [f.slug for f in found.status.findings if f.slug == "no-spread"] == []
    assert "they assume the model" in str(found)
    assert (found.summary()["note"] == "assumes the model").all()
    assert set(found.summary(errors="laplace")["note"]) == {"no valid error: the mask's loss is not a likelihood"}
    page = fit_report(found).html()
    assert "assume the model" in page
    assert "simulated standard errors" in page
    found.save(tmp_path / "a.fit")
    again = gm.load_fit(tmp_path / "a.fit")
    assert str(again) == str(found)
    assert again.summary().equals(found.summary())
    assert again.simulated == found.simulated
    assert "assume" not in str(fit)
    assert found.contrast({"field": 1.0}).std_error == pytest.approx(float(found.standard_errors["field"]))
    assert 0 < found.profile("field", points=5).adjustment < np.inf
    assert gm.wald_test(found, found).rows == DRAWS
    repeated = fit.simulated_errors(DRAWS, seed=15)
    np.testing.assert_array_equal(repeated.covariance, found.covariance)


@pytest.mark.slow
def test_what_is_held_stays_held():
    """A fixed parameter has no error, and one at a laplace prior's centre no interval; simulated rows move neither."""
    text = RING.replace("param field", "param field ~ laplace(0, 0.02)")
    fit = gm.parse(text).model().fit(SPINS[:1], "single", fixed={"coupling": 0.2}).simulated_errors(200)
    assert fit.params["field"] == 0
    assert fit.standard_errors["coupling"] == 0
    assert np.isnan(fit.standard_errors["field"])
    np.testing.assert_array_equal(fit.covariance, np.zeros((2, 2)))
    assert "at-kink" in [f.slug for f in fit.status.findings]


@pytest.mark.slow
def test_few_draws_are_said():
    fit = made("one row").simulated_errors(20, seed=1)
    assert "few-draws" in [f.slug for f in fit.status.findings]
    assert "worth 20 independent ones" in str(fit)


REFUSED: dict[str, tuple[Any, str]] = {
    "draws": (lambda fit, path: fit.simulated_errors(1), "E507"),
    "seed": (lambda fit, path: fit.simulated_errors(seed=2**64), "E507"),
    "thin": (lambda fit, path: fit.simulated_errors(thin=0), "E507"),
    "warmup": (lambda fit, path: fit.simulated_errors(warmup=1.5), "E507"),
    "an unknown sampler": (lambda fit, path: fit.simulated_errors(sampler="none"), "E506"),
    "cells that stay": (lambda fit, path: fit.simulated_errors(sampler="some"), "E704"),
    "no known law": (lambda fit, path: fit.simulated_errors(sampler="biased"), "E507"),
    "memory": (lambda fit, path: fit.simulated_errors(10**9), "E601"),
    "time": (lambda fit, path: fit.simulated_errors(sampler="sweep", thin=10**9), "E601"),
    "a warm-up without end": (lambda fit, path: fit.simulated_errors(sampler="sweep", warmup=10**12), "E601"),
    "a loaded fit": (lambda fit, path: (fit.save(path / "a.fit"), gm.load_fit(path / "a.fit").simulated_errors()), "E505"),
    "no minimum": (lambda fit, path: fit.model.fit(SPINS[:1], "single", max_steps=1).simulated_errors(), "E552"),
    "persistent contrastive divergence": (
        lambda fit, path: replace(fit, meta=fit.meta | {"method": gm.PersistentContrastiveDivergence.name}).simulated_errors(),
        "E552",
    ),
    "drawn cells": (lambda fit, path: replace(fit, missing=replace(fit.missing, imputed=1)).simulated_errors(), "E552"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_simulated_is_refused_before_it_starts(what: str, tmp_path: Path):
    call, code = REFUSED[what]
    with pytest.raises(gm.GmlmError) as caught:
        call(made("one row"), tmp_path)
    assert caught.value.codes == (code,)


@pytest.mark.slow
def test_the_short_run_that_chooses_thin_counts_among_the_evaluations(monkeypatch: pytest.MonkeyPatch):
    """8 chains of 15 places in factors by 2 values are 240 evaluations a step; the short run has 256 steps."""
    monkeypatch.setattr(_simulated_errors, "MOST_EVALUATIONS", 240 * 256)
    fit = made("one row")
    fit.simulated_errors(8, sampler="sweep", warmup=0, thin=1)
    with pytest.raises(gm.GmlmError, match=r"8 draws of `sweep` take 6.2e\+04 evaluations") as caught:
        fit.simulated_errors(8, sampler="sweep", warmup=0)
    assert caught.value.codes == ("E601",)


def test_what_a_loaded_fit_cannot_simulate_names_the_call_that_can(tmp_path: Path):
    made("one row").save(tmp_path / "a.fit")
    with pytest.raises(gm.GmlmError, match=r"`fit.model.fit\(x, mask='single', init=fit.params\)`"):
        gm.load_fit(tmp_path / "a.fit").simulated_errors()


def test_a_model_without_a_sampler_has_exact_draws_or_says_what_it_lacks():
    """Elimination on a complete graph of 30 spins takes 2^30 entries."""
    text = RING.split("sampler")[0].replace("chain(5, wrap = true)", "complete(range(30))").split("mask pairs")[0]
    fit = gm.parse(text).model().fit(np.where(np.arange(30) % 5 < 3, 1, -1)[None])
    with pytest.raises(gm.GmlmError, match="no sampler") as caught:
        fit.simulated_errors()
    assert caught.value.codes == ("E506",)
    with pytest.raises(gm.GmlmError, match="an exact draw") as caught:
        fit.simulated_errors(sampler="exact")
    assert caught.value.codes == ("E601",)
