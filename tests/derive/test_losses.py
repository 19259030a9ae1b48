"""The weighted pseudolikelihood loss and its gradient, for every mask, against enumeration."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import BY_NAME, Case, masks_of
from oracle import numerical_gradient
from thinned import thinned

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("float64")
EXACT = {"rtol": 1e-9, "atol": 1e-9}


def close_gradients(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    """Equal to 1e-6 of the largest entry: central differences of step 1e-5 have an error near 1e-9."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-6 * max(1.0, np.abs(value).max(initial=0)), err_msg=name)


@pytest.mark.check
@pytest.mark.parametrize(("case", "mask"), thinned(masks_of(), 36, 18), ids=lambda v: str(v))
def test_weighted_loss_and_its_gradient(case: Case, mask: str):
    x, weights = case.values(case.rows), np.random.default_rng(0).gamma(1.0, 1.0, len(case.rows))
    params = {k: jnp.asarray(v) for k, v in case.params.items()}
    loss = jax.value_and_grad(lambda p: case.model.loss(p, x, mask, weights=weights))
    value, gradient = jax.jit(loss)(params)
    np.testing.assert_allclose(value, case.oracle.loss(case.params, case.rows, mask, weights), **EXACT)
    expected = numerical_gradient(lambda p: case.oracle.loss(p, case.rows, mask, weights), case.params)
    close_gradients({k: np.asarray(v) for k, v in gradient.items()}, expected)


@pytest.mark.parametrize(("case", "mask"), thinned(masks_of("weather", "lattice", "log_zero"), 24, 13), ids=lambda v: str(v))
def test_unweighted_loss(case: Case, mask: str):
    found = case.model.loss(case.params, case.values(case.rows), mask)
    np.testing.assert_allclose(found, case.oracle.loss(case.params, case.rows, mask), **EXACT)


def test_equal_weights_and_none_are_the_same():
    case = BY_NAME["lattice"]
    x = case.values(case.rows)
    np.testing.assert_allclose(
        case.model.loss(case.params, x, "pairs", weights=np.full(12, 3.0)), case.model.loss(case.params, x, "pairs"), rtol=1e-13
    )


def test_the_whole_mask_gives_the_likelihood():
    case = BY_NAME["arcs"]
    log_p = case.oracle.log_prob(case.params, case.rows)
    np.testing.assert_allclose(case.model.loss(case.params, case.values(case.rows), "whole"), -log_p.mean(), **EXACT)


def test_a_block_is_scored_jointly_and_not_per_cell():
    """Two cells that always agree: the joint loss is log 2, the sum of the single ones 0, the product of marginals 2 log 2."""
    text = "model m { var a : bit  var b : bit  require a == b }\nmask both = everything()\nmask one = subsets(size = 1)"
    model = gm.parse(text).model()
    x = {"a": [0, 1], "b": [0, 1]}
    np.testing.assert_allclose(model.loss({}, x, "both"), np.log(2), rtol=1e-14)
    np.testing.assert_allclose(model.loss({}, x, "one"), 0, atol=1e-14)


@pytest.mark.parametrize(("case", "mask"), thinned(masks_of("weather", "log_zero", "triples"), 16, 2), ids=lambda v: str(v))
def test_an_impossible_row_loses_infinitely_much(case: Case, mask: str):
    """An impossible row scores infinity under any mask that hides something there, and 0 under one that hides nothing."""
    impossible = case.oracle.states[case.oracle.probabilities(case.params) == 0]
    for row in impossible[:: max(1, len(impossible) // 3)]:
        law = case.oracle.mask_distribution(mask, row, case.params)
        found = case.model.loss(case.params, case.values(row[None]), mask)
        assert found == (np.inf if any(law) else 0.0)


def test_a_row_of_weight_zero_counts_nothing_even_where_it_is_impossible():
    case = BY_NAME["log_zero"]
    impossible = case.oracle.states[case.oracle.probabilities(case.params) == 0][0]
    x = case.values(np.concatenate([case.rows, impossible[None]]))
    found = case.model.loss(case.params, x, "two", weights=np.append(np.ones(12), 0))
    np.testing.assert_allclose(found, case.oracle.loss(case.params, case.rows, "two"), **EXACT)


def test_an_empty_block_scores_nothing():
    case = BY_NAME["log_zero"]
    row = np.array([0, 0, 0, 0])
    assert case.oracle.mask_distribution("none", row) == {frozenset(): 1.0}
    assert case.model.loss(case.params, case.values(row[None]), "none") == 0


@pytest.mark.parametrize(
    ("name", "mask"), thinned([("lattice", "pairs"), ("lattice", "agreeing"), ("weather", "any"), ("lattice", "hot")], 4, 1)
)
def test_drawn_masks_average_to_the_exact_loss(name: str, mask: str):
    """4000 masks per row: within five standard errors of the mean over all masks."""
    case, draws = BY_NAME[name], 4000
    row = case.rows[:1]
    blocks = {k: p for k, p in case.oracle.mask_distribution(mask, row[0], case.params).items() if k}
    tables = [case.oracle.log_conditional(case.params, row[0], sorted(k), mask) for k in blocks]
    losses = np.array([-t[tuple(row[0][sorted(k)])] for k, t in zip(blocks, tables, strict=True)])
    p = np.array(list(blocks.values()))
    exact, spread = p @ losses, np.sqrt(p @ losses**2 - (p @ losses) ** 2)
    np.testing.assert_allclose(case.oracle.loss(case.params, row, mask), exact, rtol=1e-12)
    found = case.model.loss(case.params, case.values(row), mask, key=jax.random.key(7), n_masks=draws)
    assert 0 < abs(float(found) - exact) < 5 * spread / np.sqrt(draws)


def test_a_drawn_loss_is_a_function_of_its_key():
    case = BY_NAME["lattice"]
    x = case.values(case.rows)
    one, again, other = (case.model.loss(case.params, x, "pairs", key=jax.random.key(k), n_masks=2) for k in (0, 0, 1))
    assert one == again
    assert one != other


@pytest.mark.parametrize(("name", "mask"), thinned([("lattice", "pairs"), ("lemma3", "looking")], 2))  # the second has no parameter
@pytest.mark.slow
def test_a_loss_is_compiled_by_the_user_with_masks_drawn_or_not(name: str, mask: str):
    case = BY_NAME[name]
    x, params = case.values(case.rows), {k: jnp.asarray(v) for k, v in case.params.items()}
    for key in (None, 3, jax.random.key(3), jax.random.PRNGKey(3)):
        options = {} if key is None else {"key": key, "n_masks": 2}
        loss = jax.value_and_grad(lambda p, o=options: case.model.loss(p, x, mask, **o))
        for found, expected in zip(*map(jax.tree.leaves, (jax.jit(loss)(params), loss(params))), strict=True):
            np.testing.assert_allclose(found, expected, **EXACT)


def test_too_large_a_support_asks_for_drawn_masks():
    text = "index n = range(30)\nmodel m { var x[i in n] : spin  param h  factor h * x[i] for i in n }\nmask m3 = subsets(x, size = 8)"
    model = gm.parse(text).model()
    x = np.ones((3, 30))
    with pytest.raises(gm.GmlmError, match="5,852,925|5852925|5.85e"):
        model.loss({"h": 0.1}, x)
    drawn = model.loss({"h": 0.1}, x, key=jax.random.key(0), n_masks=3)
    np.testing.assert_allclose(drawn, 8 * np.log1p(np.exp(-0.2)), rtol=1e-12)  # independent spins: each scores alike
    with pytest.raises(gm.GmlmError, match="go together"):
        model.loss({"h": 0.1}, x, n_masks=3)


@pytest.mark.parametrize("weights", [np.ones(3), np.ones((12, 1)), "x", [np.nan] * 12, [-1.0] + [1.0] * 11, np.zeros(12)])
def test_bad_row_weights_are_refused(weights: object):
    case = BY_NAME["lattice"]
    with pytest.raises(gm.GmlmError, match="weights"):
        case.model.loss(case.params, case.values(case.rows), "single", weights=weights)


STEERED = """
model m { var x[i in range(3)] : bit  param h[i in range(3)]  factor h[i] * x[i] for i in range(3)  factor x[0] * x[1] }
mask steered given x { choose {x[i]} for i in range(3) weight exp(h[i]) + x[0] }
mask signed { choose {x[i]} for i in range(3) weight h[i] }
"""


def test_masks_whose_weights_mention_a_parameter_are_drawn_at_its_value():
    model, params = gm.parse(STEERED).model(), {"h": np.array([1.5, -0.5, 0.2])}
    rows = np.array([[1, 0, 1]] * 20_000)
    drawn, exact = (model.loss(params, rows, "steered", **options) for options in ({"key": 1, "n_masks": 1}, {}))
    np.testing.assert_allclose(drawn, exact, rtol=0.02)
    np.testing.assert_allclose(exact, model.loss(params, rows[:1], "steered"), rtol=1e-5)


def test_the_gradient_of_a_loss_of_drawn_masks_that_a_parameter_steers_is_refused():
    model, row = gm.parse(STEERED).model(), np.array([[1, 0, 1]])
    with pytest.raises(gm.GmlmError, match="E702.*the gradient of their loss"):
        jax.grad(lambda h: model.loss({"h": h}, row, "steered", key=1, n_masks=2))(jnp.ones(3))


def test_weights_that_a_parameter_makes_negative_are_refused():
    model, row = gm.parse(STEERED).model(), np.array([[1, 0, 1]])
    for options in ({}, {"key": 1, "n_masks": 2}):
        with pytest.raises(gm.GmlmError, match="E409.*-0.5"):
            model.loss({"h": np.array([1.5, -0.5, 0.2])}, row, "signed", **options)
