"""Where digits, draws or the support run out: an answer is right, or says what kind of number it is, or is refused."""

from __future__ import annotations

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl import theory

CLIQUE = """
graph G = complete(4)
model m {
  var x[i in G.nodes] : spin
  param h
  param J
  factor h * x[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
mask whole = everything(x)
"""
PAIRS = """
model m {
  var a[i in range(4)] : spin
  var b[i in range(4)] : spin
  param J[i in range(4)]
  factor J[i] * a[i] * b[i] for i in range(4)
}
mask single = subsets(size = 1)
"""
TWO = "model m { var a : spin  var b : spin  param J  param h  factor J * a * b  factor h * (a + b) }\n"
TWO += "mask single = subsets(size = 1)\nmask whole = everything()\nsampler one { update K where K ~ single }\nsampler sweep { update a  update b }\n"


@pytest.mark.parametrize("coupling", [2.0, 5.0, 6.0])
def test_a_direction_of_little_information_is_not_one_of_none(coupling: float) -> None:
    model = gm.parse(CLIQUE).model()
    params = {"h": 0.0, "J": coupling}
    fisher = theory.fisher_information(model, params)
    np.testing.assert_allclose(np.diag(theory.asymptotic_covariance(model, params, "whole")), 1 / np.diag(fisher), rtol=1e-6)


def test_what_is_small_in_its_unit_is_still_determined() -> None:
    model = gm.parse("model m { var x : bit  param b  factor 5e-7 * b * x }\nmask one = subsets(size = 1)\n").model()
    assert theory.asymptotic_covariance(model, {"b": 0.0}, "one")[0, 0] == pytest.approx(4 / 5e-7**2)


def test_variances_are_finite_where_the_constant_is() -> None:
    model, params = gm.parse(CLIQUE).model(), {"h": 0.0, "J": 4.0}
    constant = theory.poincare_constant(model, params, "single")
    assert np.isfinite(constant)
    ratio = np.diag(theory.asymptotic_covariance(model, params, "single", 1)) * np.diag(theory.fisher_information(model, params))
    assert np.isfinite(ratio).all()
    assert (ratio <= constant * (1 + 1e-6)).all()


@pytest.mark.parametrize("couplings", [(3, 2, 1, 0.5), (10, 9, 8, 7), (20, 19, 18, 17), (25, 20, 20, 20), (25, 18, 18, 18)])
def test_slow_modes_that_lie_together_hide_none(couplings: tuple[float, ...]) -> None:
    # Independent pairs, one of 8 cells redrawn at a time: the slowest is the pair with the largest coupling.
    found = theory.poincare_constant(gm.parse(PAIRS).model(), {"J": np.array(couplings, float)}, "single")
    expected = 4 * (1 + np.exp(2 * max(couplings)))
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert found.kind == "exact"


def test_slower_than_float64_can_say() -> None:
    model = gm.parse(TWO).model()
    found = theory.poincare_constant(model, {"J": 400.0, "h": 0.0}, "single")
    assert found.kind == "lower bound"
    assert found > 1e200
    gap = theory.spectral_gap(model, {"J": 20.0, "h": 0.0}, "sweep")
    assert gap.kind == "upper bound"
    assert gap > 0
    assert theory.relaxation_time(model, {"J": 20.0, "h": 0.0}, "sweep").kind == "lower bound"
    # One update of a mask is block dynamics, with all its digits.
    np.testing.assert_allclose(theory.spectral_gap(model, {"J": 20.0, "h": 0.0}, "one"), 1 / (1 + np.exp(40)), rtol=1e-9)
    slow = theory.mixing_time(model, {"J": 30.0, "h": 0.0}, mask="single")
    assert slow.kind == "lower bound"
    assert np.isfinite(slow)


def test_a_product_of_marginals_does_not_underflow() -> None:
    assert theory.product_gap(gm.parse(TWO).model(), {"J": 1000.0, "h": 110.0}, "whole") < 1e-9


def test_a_poincare_constant_certifies_no_bound_on_entropy() -> None:
    model, params = gm.parse(TWO).model(), {"J": 0.3, "h": 0.1}
    options = {"n": 1000, "m": 2, "box": 1.0}
    lower = theory.poincare_constant(model, params, "single")
    assert not theory.generalization_bound(model, params, "single", tensorization=lower, **options).certified


def test_a_simplex_on_its_boundary_is_refused() -> None:
    model = gm.parse(
        "model m { var z : range(3)  param p[k in range(3)] : simplex  z ~ categorical(p) }\nmask one = subsets(size = 1)\n"
    ).model()
    for call in (theory.fisher_information, theory.asymptotic_covariance, theory.compare_masks):
        with pytest.raises(gm.GmlmError, match="boundary") as caught:
            call(model, {"p": np.array([0.0, 0.4, 0.6])})
        assert caught.value.codes == ("E509",)


def test_estimates_that_cannot_be_are_refused_before_drawing() -> None:
    free = "model m { var x[i in range(60)] : spin  param h[i in range(60)]  factor h[i] * x[i] for i in range(60) }\n"
    free += "mask one = subsets(x, size = 1)\nsampler naive { update x independently }  # gmlm: allow W801\n"
    model, params = gm.parse(free).model(), {"h": np.zeros(60)}
    with pytest.raises(gm.GmlmError, match="too few for the covariance of 60 parameters"):
        theory.compare_masks(model, params, ["one"], draws=400)
    with pytest.raises(gm.GmlmError, match="need not be of p"):
        theory.compare_masks(model, params, ["one"], draws=1000, sampler="naive")
    with pytest.raises(gm.GmlmError, match="seed must be a whole number"):
        theory.estimated_covariance(model, params, "one", draws=1000, seed=-1)


def test_functions_that_fail_are_named() -> None:
    model, params = gm.parse(TWO).model(), {"J": 0.3, "h": 0.1}
    for code, f in (("E553", lambda x: 1 / 0), ("E504", lambda x: x["a"] * np.nan), ("E501", lambda x: 1.0), ("E502", lambda x: "no")):
        with pytest.raises(gm.GmlmError) as caught:
            theory.dirichlet_form(model, params, f, "single")
        assert caught.value.codes == (code,)
    with pytest.raises(gm.GmlmError, match="True or False"):
        theory.hitting_time(model, params, lambda x: 0.5 * x["a"], "sweep")


def test_a_fit_in_place_of_a_model_is_named(standard_promotion: None) -> None:
    model = gm.parse(TWO).model()
    fit = model.fit({"a": [1, 1, -1, -1, 1], "b": [1, -1, -1, 1, 1]}, mask="single")
    for call in (theory.poincare_constant, theory.fisher_information, theory.asymptotic_covariance, theory.spectral_gap):
        with pytest.raises(gm.GmlmError, match=r"fit\.model, fit\.params"):
            call(fit, fit.params)
