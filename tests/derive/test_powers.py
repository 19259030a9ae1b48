"""Powers whose exponent is computed from cells: values, slopes and curvatures, where the base is 0 or below it too."""

from __future__ import annotations

from functools import cache

import jax
import numpy as np
import pytest

import gmlmdsl as gm

FALLING = "model m { var k : range(4)  param h  factor h ^ (3 - k) }"
RAISED = "model m { var k : range(4)  param h  factor h ^ k }"


@cache
def derivatives(text: str):
    """log p of a value of the cell, and its first two derivatives, compiled for each value."""
    model = gm.parse(text).model()

    def value(h, k):
        return model.log_potential({"h": h}, np.array([k]))[0]

    return value, *(jax.jit(of(value), static_argnums=1) for of in (jax.grad, jax.hessian))


@pytest.mark.parametrize(("text", "power"), [(RAISED, lambda k: k), (FALLING, lambda k: 3 - k)])
@pytest.mark.parametrize("h", [0.0, -1.5, 1e-10])
def test_a_power_has_its_derivatives_everywhere(text: str, power, h: float):
    value, slope, curve = derivatives(text)
    for k in range(4):
        n = power(k)
        polynomial = np.polynomial.Polynomial([0] * n + [1])
        np.testing.assert_allclose(value(h, k), polynomial(h), rtol=1e-6, atol=1e-25)
        np.testing.assert_allclose(slope(h, k), polynomial.deriv()(h), rtol=1e-6, atol=1e-25)
        np.testing.assert_allclose(curve(h, k), polynomial.deriv(2)(h), rtol=1e-6, atol=1e-25)


def test_a_number_to_the_power_of_a_cell():
    found = gm.parse("model m { var b[i in range(2)] : bit  factor 1.5 ^ b[1] }").model()
    np.testing.assert_allclose(found.log_potential({}, np.array([[0, 1], [1, 0]])), [1.5, 1.0])


@pytest.mark.usefixtures("float64")
def test_both_sides_of_a_power_may_be_parameters():
    model = gm.parse("model m { var k : range(2)  param g : positive  param h  factor g ^ h }").model()
    at = {"g": 2.0, "h": 0.0}
    curve = jax.hessian(lambda p: model.log_potential(p, np.array([0]))[0])(at)
    np.testing.assert_allclose([[curve[a][b] for b in "gh"] for a in "gh"], [[0, 0.5], [0.5, np.log(2) ** 2]], atol=1e-12)
