"""Fits with a simplex, on ways that scale or hold parameters: against closed forms."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.evaluate._parameters import bijection, unconstrained_moves

pytestmark = pytest.mark.usefixtures("standard_promotion")

LAWS = """
domain kind = labels("a", "b", "c")
model laws {
  var z[i in range(2)] : kind
  param w[v in kind] : simplex ~ dirichlet(2)
  z[i] ~ categorical(w) for i in range(2)
}
mask all = everything()
"""
BESIDE = """
domain kind = labels("a", "b", "c")
model beside {
  var z : kind
  var x[i in range(3)] : bit
  param w[v in kind] : simplex ~ dirichlet(2)
  param h[i in range(3)] ~ laplace(0, 0.05)
  z ~ categorical(w)
  factor h[i] * x[i] for i in range(3)
}
mask all = everything()
"""
PARAMETERS = """
model m {
  var x : bit
  param rows[i in range(2), k in range(3)] : simplex
  param one[k in range(1)] : simplex
  param scale : positive
  param share : real(lower = -1, upper = 2)
  factor (rows[0, 0] + one[0] + scale + share) * x
}
"""


@pytest.mark.usefixtures("float64")
@pytest.mark.slow
def test_moves_of_unconstrained_arrays_move_the_parameters_as_asked(rng: np.random.Generator):
    for p in gm.parse(PARAMETERS).model().graph.parameters:
        length = (*p.shape[:-1], p.shape[-1] - 1) if p.kind == "simplex" else p.shape
        free = rng.normal(0, 1, length)
        moves = rng.normal(0, 1, (p.size, 4))
        if p.kind == "simplex":
            rows = moves.reshape(-1, p.shape[-1], 4)
            moves = (rows - rows.mean(axis=1, keepdims=True)).reshape(p.size, 4)
        found = unconstrained_moves(p, free, moves, 1e-6)
        to = bijection(p)
        moved = jax.jit(lambda at, by, to=to: jax.jvp(to, (at,), (by,))[1])
        for k in range(4):
            reached = moved(jax.numpy.asarray(free), jax.numpy.asarray(found[:, k].reshape(length)))
            np.testing.assert_allclose(np.ravel(reached), moves[:, k], atol=1e-12)


@pytest.mark.slow
def test_monte_carlo_em_finds_the_frequencies_of_what_is_seen():
    rng = np.random.default_rng(3)
    z = rng.choice(3, size=(150, 2), p=[0.6, 0.3, 0.1])
    z[rng.random(z.shape) < 0.3] = -1
    fit = gm.parse(LAWS).model().fit(z, missing=-1, method=gm.MonteCarloEM(copies=10, rounds=100), progress=False)
    seen = np.bincount(z[z >= 0], minlength=3) + 1  # a dirichlet of 2 counts as one more of each
    expected = seen / seen.sum()
    error = np.sqrt(expected * (1 - expected) / seen.sum())
    assert fit.status.converged, fit.status
    assert (np.abs(fit.params["w"] - expected) < 0.2 * error).all()


@pytest.mark.slow
def test_laplace_priors_beside_a_simplex_hold_and_shrink_as_alone():
    rng = np.random.default_rng(4)
    n = 200
    z, x = rng.choice(3, size=n, p=[0.6, 0.3, 0.1]), (rng.random((n, 3)) < [0.5, 0.55, 0.9]).astype(int)
    fit = gm.parse(BESIDE).model().fit({"z": z, "x": x}, progress=False)
    assert fit.status.converged, fit.status
    np.testing.assert_allclose(fit.params["w"], (np.bincount(z) + 1) / (n + 3), atol=1e-6)
    pull = x.sum(axis=0) - n / 2  # of the likelihood at 0, against 1 / 0.05
    held = np.abs(pull) <= 20
    assert held.tolist() == [True, True, False]
    chance = np.where(held, 0.5, (x.sum(axis=0) - 20 * np.sign(pull)) / n)
    np.testing.assert_allclose(fit.params["h"], np.log(chance / (1 - chance)), atol=1e-5)
