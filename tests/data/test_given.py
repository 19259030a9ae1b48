"""Given variables: covariates that come with each row, in every domain and every verb, against one oracle for each row."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from given_cases import CASES, ROWS, Rows
from oracle import numerical_gradient
from thinned import thinned

import gmlmdsl as gm

EXACT = {"rtol": 1e-9, "atol": 1e-9}
MASKS = [
    (name, m)
    for name, masks in (("fields", ("single", "pairs", "whole", "leaning", "agreeing", "noisy")), ("laws", ("one",)))
    for m in masks
]
MASKS += [("hard", "one"), ("hard", "two"), ("same", "two")]


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Rows:
    return CASES[request.param]


def per_row(case: Rows, f: Any) -> np.ndarray:
    return np.array([f(o, case.codes[r]) for r, o in enumerate(case.oracles)])


@pytest.mark.usefixtures("float64")
class TestAgainstOneOraclePerRow:
    def test_log_potential(self, case: Rows):
        found = case.model.log_potential(case.params, case.x, given=case.given)
        np.testing.assert_allclose(found, per_row(case, lambda o, c: o.log_potential(case.params, c)), **EXACT)

    def test_log_partition_is_one_number_for_each_row(self, case: Rows):
        found = np.asarray(case.model.log_partition(case.params, given=case.given))
        expected = np.array([o.log_partition(case.params) for o in case.oracles])
        assert found.shape == (() if case is CASES["same"] else (ROWS,))
        np.testing.assert_allclose(np.broadcast_to(found, ROWS), expected, **EXACT)

    def test_log_prob(self, case: Rows):
        found = case.model.log_prob(case.params, case.x, given=case.given)
        np.testing.assert_allclose(found, per_row(case, lambda o, c: o.log_prob(case.params, c)), **EXACT)

    @pytest.mark.parametrize("k", thinned([pytest.param(k) for k in ((0,), (1, 2), (0, 2))], 2, 1))
    def test_log_conditional(self, case: Rows, k: tuple[int, ...]):
        found = case.model.log_conditional(case.params, case.x, K=k, given=case.given)
        np.testing.assert_allclose(found, per_row(case, lambda o, c: o.log_conditional(case.params, c, k)), **EXACT)

    @pytest.mark.parametrize(("k", "mask"), thinned([((0, 1), "agreeing"), ((1,), "leaning"), ((0, 1), "noisy")], 3, 2))
    def test_log_conditional_given_the_block(self, k: tuple[int, ...], mask: str):
        case = CASES["fields"]
        found = case.model.log_conditional(case.params, case.x, K=k, mask=mask, given=case.given)
        np.testing.assert_allclose(found, per_row(case, lambda o, c: o.log_conditional(case.params, c, k, mask)), **EXACT)

    @pytest.mark.parametrize(("name", "mask"), thinned(MASKS, 8))
    def test_loss_and_its_gradient(self, name: str, mask: str):
        case, weights = CASES[name], np.random.default_rng(0).gamma(1.0, 1.0, ROWS)

        def expected(p: dict[str, np.ndarray]) -> float:
            losses = [o.row_losses(p, case.codes[r], mask)[0] for r, o in enumerate(case.oracles)]
            return float(np.average(losses, weights=weights))

        def loss(p: Any) -> jax.Array:
            return case.model.loss(p, case.x, mask, weights=weights, given=case.given)

        value, gradient = jax.jit(jax.value_and_grad(loss))({k: jnp.asarray(v) for k, v in case.params.items()})
        np.testing.assert_allclose(value, expected(case.params), **EXACT)
        for key, exact in numerical_gradient(expected, case.params).items():
            np.testing.assert_allclose(gradient[key], exact, atol=1e-6 * max(1.0, np.abs(exact).max()), err_msg=key)

    @pytest.mark.slow
    @pytest.mark.parametrize("mask", thinned(["pairs", "leaning"], 2, 1))
    def test_missing_cells_beside_given_data(self, mask: str):
        case = CASES["fields"]
        codes = case.codes.copy()
        codes[0, 1] = codes[2, 0] = codes[2, 3] = codes[5, 2] = -1
        x = {
            k: np.where(codes[:, o] < 0, -9, v) for (k, v), o in zip(case.values(np.maximum(codes, 0)).items(), ([0, 1, 2], 3), strict=True)
        }
        losses = [o.row_losses(case.params, codes[r], mask)[0] for r, o in enumerate(case.oracles)]
        np.testing.assert_allclose(case.model.loss(case.params, x, mask, missing=-9, given=case.given), np.mean(losses), **EXACT)
        log_p = [o.log_prob(case.params, codes[r]) for r, o in enumerate(case.oracles)]
        np.testing.assert_allclose(case.model.log_prob(case.params, x, missing=-9, given=case.given), log_p, **EXACT)

    @pytest.mark.parametrize(
        ("name", "sampler"), thinned([("fields", "drawn"), ("fields", "seen"), ("hard", "pairs"), ("hard", "sweep")], 4, 3)
    )
    def test_transition_matrix_of_a_row(self, name: str, sampler: str):
        case = CASES[name]
        for r in (1, 2):
            oracle = case.oracles[r]
            found = case.model.transition_matrix(case.params, sampler, given=case.row(r))
            np.testing.assert_allclose(found, oracle.transition_matrix(case.params, sampler), atol=1e-9)
            pi = oracle.probabilities(case.params)
            np.testing.assert_allclose(pi @ found, pi, atol=1e-12)

    @pytest.mark.slow
    def test_a_sweep_keeps_p(self):
        """Its order is that of all rows: a factor touches every cell that some given value makes it read."""
        case = CASES["fields"]
        found, pi = case.model.transition_matrix(case.params, "gibbs", given=case.row(0)), case.oracles[0].probabilities(case.params)
        np.testing.assert_allclose(pi @ found, pi, atol=1e-12)
        assert case.model.sampler_bias(case.params, "gibbs", given=case.row(0)) < 1e-9


def test_rows_keep_their_data_in_any_order(float64: None):
    case, order = CASES["fields"], np.array([3, 0, 5, 1, 4, 2])
    x = {k: v[order] for k, v in case.x.items()}
    given = {k: np.asarray(v)[order] for k, v in case.given.items()}
    mixed = case.model.log_prob(case.params, x, given=given)
    np.testing.assert_allclose(mixed, np.asarray(case.model.log_prob(case.params, case.x, given=case.given))[order], **EXACT)


def test_several_axes_of_rows(float64: None):
    case = CASES["fields"]
    x = {k: v.reshape(2, 3, *v.shape[1:]) for k, v in case.x.items()}
    given = {k: np.asarray(v).reshape(2, 3, *np.shape(v)[1:]) for k, v in case.given.items()}
    flat = np.asarray(case.model.log_prob(case.params, case.x, given=case.given))
    np.testing.assert_allclose(case.model.log_prob(case.params, x, given=given), flat.reshape(2, 3), **EXACT)


def test_letters_as_codes_and_as_strings():
    case = CASES["fields"]
    texts = np.asarray(case.given["a"])
    codes = np.searchsorted(list("ACGT"), texts)
    values = [case.model.log_prob(case.params, case.x, given={**case.given, "a": a}) for a in (texts, codes, ["".join(t) for t in texts])]
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])


# Sampling


@pytest.mark.slow
def test_chains_follow_the_row(float64: None):
    case, r = CASES["hard"], 2
    draws = np.asarray(case.model.sample(case.params, "pairs", draws=2000, chains=8, seed=1, given=case.row(r)).posterior["x"])
    assert draws.shape == (8, 2000, 3)
    assert (draws.sum(axis=-1) <= case.given["most"][r]).all()
    oracle = case.oracles[r]
    exact = np.exp(oracle.log_prob(case.params, oracle.states)) @ oracle.states
    np.testing.assert_allclose(draws.mean(axis=(0, 1)), exact, atol=0.02)


@pytest.mark.slow
def test_clamped_cells_and_lets_of_given_variables(float64: None):
    case = CASES["fields"]
    row = case.row(1)
    found = case.model.sample(case.params, "gibbs", draws=200, warmup=5, chains=4, clamp={"x": {1: 1}}, observe=["warm"], given=row)
    assert (np.asarray(found.posterior["x"])[..., 1] == 1).all()
    expected = row["t"] / (1 + np.exp(-row["y"]))
    np.testing.assert_allclose(found.posterior["warm"], np.broadcast_to(expected, (4, 200, 3)), rtol=1e-6)


@pytest.mark.slow
def test_a_start_obeys_what_the_row_requires():
    case = CASES["hard"]
    with pytest.raises(gm.GmlmError, match="probability zero"):
        case.model.sample(case.params, "pairs", draws=500, init=[1, 1, 1], given=case.row(0))
    case.model.sample(case.params, "pairs", draws=500, init=[1, 1, 1], given=case.row(1))
