"""Corners where a wrong answer would be silent: picked lets, untaken branches, large integers, supports, normalised models."""

from __future__ import annotations

from inspect import signature
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import Oracle

import gmlmdsl as gm
from gmlmdsl.graph._arithmetic import OPERATORS
from gmlmdsl.program import OPERATORS as ON_NUMBERS

pytestmark = pytest.mark.usefixtures("standard_promotion")


def test_a_let_picked_by_a_cell_counts_once_where_it_does_not_vary() -> None:
    text = """
    model m {
      var k : range(3)
      var x[i in range(3)] : bit
      param h
      let c[t in range(3)] = x[0]
      let d[t in range(3)] = h
      let e[t in range(3)] = 2
      factor c[k] + d[k] + e[k]
    }"""
    program = gm.parse(text)
    oracle = Oracle(program.checked, "m", {})
    with jax.enable_x64(True):
        x = {"k": oracle.states[:, 0], "x": oracle.states[:, 1:]}
        found = program.model().log_potential({"h": 0.5}, x)
    np.testing.assert_allclose(found, oracle.states[:, 1] + 2.5, atol=1e-12)


def test_a_branch_that_nobody_takes_leaves_the_gradient_finite() -> None:
    model = gm.parse(
        "model m { var k : range(3) param b : positive factor if k > 0 then log(b * k) else 0 } mask a = everything(k)"
    ).model()
    with jax.enable_x64(True):
        gradient = jax.grad(lambda b: model.loss({"b": b}, np.array([0, 1, 2]), "a"))(jnp.asarray(1.5))
    # log Z = log(1 + b + 2 b), two of three rows hold log b.
    assert float(gradient) == pytest.approx(3 / (1 + 3 * 1.5) - 2 / 3 / 1.5, abs=1e-12)


def test_products_of_large_whole_numbers_do_not_wrap() -> None:
    text = "input w[2] : int model m { var k[i in range(2)] : range(3) factor 0.000000001 * (w[i] * k[i]) for i in range(2) }"
    model = gm.parse(text, w=[2_000_000_000, 3_000_000_000]).model()
    np.testing.assert_allclose(model.log_potential({}, [[2, 0], [0, 1], [1, 1]]), [4, 3, 5], rtol=1e-6)


SUPPORT = """
model m { var x[i in range(6)] : spin  param h  factor h * x[i] for i in range(6) }
mask few given x { each x[i] for i in range(6) rate if i < 2 then sigmoid(0.3 * x[i]) else 0 }
mask listed given x { choose {x[i]} for i in range(6) weight if i < 3 then 1 + x[i] * x[i] else 0 }
mask null = mixture { 1 : subsets(x, size = 1)  0 : bernoulli(x, rate = 0.5) }
mask twice = mixture { 1 : subsets(x, size = 2)  1 : subsets(x, size = 2) }
"""


@pytest.mark.parametrize(("mask", "reached", "support"), [("few", 2, 4), ("listed", 3, 3), ("null", 6, 6), ("twice", 6, 15)])
def test_what_a_mask_cannot_draw_is_not_in_its_support(mask: str, reached: int, support: int) -> None:

    model = gm.parse(SUPPORT).model()
    lowered = model.mask(mask)[1]
    assert len(lowered.reach) == reached
    assert lowered.support_size == support


@pytest.mark.slow
def test_the_constant_of_an_adaptive_mask_does_not_depend_on_drawn_masks() -> None:
    program = gm.parse(SUPPORT)
    oracle = Oracle(program.checked, "m", {})
    codes = oracle.states[[3, 17, 40]]
    model = program.model()
    fit = model.fit(2 * codes - 1, mask="few", n_masks=2, seed=5)
    constant = fit.meta["reached"] / fit.meta["mean_block_size"]
    assert constant == pytest.approx(oracle.fit_constant({}, codes, "few"), rel=1e-6)


def test_a_model_of_laws_has_log_partition_zero() -> None:
    text = """
    model m {
      var z[t in range(30)] : range(3)
      param first[a in range(3)] : simplex
      param move[a in range(3), b in range(3)] : simplex
      z[0] ~ categorical(first)
      z[t] ~ categorical(move[z[t - 1]]) for t in range(30) if t > 0
    }"""
    model = gm.parse(text).model()
    assert float(model.log_partition(model.init_params())) == 0.0


@pytest.mark.slow
def test_steps_that_go_nowhere_are_not_called_converged() -> None:
    import optax

    model = gm.parse(
        "model m { var x[i in range(2)] : bit param h factor h * x[i] for i in range(2) } mask a = subsets(x, size = 1)"
    ).model()
    rows = np.array([[1, 1], [1, 1], [0, 1]])
    assert model.fit(rows, optimizer=optax.sgd(0.0), max_steps=3).status.code == "not-converged"
    assert model.fit(rows, optimizer=optax.adam(0.1), max_steps=600).status.converged


@pytest.mark.parametrize("options", [{"max_steps": 0}, {"seed": -1}, {"optimizer": "adam"}, {"batch_size": 2}])
def test_options_that_mean_nothing_are_refused(options: dict[str, object]) -> None:
    model = gm.parse(
        "model m { var x[i in range(2)] : bit param h factor h * x[i] for i in range(2) } mask a = subsets(x, size = 1)"
    ).model()
    with pytest.raises(gm.GmlmError) as caught:
        model.fit(np.array([[0, 1], [1, 0]]), **options)  # type: ignore[arg-type]
    assert caught.value.codes == ("E507",)


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_an_operator_gives_the_same_on_the_truth_values_of_python_as_on_those_of_numpy(operator: str) -> None:
    known = ON_NUMBERS.get(operator)
    count = 1 + (operator != "not") if known is None else len(signature(known.array).parameters) - 1
    with np.errstate(all="ignore"):
        for operands in product((False, True), repeat=count):
            np.testing.assert_equal(OPERATORS[operator](*operands), OPERATORS[operator](*map(np.asarray, operands)))


def test_a_weight_may_be_a_comparison_of_truth_values() -> None:
    text = """
    model m {{ var x[i in range(2)] : bit  var b[j in range(2)] : bit  param h  factor h * x[0] * b[1] }}
    mask written for m given b {{ choose {{x[i]}} for i in range(2) weight {weight} }}"""
    x = {"x": np.array([[1, 0]]), "b": np.array([[1, 1]])}
    losses = [
        gm.parse(text.format(weight=w)).model().loss({"h": 0.5}, x, "written")
        for w in ("(b[i] == true)", "b[i]", "b[i] + 0 * (true == false)")
    ]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-6)
