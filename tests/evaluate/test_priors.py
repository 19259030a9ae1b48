"""Prior densities and their derivatives against SciPy's, and the maps onto bounded parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.evaluate import DENSITIES, SPIKE_SLAB, bijection, log_prior
from gmlmdsl.program._forms import DISTRIBUTIONS

ROW = np.array([0.2, 0.5, 0.3])
CASES = {
    "normal(0.5, 2)": (np.array([-1.3, 0.2, 4.0]), lambda v: scipy.stats.norm.logpdf(v, 0.5, 2)),
    "laplace(0.5, 2)": (np.array([-1.3, 0.2, 4.0]), lambda v: scipy.stats.laplace.logpdf(v, 0.5, 2)),
    "student_t(3, 0.5, 2)": (np.array([-1.3, 0.2, 4.0]), lambda v: scipy.stats.t.logpdf(v, 3, 0.5, 2)),
    "half_normal(2)": (np.array([0.1, 0.7, 3.0]), lambda v: scipy.stats.halfnorm.logpdf(v, scale=2)),
    "half_cauchy(2)": (np.array([0.1, 0.7, 3.0]), lambda v: scipy.stats.halfcauchy.logpdf(v, scale=2)),
    "exponential(2)": (np.array([0.1, 0.7, 3.0]), lambda v: scipy.stats.expon.logpdf(v, scale=1 / 2)),
    "gamma(2.5, 4)": (np.array([0.1, 0.7, 3.0]), lambda v: scipy.stats.gamma.logpdf(v, 2.5, scale=1 / 4)),
    "beta(2, 3.5)": (np.array([0.1, 0.5, 0.8]), lambda v: scipy.stats.beta.logpdf(v, 2, 3.5)),
    "dirichlet(1.7)": (ROW, lambda v: scipy.stats.dirichlet.logpdf(v / v.sum(), [1.7] * 3) + 0.7 * 3 * np.log(v.sum())),
}
KINDS = {
    **dict.fromkeys(("half_normal", "half_cauchy", "exponential", "gamma"), " : positive"),
    "beta": " : real(lower = 0, upper = 1)",
    "dirichlet": " : simplex",
}


def test_every_distribution_of_parameters_has_its_density_here_and_a_case():
    with_density = {f.name for f in DISTRIBUTIONS if f.support != "cell"} - {SPIKE_SLAB}
    assert set(DENSITIES) == with_density == {case.split("(")[0] for case in CASES}


def model(prior: str):
    kind = KINDS.get(prior.split("(")[0], "")
    return gm.parse(
        f"index k = range(3)\nmodel m {{ var x[i in k] : range(2)\n param p[i in k]{kind} ~ {prior}\n factor p[i] * x[i] for i in k }}"
    ).model()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("prior", thinned(CASES, 4))
def test_a_prior_has_the_density_and_the_slopes_of_its_law(prior: str):
    value, expected = CASES[prior]
    graph = model(prior).graph

    def found(v):
        return log_prior(graph, {"p": v})

    def total(v):
        return float(np.sum(expected(v)))

    np.testing.assert_allclose(found(jnp.asarray(value)), total(value), rtol=1e-13)
    steps = 1e-4 * np.eye(3)
    slope = [(total(value + s) - total(value - s)) / 2e-4 for s in steps]
    curve = [(total(value + s) - 2 * total(value) + total(value - s)) / 1e-8 for s in steps]
    np.testing.assert_allclose(jax.jit(jax.grad(found))(jnp.asarray(value)), slope, rtol=1e-5)
    np.testing.assert_allclose(np.diag(jax.jit(jax.hessian(found))(jnp.asarray(value))), curve, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("float32")  # its rounding is what is tested
def test_a_dirichlet_in_single_precision_has_a_density_where_rounding_takes_the_sum_from_one():
    row = np.float32(ROW) + np.float32(3e-6)
    found = log_prior(model("dirichlet(1.7)").graph, {"p": jnp.asarray(row)})
    assert np.isclose(found, CASES["dirichlet(1.7)"][1](row.astype(float)), atol=1e-5)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    "kind", ["", " : positive", " : real(lower = -1, upper = 2)", " : real(lower = -1)", " : real(upper = 2)", " : simplex"]
)
def test_maps_onto_parameters_and_back_are_inverse(kind: str):
    text = f"index k = range(3)\nmodel m {{ var x[i in k] : range(2)\n param p[i in k]{kind}\n factor p[i] * x[i] for i in k }}"
    (p,) = gm.parse(text).model().graph.parameters
    mapped = bijection(p)
    there = mapped(mapped.inv(jnp.asarray(ROW)))
    np.testing.assert_allclose(there, ROW, rtol=1e-12)
