"""A model as a NumPyro model: its density against the oracle's, its sites, its calibration, and what NumPyro does with it."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from cases import Case
from numpyro import handlers
from numpyro.distributions import HalfNormal, Normal
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import log_density, potential_energy, unconstrain_fn
from refusals import refused

import gmlmdsl as gm
from gmlmdsl.posterior._draws import potential
from gmlmdsl.posterior._sites import at_coordinates, coordinates

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")
KINDS = """
domain sky = labels("sun", "rain", "snow")
model kinds {
  var w : sky
  var v : sky
  var x : bit
  param h ~ normal(0.5, 2)
  param u[a in sky] ~ laplace(0, 1.5)
  param free[a in sky]
  param J[a in sky, b in sky] ~ normal(0.3, 0.8)
  param g[a in sky] ~ student_t(4, 0, 1)
  param s : positive ~ gamma(2, 3)
  param t : positive ~ normal(1, 1)
  param r : real(lower = -1, upper = 2)
  param q : real(lower = 0.5, upper = 3) ~ gamma(2, 2)
  param p : real(lower = 0, upper = 1) ~ beta(2, 3)
  param z[a in sky] : simplex ~ dirichlet(1.5)
  gauge zero_sum(J)
  gauge zero_sum(g)
  factor h * x
  factor (u[w] + free[w] + g[w]) * x
  factor J[w, v]
  factor (s + r) * x if_rain
  factor log(z[v]) * t + q * x * (v == "sun") + p * x
}
mask pieces { choose {w, x} weight 0.5  choose {v} weight 0.5 }
""".replace("(s + r) * x if_rain", '(s + r) * x * (w == "rain")')
RING = """
graph G = chain(6, wrap = true)
model ring {
  var x[i in G.nodes] : spin
  param h ~ normal(0, 10)
  param J ~ normal(0, 10)
  factor h * x[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
mask whole = everything(x)
"""
EDGE = """
model edge {
  var x : bit
  var y : bit
  param p : real(lower = 0, upper = 1)
  factor p * (x + y)
}
mask single = subsets(size = 1)
"""
kinds, ring = Case("kinds", KINDS), Case("ring", RING)
TRUTH = {"h": np.array(0.1), "J": np.array(0.4)}


@cache
def ring_rows(n: int, seed: int = 0) -> np.ndarray:
    p = ring.oracle.probabilities(TRUTH)
    return 2 * ring.oracle.states[np.random.default_rng(seed).choice(64, n, p=p)] - 1


@cache
def of_ring(calibrate: str | None, mask: str = "one", n: int = 20_000) -> Any:
    return ring.model.to_numpyro(ring_rows(n), mask, calibrate=calibrate)


def site_values(params: dict[str, Any], model: Any) -> dict[str, Any]:
    """What NumPyro's sites hold at parameters: on the tangent basis the part that is on the gauge."""
    return {s.name: s.coordinates(params[s.parameter.name]) if s.on_tangent else params[s.parameter.name] for s in model._sites}


def projected(params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    J = params["J"] - params["J"].mean(axis=0, keepdims=True)
    return params | {"J": J - J.mean(axis=1, keepdims=True), "g": params["g"] - params["g"].mean()}


def test_the_density_is_the_priors_times_the_loss():
    """Differences between points: NumPyro's log density against the oracle's c * sum of losses and priors, of every kind of parameter."""
    codes = kinds.oracle.states[np.random.default_rng(1).integers(0, 18, 25)]
    x, weights = kinds.values(codes), np.linspace(0.2, 2, 25)
    model = kinds.model.to_numpyro(x, weights=weights, calibrate=None)
    types: dict[str, str] = {}

    @jax.jit
    def density_and_gauge(values: dict[str, Any]) -> tuple[Any, Any]:
        density, trace = log_density(model, (), {}, values)
        types.update({name: site["type"] for name, site in trace.items()})
        return density, trace["J"]["value"]

    found, expected = [], []
    for seed in range(3):
        params = projected({k: np.asarray(v, float) for k, v in kinds.oracle.random_params(seed).items()})
        density, gauge = density_and_gauge(site_values(params, model))
        found.append(float(density))
        expected.append(-kinds.oracle.fit_objective(params, codes, "pieces", weights))
        np.testing.assert_allclose(gauge, params["J"], atol=1e-12)
        assert types["J"] == "deterministic" and site_values(params, model)["J.tangent"].shape == (4,)
        rows = kinds.oracle.row_losses(params, codes, "pieces") * kinds.oracle.fit_constant(params, codes, "pieces")
        np.testing.assert_allclose(model.log_likelihood(params), -weights * rows, atol=1e-9)
    np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=1e-8)
    assert model.calibration == "not calibrated"
    assert repr(model).startswith("NumPyro model of `kinds` given 25 rows: sites `h`, `u`, `free`, `J.tangent`, `g.tangent`, `s`")


@pytest.mark.slow
def test_everything_is_the_likelihood_and_is_not_calibrated():
    model = of_ring("curvature", "whole", 50)
    assert model.calibration == "the likelihood: no calibration is needed"
    exact = np.asarray(ring.model.log_prob(TRUTH, ring_rows(50)))
    np.testing.assert_allclose(model.log_likelihood(TRUTH), exact, atol=1e-10)
    np.testing.assert_allclose(float(model.likelihood(TRUTH)), exact.sum(), atol=1e-9)


@pytest.mark.slow
def test_the_published_widths():
    """sd sqrt(n) of (h, J): naive (.4884, .3659), Godambe (.3008, .4803), likelihood (.2957, .4357), from 20,000 rows to 3 %."""
    for model, expected in (
        (of_ring(None), (0.4884, 0.3659)),
        (of_ring("curvature"), (0.3008, 0.4803)),
        (of_ring(None, "whole"), (0.2957, 0.4357)),
    ):
        hessian = -jax.jit(jax.hessian(lambda v, m=model: m.likelihood({"h": v[0], "J": v[1]})))(jnp.array([0.1, 0.4]))
        np.testing.assert_allclose(np.sqrt(20_000 * np.diag(np.linalg.inv(hessian))), expected, rtol=0.03)


@pytest.mark.slow  # test_calibration.py has the matrix beside its formula
def test_the_curvature_becomes_the_inverse_of_the_sandwich_in_free_coordinates():
    """At the minimiser without priors: the Hessian of the factor, times the covariance of the fit by the delta method, is the identity."""
    text = RING.replace("param J ~ normal(0, 10)", "param J : positive ~ gamma(2, 1)\n  param u[a in three]\n  gauge zero_sum(u)")
    text = text.replace("factor h", "factor u[w] * x[0]\n  factor h", 1).replace("var x", "var w : three\n  var x", 1)
    text = 'domain three = labels("a", "b", "c")\n' + text.replace("subsets(x,", "subsets(")
    free = text.replace(" ~ gamma(2, 1)", "").replace(" ~ normal(0, 10)", "")
    x = {"x": ring_rows(300), "w": np.arange(300) % 3}
    fit = gm.parse(free).model().fit(x, "one")
    model = gm.parse(text).model().to_numpyro(x, "one")
    sites, likelihood = model._sites, model.likelihood
    est = {k: jnp.asarray(v) for k, v in fit.params.items()}
    centre = coordinates(sites, est)
    np.testing.assert_allclose(likelihood.calibration.centre, centre, atol=1e-6)

    def at(vector: Any) -> Any:
        params = {"h": vector[0], "J": jnp.exp(vector[1]), "u": jnp.asarray(sites[2].basis) @ vector[2:]}
        return -likelihood(params)

    hessian, gradient = jax.jit(lambda v: (jax.hessian(at)(v), jax.grad(at)(v)))(centre)
    np.testing.assert_allclose(gradient, 0, atol=1e-3)
    slopes = np.zeros((5, 4))  # of the entries h, J, u in the coordinates
    slopes[0, 0], slopes[1, 1], slopes[2:, 2:] = 1, float(est["J"]), sites[2].basis
    inverse = np.linalg.pinv(slopes)
    np.testing.assert_allclose(hessian @ inverse @ fit.covariance @ inverse.T, np.eye(4), atol=2e-3)


@pytest.mark.slow
def test_numpyro_does_with_it_what_it_does_with_its_own():
    model = of_ring("curvature", n=400)
    trace = handlers.trace(handlers.seed(model, 0)).get_trace()
    assert [name for name, site in trace.items() if site["type"] == "sample" and not site["is_observed"]] == ["h", "J"]
    held = handlers.trace(handlers.seed(handlers.substitute(model, {"h": 0.2}), 0)).get_trace()
    assert held["h"]["value"] == 0.2
    seen = handlers.trace(handlers.seed(handlers.condition(model, {"J": jnp.array(0.4)}), 0)).get_trace()
    assert seen["J"]["is_observed"] and not seen["h"]["is_observed"]
    mcmc = MCMC(NUTS(model), num_warmup=100, num_samples=150, num_chains=2, chain_method="vectorized", progress_bar=False)
    mcmc.run(jax.random.key(0))
    draws = mcmc.get_samples()
    assert Predictive(model, draws)(jax.random.key(1))["ring.data"].shape[0] == 300
    assert Predictive(model, num_samples=3)(jax.random.key(1))["J"].shape == (3,)
    guide = AutoNormal(model)
    svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO()).run(jax.random.key(2), 300, progress_bar=False)
    middle = guide.median(svi.params)
    for name in ("h", "J"):
        assert abs(draws[name].mean() - middle[name]) < 1.5 * draws[name].std()


@pytest.mark.slow
def test_it_nests_in_a_model_of_the_users_own():
    """Two groups whose couplings have a common law: the density is that of the law, and of both losses."""
    groups = {g: ring.model.to_numpyro(ring_rows(200, seed), "one", calibrate=None) for g, seed in (("a", 1), ("b", 2))}

    def pooled() -> None:
        mean = numpyro.sample("mean", Normal(0, 1))
        spread = numpyro.sample("spread", HalfNormal(0.5))
        for g, likelihood in groups.items():
            coupling = numpyro.sample(f"coupling_{g}", Normal(mean, spread))
            handlers.scope(likelihood, prefix=g)({"J": coupling})

    values = {"mean": 0.3, "spread": 0.2, "coupling_a": 0.35, "coupling_b": 0.5, "a/h": 0.1, "b/h": 0.0}
    found, trace = log_density(pooled, (), {}, values)
    expected = Normal(0, 1).log_prob(0.3) + HalfNormal(0.5).log_prob(0.2)
    for g, likelihood in groups.items():
        params = {"h": values[f"{g}/h"], "J": values[f"coupling_{g}"]}
        expected += Normal(0.3, 0.2).log_prob(params["J"]) + Normal(0, 10).log_prob(params["h"])
        expected += likelihood.log_likelihood(params).sum()
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert not any(name.endswith("/J") for name in trace)
    refused("E501", lambda: groups["a"]({"J": jnp.zeros(2)}), "must have shape ()")
    refused("E506", lambda: groups["a"]({"K": 0.0}), "no parameter `K`")


@pytest.mark.produces("E554")
def test_what_cannot_be_calibrated_is_refused_with_what_can_be_done():
    model, x = ring.model, ring_rows(30)
    refused("E507", lambda: model.to_numpyro(x, "one", calibrate="open_faced"), "transforms draws")
    refused("E507", lambda: model.to_numpyro(x, "one", calibrate=True), '"curvature", "simulated" or None')
    refused("E554", lambda: model.to_numpyro(x[:1], "one"), "1 effective row", 'calibrate="simulated"', "calibrate=None")
    refused("E554", lambda: model.to_numpyro(np.ones((9, 6), int), "one"), "no minimiser", "calibrate=None")
    all_true = {"x": np.ones(9, int), "y": np.ones(9, int)}
    at_edge = ("`p` has run to the edge", "help: `calibrate=None`")
    refused("E554", lambda: gm.parse(EDGE).model().to_numpyro(all_true, calibrate="simulated"), *at_edge)
    refused("E505", lambda: model.to_numpyro(x[:0], "one", calibrate=None))
    mixed = np.array([[1, 1, -1, 1, -1, -1]])
    assert model.to_numpyro(mixed, "one", calibrate=None).calibration == "not calibrated"


@pytest.mark.slow
def test_one_row_is_calibrated_by_data_sets_of_the_model():
    """The curvature is then the inverse of the simulated errors' covariance, which are those of the fit without priors."""
    text = RING.replace(" ~ normal(0, 10)", "").replace("chain(6", "chain(12")
    x = np.array([[1, 1, 1, -1, 1, 1, -1, -1, -1, 1, 1, -1]])
    free = gm.parse(text).model()
    fit = free.fit(x, "one").simulated_errors()
    model = free.to_numpyro(x, "one", calibrate="simulated")
    assert model.calibration == "calibrated: curvature, S from 1,000 simulated data sets"
    est = jnp.array([fit.params["h"], fit.params["J"]])
    hessian = jax.jit(jax.hessian(lambda v: -model.likelihood({"h": v[0], "J": v[1]})))(est)
    np.testing.assert_allclose(np.linalg.inv(hessian), fit.covariance, rtol=1e-3)
    refused("E554", lambda: free.fit(x, "one").posterior(), '`calibrate="simulated"`')
    found = fit.posterior(5, 1, warmup=10)
    assert found["posterior"].attrs["calibration"] == model.calibration


@pytest.mark.slow
def test_chains_of_the_library_walk_on_the_density_of_numpyro():
    """Their potential at a vector of coordinates is NumPyro's own at the values there, of every kind of parameter."""
    codes = kinds.oracle.states[np.random.default_rng(1).integers(0, 18, 25)]
    model = kinds.model.to_numpyro(kinds.values(codes), calibrate=None)
    start = {k: jnp.asarray(v) for k, v in kinds.model.init_params().items()}
    centre = coordinates(model._sites, start)
    vector = centre + 0.1 * np.random.default_rng(2).normal(size=len(centre))
    values = site_values(at_coordinates(model._sites, vector, start), model)
    numpyros = jax.jit(lambda v: potential_energy(model, (), {}, unconstrain_fn(model, (), {}, v)))(values)
    np.testing.assert_allclose(jax.jit(potential(model.likelihood))(vector), numpyros, rtol=1e-9)
