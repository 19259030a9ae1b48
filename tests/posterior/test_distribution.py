"""A model as a NumPyro distribution: log p and draws against enumeration, inside JAX's transformations, plates, NUTS and Predictive."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from chi_square import p_value
from given_cases import ROWS, Rows
from numpyro import distributions as dist
from numpyro.infer import MCMC, NUTS, Predictive
from oracle import Oracle
from refusals import refused
from thinned import thinned

import gmlmdsl as gm

KINDS = """
domain base = letters("ACG")
model kinds {
  var    x[i in range(2)] : spin
  latent z : bit
  var    w : labels("sun", "rain", "snow")
  var    a : base
  var    k : range(2)
  param h[i in range(2)] ~ normal(0, 1)
  param v[c in base, d in range(2)] ~ normal(0, 1)
  factor (h[i] + 0.3 * z) * x[i] for i in range(2)
  factor v[a, k] * (w == "rain") + 0.5 * z * k
  require not (w == "snow" and x[0] == 1)
}
"""
TAGS = """
model tags {
  latent z[t in range(3)] : range(2)
  var    x[t in range(3)] : range(3)
  param move[a in range(2), b in range(2)] : simplex ~ dirichlet(1)
  param emit[a in range(2), c in range(3)] : simplex ~ dirichlet(1)
  z[0] ~ categorical([0.3, 0.7])
  z[t] ~ categorical(move[z[t - 1]]) for t in range(3) if t > 0
  x[t] ~ categorical(emit[z[t]])     for t in range(3)
}
"""
RING = """
graph G = chain(4, wrap = true)
model ring {
  var x[i in G.nodes] : spin
  param h ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor h * x[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
"""
GIVEN = """
model m {
  given y[i in range(2)] : real
  var   x[i in range(2)] : spin
  param h ~ normal(0, 1)
  param b ~ normal(0, 1)
  factor (h + b * y[i]) * x[i] for i in range(2)
  factor 0.4 * x[0] * x[1]
}
"""


@pytest.fixture(autouse=True)
def loose() -> Iterator[None]:
    """NumPyro promotes types and ranks."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


class Enumerated:
    """Every event of a model, with its probability by the oracle, latents summed out."""

    def __init__(self, text: str):
        self.model = gm.parse(text).model()
        self.oracle = Oracle(self.model.program.checked, None, {})
        self.params = self.oracle.random_params(3)
        table = self.oracle.probabilities(self.params).ravel()
        parts = self.oracle.decode(self.oracle.states)
        names = [v.name for v in self.model.graph.observed]
        rows = np.concatenate([np.asarray(parts[n]).reshape(len(table), -1) for n in names], axis=1)
        self.events, place = np.unique(rows, axis=0, return_inverse=True)
        self.probabilities = np.bincount(place.ravel(), table)


@pytest.fixture(scope="module", params=thinned([KINDS, TAGS, RING], 2, 1), ids=["kinds", "tags", "ring"])
def enumerated(request: pytest.FixtureRequest) -> Enumerated:
    return Enumerated(request.param)


def test_log_prob_is_normalised_and_sums_latents_out(enumerated: Enumerated, float64: None):
    d = enumerated.model.distribution(enumerated.params)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(d.log_prob(enumerated.events), np.log(enumerated.probabilities), atol=1e-12)
    assert d.event_shape == enumerated.events.shape[1:]
    assert d.batch_shape == ()


def test_draws_follow_the_law(enumerated: Enumerated):
    """Under `jit`, of one key; a chi-square test of the shares of all events, seed chosen before."""
    d = enumerated.model.distribution(enumerated.params)
    drawn = np.asarray(jax.jit(lambda key: d.sample(key, (200, 100)))(jax.random.key(11)))
    assert drawn.shape == (200, 100, *d.event_shape)
    assert (np.asarray(d.sample(jax.random.key(11), (200, 100))) == drawn).all()  # nothing that was traced is kept
    assert jnp.issubdtype(drawn.dtype, jnp.integer)
    found, counts = np.unique(drawn.reshape(20_000, -1), axis=0, return_counts=True)
    place = {tuple(e): k for k, e in enumerate(enumerated.events)}
    seen = np.zeros(len(place))
    seen[[place[tuple(f)] for f in found]] = counts
    assert p_value(seen, enumerated.probabilities) > 1e-3


@pytest.mark.slow
def test_what_is_no_value_has_probability_zero():
    d = Enumerated(RING).model.distribution({"h": 0.1, "J": 0.2})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert d.log_prob(np.array([0, 1, 1, 1])) == -np.inf
        assert d.log_prob(np.array([1.0, 1.0, 1.0, -1.5])) == -np.inf
    assert d.log_prob(np.array([1.0, 1.0, 1.0, -1.0])) == d.log_prob(np.array([1, 1, 1, -1]))
    assert not d.support(np.array([[1, 1, 1, 3], [1, 1, 1, 0]])).any()
    assert d.support(d.support.feasible_like(np.zeros((2, 4), int))).all()
    assert d.support.is_discrete


def test_events_of_several_variables_are_taken_apart_and_put_together():
    case = Enumerated(KINDS)
    d = case.model.distribution(case.params)
    parts = d.unpack(case.events)
    assert {n: a.shape[1:] for n, a in parts.items()} == {"x": (2,), "w": (), "a": (), "k": ()}
    assert (d.pack(parts) == case.events).all()


@pytest.mark.slow
def test_parameters_in_batches_and_maps(float64: None):
    case = Enumerated(RING)
    h, J = np.array([0.3, -0.2, 0.0]), np.array([0.4, 0.1, -0.5])
    expected = np.stack([case.model.distribution({"h": a, "J": b}).log_prob(case.events) for a, b in zip(h, J, strict=True)])
    d = case.model.distribution({"h": h, "J": J})
    assert d.batch_shape == (3,)
    np.testing.assert_allclose(d.log_prob(case.events[:, None]).T, expected, atol=1e-12)
    mapped = jax.vmap(lambda a, b: case.model.distribution({"h": a, "J": b}).log_prob(case.events))(h, J)
    np.testing.assert_allclose(mapped, expected, atol=1e-12)
    through = jax.vmap(lambda one: one.log_prob(case.events))(d)  # the distribution itself is a pytree of its parameters
    np.testing.assert_allclose(through, expected, atol=1e-12)
    assert d.sample(jax.random.PRNGKey(0), (5, 2)).shape == (5, 2, 3, 4)
    one = case.model.distribution({"h": h, "J": 0.1})
    np.testing.assert_allclose(one.log_prob(case.events[1])[2], case.model.log_prob({"h": 0.0, "J": 0.1}, case.events[1]), atol=1e-12)


@pytest.mark.slow
def test_each_member_of_a_batch_is_drawn_by_its_own_parameters():
    """Fields so strong that a draw shows whose it is."""
    d = Enumerated(RING).model.distribution({"h": np.array([9.0, -9.0, 9.0]), "J": np.zeros(3)})
    drawn = d.sample(jax.random.key(1), (6,))
    assert (drawn == np.array([1, -1, 1])[None, :, None]).all()


@pytest.mark.slow
def test_rows_of_given_data_are_a_batch(float64: None):
    case = Rows(GIVEN, {"y": np.random.default_rng(2).normal(size=(ROWS, 2))})
    d = case.model.distribution(case.params, given=case.given)
    assert d.batch_shape == (ROWS,)
    expected = [o.log_prob(case.params, c) for o, c in zip(case.oracles, case.codes, strict=True)]
    np.testing.assert_allclose(d.log_prob(case.x), np.ravel(expected), atol=1e-12)
    once = case.model.distribution(case.params, given={"y": case.given["y"][1]})
    np.testing.assert_allclose(once.log_prob(case.x[1]), expected[1], atol=1e-12)
    drawn = d.sample(jax.random.key(4), (4000,))
    law = np.stack([o.probabilities(case.params).ravel() for o in case.oracles])
    place = (drawn + 1) // 2 @ np.array([2, 1])
    for r in range(ROWS):
        assert p_value(np.bincount(place[:, r], minlength=4), law[r]) > 1e-4


@pytest.mark.slow
def test_nuts_finds_the_exact_posterior_in_a_plate(float64: None):
    """Posterior means of h and J against quadrature on a grid, within four of their own Monte Carlo errors."""
    model = Enumerated(RING).model
    x = model.distribution({"h": 0.2, "J": 0.3}).sample(jax.random.key(5), (40,))

    def program(x: jax.Array | None = None) -> None:
        h, J = numpyro.sample("h", dist.Normal(0, 1)), numpyro.sample("J", dist.Normal(0, 1))
        with numpyro.plate("rows", 40):
            numpyro.sample("x", model.distribution({"h": h, "J": J}), obs=x)

    mcmc = MCMC(NUTS(program), num_warmup=300, num_samples=1500, progress_bar=False)
    mcmc.run(jax.random.key(6), x=x)
    draws = mcmc.get_samples()
    grid = np.linspace(-1.5, 1.5, 61)
    at = {"h": np.repeat(grid, 61), "J": np.tile(grid, 61)}
    log = np.asarray(jax.vmap(lambda p: model.distribution(p).log_prob(x).sum())(at)) - 0.5 * (at["h"] ** 2 + at["J"] ** 2)
    weight = np.exp(log - log.max())
    for name in ("h", "J"):
        mean = (weight * at[name]).sum() / weight.sum()
        error = draws[name].std() / np.sqrt(numpyro.diagnostics.effective_sample_size(np.asarray(draws[name])[None]))
        assert abs(draws[name].mean() - mean) < 4 * error
    predicted = Predictive(program, posterior_samples={k: v[:7] for k, v in draws.items()})(jax.random.key(8))
    assert predicted["x"].shape == (7, 40, 4)
    assert set(np.unique(predicted["x"])) == {-1, 1}


def test_what_costs_too_much_is_refused_with_the_cost():
    large = "model m {{\n  var x[i in range(60)] : bit\n  {}factor x[i] * x[j] for i in range(60) for j in range(60) if i < j\n}}\n"
    refused("E601", lambda: gm.parse(large.format("")).model().distribution({}), "log Z of a distribution")
    ring = Enumerated(RING).model
    refused("E506", lambda: ring.distribution({"h": 0.1}), "J")
    refused("E501", lambda: ring.distribution({"h": np.zeros(2), "J": np.zeros(3)}), "do not fit")
    with_y = gm.parse(GIVEN).model()
    refused("E510", lambda: with_y.distribution({"h": 0.1, "b": np.zeros(3)}, given={"y": np.zeros((2, 2))}), "batch")
    net = gm.parse("network net = mlp(width = 2)\nmodel m { var x[i in range(2)] : bit  conditional x ~ net() }").model()
    refused("E742", lambda: net.distribution({}), "no joint")
