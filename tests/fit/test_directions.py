"""Second derivatives and scores where no table of local statistics gives them: one program, for all rows of a chain."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from events import traced_or_compiled

import gmlmdsl as gm
from gmlmdsl.derive import Chunks
from gmlmdsl.evaluate import flatten, unflatten
from gmlmdsl.fit import reopen
from gmlmdsl.fit._inference import _by_directions, curvature

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")
TAGGER = """
index place = range(3)
model tagger {
  given word[t in place] : range(3)
  var   tag[t in place]  : range(2)
  param means[a in range(2), w in range(3)] ~ normal(0, 1)
  param moves[a in range(2), b in range(2)] ~ normal(0, 2)
  factor means[tag[t], word[t]]    for t in place
  factor moves[tag[t], tag[t + 1]] for t in place if t < 2
}
mask whole = everything(tag)
"""
rng = np.random.default_rng(4)
TAGS, WORDS = rng.integers(0, 2, (48, 3)), rng.integers(0, 3, (48, 3))
WEIGHTS = rng.integers(0, 4, 48)


def fitted(rows: int = 48, **options: Any) -> gm.Fit:
    model = gm.parse(TAGGER).model(plan="elimination")
    return model.fit(TAGS[:rows], "whole", given={"word": WORDS[:rows]}, progress=False, **options)


def by_rows(objective: Any, vector: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of every row's loss, and its Hessian, by automatic differentiation of each row alone."""

    def loss(v: jax.Array, codes: jax.Array) -> jax.Array:
        return objective.rows(unflatten(objective.frame.host, v), codes[:, None], None)[0]

    slopes = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 1)))(vector, objective.codes)
    bends = jax.jit(jax.vmap(jax.hessian(loss), in_axes=(None, 1)))(vector, objective.codes)
    return np.asarray(slopes), np.asarray(bends)


@pytest.mark.slow
def test_sums_over_rows_are_those_of_rows_alone():
    """In chunks, in some directions, of rows whose weights count."""
    fit = fitted(weights=WEIGHTS, weights_are="counts", max_steps=2)
    objective, colours = reopen(fit.evidence, fit.params)
    assert colours is None
    rows = objective.codes.shape[1]
    objective = dataclasses.replace(objective, chunks=Chunks(rows // 4), factor=jnp.asarray(1.7))
    vector = jnp.asarray(flatten(objective.frame.host, fit.params))
    basis = np.linalg.qr(rng.normal(size=(len(vector), 3)))[0]
    weights, c = np.asarray(objective.weights), float(objective.factor)
    spread = np.where(weights > 0, 1 / np.sqrt(np.maximum(weights, 1)), 0.0)
    spread[5] = 0.0
    slopes, bends = by_rows(objective, vector)
    u = c * weights[:, None] * (slopes @ basis)
    hessian, second, first = _by_directions(objective, vector, jnp.asarray(basis), jnp.asarray(spread))
    np.testing.assert_allclose(hessian, basis.T @ np.tensordot(c * weights, bends, 1) @ basis, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(second, (u * spread[:, None]).T @ (u * spread[:, None]), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(first, u[spread > 0].sum(axis=0), rtol=1e-9, atol=1e-9)
    found = curvature(objective, objective.held, None, counts=True)
    again = np.repeat(slopes, weights.astype(int), axis=0) @ found.basis
    expected = c**2 * len(again) * np.cov(again, rowvar=False, bias=True)
    np.testing.assert_allclose(found.score, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow  # test_first_calls.py counts those of a fit
def test_a_chain_compiles_few_programs_and_like_fits_none():
    """Of the program parsed anew; and all replicates share one program."""
    with traced_or_compiled() as events:
        first = fitted(40)
        assert first.status.code == "converged"
        assert sum("backend_compile" in e for e in events) <= 4
        events.clear()
        second = fitted(40)
        assert second.status.code == "converged" and len(second.summary())
        assert not [e for e in events if "backend_compile" in e]
        second.bootstrap(3, progress=False)
        assert sum("backend_compile" in e for e in events) <= 1
        events.clear()
        second.bootstrap(3, seed=1, progress=False)
        assert not [e for e in events if "backend_compile" in e]
