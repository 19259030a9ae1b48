"""What users get wrong with posteriors: an error with a code and a cure, where NumPyro, JAX or Python would raise one without a word."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import handlers
from numpyro.distributions import Normal
from numpyro.infer.initialization import init_to_uniform
from refusals import refused

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("standard_promotion")
COIN = """
model coin {
  var   x[i in range(3)] : bit
  param h ~ normal(0.5, 1)
  param J
  param r : real(lower = -1, upper = 2)
  param p[a in range(2)] : simplex
  factor h * (x[0] + x[1] + x[2])
  factor J * x[0] * x[1] + r * x[2]
  factor log(p[x[2]])
}
mask single = subsets(size = 1)
sampler turn { update x[i] for i in range(3) }
"""
ROWS = np.array([[0, 1, 1], [1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
POINT = {"h": 0.1, "J": -0.3, "r": 0.2, "p": np.array([0.4, 0.6])}


@cache
def coin() -> Any:
    return gm.parse(COIN).model()


@cache
def likelihood() -> Any:
    return coin().to_numpyro(ROWS, calibrate=None)


def run(params: Any = None, **values: Any) -> Any:
    """The trace of one run by hand."""
    return handlers.trace(handlers.seed(handlers.substitute(likelihood(), values), 0)).get_trace(params)


def test_calls_that_numpyro_only_asserts_against():
    model, values = likelihood(), {"J": jnp.array(0.3)}
    refused("E507", lambda: run(ROWS), "takes a dict of parameters, or nothing; got ndarray", "`mcmc.run(key)`")
    refused("E507", lambda: handlers.substitute(model, values)(), "no key to draw the site `h`", "`numpyro.handlers.seed(model, 0)`")

    def twice() -> None:
        numpyro.sample("h", Normal(0, 1))
        model(values)

    refused("E507", lambda: handlers.trace(handlers.seed(twice, 0)).get_trace(), "two sites", "`h`", "scope")
    refused("E502", lambda: run({"h": "a"}), "params['h'] is not an array of numbers")
    refused("E502", lambda: run({"h": None}), "params['h'] is not an array of numbers")
    refused("E504", lambda: run({"h": np.nan}), "has a NaN")
    refused("E509", lambda: run({"p": np.ones(2)}), "sums to 1")


@pytest.mark.slow
def test_a_flat_site_says_that_there_is_nothing_to_draw_and_a_bounded_one_is_drawn():
    refused("E507", lambda: run(), "nothing to draw `J` from", "it has no prior", "substitute")
    trace = run(J=0.3)
    assert -1 < trace["r"]["value"] < 2
    np.testing.assert_allclose(trace["p"]["value"].sum(), 1, rtol=1e-6)
    started = handlers.trace(handlers.substitute(handlers.seed(likelihood(), 0), substitute_fn=init_to_uniform)).get_trace()
    assert np.isfinite(started["J"]["value"])  # kernels start it by themselves


def test_rows_at_a_batch_are_those_at_its_members():
    """Draws by chain with what a site on a basis adds to them; a parameter that lacks is not taken from anywhere."""
    model, rng = likelihood(), np.random.default_rng(0)
    batch = {k: v + 0.1 * rng.normal(size=(2, 3, *np.shape(v))) for k, v in POINT.items() if k != "p"} | {"p": POINT["p"]}
    found = model.log_likelihood(batch)
    assert found.shape == (2, 3, 5)
    alone = model.log_likelihood({k: v[1, 2] for k, v in batch.items() if k != "p"} | {"p": POINT["p"]})
    np.testing.assert_allclose(found[1, 2], alone, rtol=1e-5)
    refused("E506", lambda: model.log_likelihood({k: v for k, v in POINT.items() if k != "J"}), "params lacks `J`")
    refused("E506", lambda: model.log_likelihood(POINT | {"K": 1}), "no parameter `K`")
    refused("E507", lambda: model.log_likelihood(None), "must be a dict of arrays", "by name: {'h': ..")
    refused("E501", lambda: model.log_likelihood(POINT | {"h": np.zeros(2), "J": np.zeros(3)}), "do not fit one another")
    refused("E501", lambda: model.log_likelihood(POINT | {"p": np.ones(3)}), "must have shape (2,), or a batch before it")


def test_options_that_are_none():
    refused("E507", lambda: coin().to_numpyro(ROWS, calibrate="Curvature"), 'did you mean "curvature"?')
    refused("E507", lambda: coin().to_numpyro(ROWS, calibrate=["curvature"]), "None draws from the loss as it is")
    refused("E507", lambda: coin().to_numpyro(ROWS, sampler="turn"), "nothing is simulated", '`calibrate="simulated"`')
    refused("E507", lambda: coin().numpyro_kernel("turn", params={"h": 1}), "must be a function", "lambda sites: params")
    refused("E507", lambda: gm.inclusion({"J": 1}), "draws for ArviZ, got dict", "`gm.inclusion(model.posterior(")


def test_events_that_do_not_fit():
    law = coin().distribution(POINT)
    refused("E501", lambda: law.log_prob(np.zeros((4, 2), int)), "an event has shape (3,), or axes before it, got (4, 2)")
    refused("E502", lambda: law.log_prob({"x": ROWS}), "got a dict by variable", "`pack`")
    refused("E507", lambda: law.sample(None), "takes a key", "`jax.random.key(0)`")
    refused("E507", lambda: law.sample(0), "takes a key", "`jax.random.key(0)`")
    refused("E506", lambda: law.pack({"y": ROWS}), "pack takes a dict of `x`")
    two = coin().distribution(POINT | {"h": np.zeros(2)})
    refused("E501", lambda: two.log_prob(np.zeros((3, 3), int)), "do not fit the batch of the distribution, (2,)")
    refused("E502", lambda: coin().distribution(POINT | {"h": "a"}), "not an array of numbers")
    assert law.sample(jax.random.key(0)).shape == (3,)
