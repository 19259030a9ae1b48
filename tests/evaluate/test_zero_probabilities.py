"""Probabilities that are exactly 0 at some value of a cell: derivatives, Fisher information and fits, as capture and recapture has them."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.optimize
from thinned import thinned

import gmlmdsl as gm

pytestmark = [pytest.mark.usefixtures("float64", "standard_promotion"), pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")]
HIDDEN = (
    "model m {{ latent a : bit  var y : {type}  param p : real(lower = 0, upper = 1)  a ~ bernoulli(0.5)  {body} }}\nmask w = everything(y)"
)
BODIES = {
    "bernoulli": ("bit", "y ~ bernoulli(p * a)"),
    "complement": ("bit", "y ~ bernoulli(1 - (1 - p) * (1 - a))"),
    "categorical": ("bit", "y ~ categorical([1 - p * a, p * a])"),
    "binomial": ("range(3)", "y ~ binomial(2, p * a)"),
    "power": ("bit", "y ~ bernoulli(1 - (1 - p) ^ a)"),
    "logit": ("bit", "y ~ bernoulli(logit = max(logit(p * a), -30))"),
    "root": ("bit", "factor sqrt(p * a) * y"),
    "root of a power": ("bit", "factor (p * a) ^ 0.5 * y"),
    "log1p": ("bit", "factor if y == 1 then log1p(-p * a) else log(p * a + 1 - a)"),
}


@pytest.mark.parametrize("name", thinned(BODIES, 8, 2))
def test_derivatives_are_those_of_differences(name: str) -> None:
    type_, body = BODIES[name]
    model = gm.parse(HIDDEN.format(type=type_, body=body)).model()
    y = np.array([0, 1, 0, 0, 1])

    def loss(p: float) -> float:
        return model.loss({"p": p}, y, mask="w")

    value, slope, bend = jax.jit(loss), jax.jit(jax.grad(loss)), jax.jit(jax.grad(jax.grad(loss)))
    for f, its_slope, error in ((value, slope, 1e-7), (slope, bend, 1e-6)):
        assert float(its_slope(0.3)) == pytest.approx((float(f(0.3 + 1e-5)) - float(f(0.3 - 1e-5))) / 2e-5, abs=error)
    assert float(value(0.3)) == pytest.approx(float(loss(0.3)), rel=1e-12)


@pytest.mark.slow
def test_seen_cells_have_such_probabilities_too() -> None:
    text = "model m { var a : bit  var y : bit  param p : real(lower = 0, upper = 1)  a ~ bernoulli(0.5)  y ~ bernoulli(p * a) }"
    model = gm.parse(text + "\nmask w = everything(a, y)\nmask one = subsets(size = 1)").model()
    rows = {"a": [1, 1, 0, 0, 1], "y": [1, 0, 0, 0, 1]}
    assert float(jax.grad(lambda p: model.loss({"p": p}, rows, mask="w"))(0.3)) == pytest.approx(-(2 / 0.3 - 1 / 0.7) / 5, abs=1e-9)
    assert np.isfinite(float(jax.grad(lambda p: model.loss({"p": p}, rows, mask="one"))(0.3)))
    assert float(model.fit(rows, mask="w").params["p"]) == pytest.approx(2 / 3, abs=1e-6)
    assert np.isfinite(np.asarray(gm.theory.fisher_information(model, {"p": 0.3}))).all()


RECAPTURE = """
input years : int = 4
index year = range(years)
model m {
  latent alive[t in year] : bit
  var    seen[t in year]  : bit
  param phi : real(lower = 0, upper = 1)
  param p   : real(lower = 0, upper = 1)
  require alive[0] == 1
  alive[t] ~ bernoulli(phi * alive[t - 1]) for t in year if t > 0
  require seen[0] == 1
  seen[t] ~ bernoulli(p * alive[t]) for t in year if t > 0
}
mask all = everything(seen)
"""


@pytest.mark.slow  # a fit more
def test_survival_is_estimated_from_recaptures() -> None:
    """The estimates of Cormack, Jolly and Seber beside those of their likelihood by recursion."""
    rng, n, years, phi, p = np.random.default_rng(0), 400, 4, 0.7, 0.4
    alive = np.cumprod(np.column_stack([np.ones(n), rng.random((n, years - 1)) < phi]), axis=1).astype(bool)
    seen = alive & np.column_stack([np.ones(n, bool), rng.random((n, years - 1)) < p])
    fit = gm.parse(RECAPTURE).model().fit(seen.astype(int), mask="all")

    def minus_log_p(x: np.ndarray) -> float:
        f, q = x
        total, never = 0.0, [1.0]  # the probability of not being seen in so many last years
        for _ in range(years - 1):
            never.append(1 - f + f * (1 - q) * never[-1])
        for row in seen:
            last = int(np.flatnonzero(row)[-1])
            total += last * np.log(f) + row[1 : last + 1].sum() * np.log(q) + (~row[1 : last + 1]).sum() * np.log(1 - q)
            total += np.log(never[years - 1 - last])
        return -total

    best = scipy.optimize.minimize(minus_log_p, [0.5, 0.5], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10}).x
    np.testing.assert_allclose([float(fit.params["phi"]), float(fit.params["p"])], best, atol=1e-5)
    assert "converged" in str(fit)
