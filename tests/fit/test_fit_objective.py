"""A fit is a stationary point of the contract's objective, and its standard errors are that objective's sandwich: both by brute force."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from oracle import Oracle, numerical_gradient
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.fit import _inference, _minimise

pytestmark = pytest.mark.usefixtures("standard_promotion")

TEXT = """
model m {
  var x[i in range(3)] : range(3)
  var b : spin
  param h[i in range(3)] ~ normal(0.5, 1)
  param s : positive ~ gamma(2, 2)
  factor h[i] * x[i] for i in range(3)
  factor s * b * (x[i] == x[i + 1]) for i in range(2)
}
mask one = subsets(size = 1)
mask two = subsets(size = 2)
mask seen given b { choose {x[i], b} for i in range(3) weight 1.5 + b  choose {x[i]} for i in range(3) weight 0.7 }
"""


def flat(params: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(params["h"]), np.ravel(params["s"])])


def whole(vector: np.ndarray) -> dict[str, np.ndarray]:
    return {"h": vector[:3], "s": vector[3]}


@pytest.mark.check
@pytest.mark.parametrize("mask", thinned(["one", "two", "seen"], 3, 1))
def test_a_fit_minimises_the_objective_and_reports_its_sandwich(mask: str) -> None:
    program = gm.parse(TEXT)
    oracle = Oracle(program.checked, "m", {})
    rng = np.random.default_rng(11)
    codes = oracle.states[rng.integers(0, len(oracle.states), 25)]
    weights = rng.integers(1, 4, 25).astype(float)
    rows = {"x": codes[:, :3], "b": 2 * codes[:, 3] - 1}
    with jax.enable_x64(True):
        fit = program.model().fit(rows, mask=mask, weights=weights)
        estimate, errors = flat(fit.params), flat(fit.standard_errors)

    def gradient(vector: np.ndarray) -> np.ndarray:
        return flat(numerical_gradient(lambda p: oracle.fit_objective(p, codes, mask, weights), whole(vector)))

    assert fit.status.converged
    assert np.abs(gradient(estimate)).max() < 1e-4  # of a sum over 25 rows; the objective's differences keep six digits
    hessian = np.stack([(gradient(estimate + e) - gradient(estimate - e)) / 2e-3 for e in 1e-3 * np.eye(4)])
    c = oracle.fit_constant(whole(estimate), codes, mask)
    parts = [
        flat(numerical_gradient(lambda p, r=r: float(oracle.row_losses(p, codes[r : r + 1], mask)[0]), whole(estimate))) for r in range(25)
    ]
    u = c * weights[:, None] * np.array(parts)
    u = u - u.mean(axis=0)
    inverse = np.linalg.inv(0.5 * (hessian + hessian.T))
    np.testing.assert_allclose(errors, np.sqrt(np.diag(inverse @ (u.T @ u) @ inverse)), rtol=2e-3)


@pytest.mark.slow  # test_fit.py saves and loads one
@pytest.mark.check
def test_a_saved_fit_comes_back_whole(tmp_path) -> None:
    model = gm.parse(TEXT).model()
    rng = np.random.default_rng(1)
    rows = {"x": rng.integers(0, 3, (30, 3)), "b": rng.choice([-1, 1], 30)}
    fit = model.fit(rows, mask="one", fixed={"s": 0.8})
    fit.save(tmp_path / "a.fit")
    again = gm.load_fit(tmp_path / "a.fit")
    for name, value in fit.params.items():
        np.testing.assert_array_equal(again.params[name], value)
    np.testing.assert_array_equal(again.covariance, fit.covariance)
    assert again.standard_errors["s"] == 0
    assert str(again) == str(fit)
    assert again.model.log_prob(again.params, rows).shape == (30,)


@pytest.mark.slow  # how sums are taken; what they come to is above
def test_second_derivatives_of_many_rows_are_summed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows are many, second derivatives are summed at the end alone, and the estimate is where it was."""
    text = "model m { var x[i in range(3)] : spin param J[i in range(2)] factor J[i] * x[i] * x[i + 1] for i in range(2) }"
    model = gm.parse(text + "\nmask one = subsets(size = 1)\n").model()
    x = np.random.default_rng(3).choice([-1, 1], (90, 3))
    few = model.fit(x)
    passes: list[int] = []
    summed = _inference.second_order
    monkeypatch.setattr(_inference, "second_order", lambda *a: (passes.append(1), summed(*a))[1])
    model.fit(x)
    assert len(passes) > 1
    passes.clear()
    monkeypatch.setattr(_minimise, "MANY_PRODUCTS", 1)
    many = model.fit(x)
    assert not passes
    for a, b in ((many.params, few.params), (many.standard_errors, few.standard_errors)):
        np.testing.assert_allclose(a["J"], b["J"], rtol=1e-6, atol=1e-7)
    assert many.status.converged
    assert len(passes) == 1
