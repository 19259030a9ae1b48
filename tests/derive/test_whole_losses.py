"""Losses of masks that take all that is observed: log p itself, by elimination, against sums over all configurations."""

from __future__ import annotations

from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.derive import EliminatedLoss, exact_loss, graph_arrays
from gmlmdsl.evaluate import _named_conditionals

Array = np.ndarray
HMM = """
index t = range(4)
model hmm {
  var x[i in t] : range(3)
  latent z[i in t] : range(2)
  param first[a in range(2)] : simplex
  param step[a in range(2), b in range(2)] : simplex
  param emit[a in range(2), v in range(3)] : simplex
  z[0] ~ categorical(first)
  z[i] ~ categorical(step[z[i - 1]]) for i in t if i > 0
  x[i] ~ categorical(emit[z[i]]) for i in t
}
mask all = everything(x)
mask pair = blocks({x[0], x[1]})
"""
CHAIN = """
index t = range(11)
model chain {
  var x[i in t] : spin
  param h
  param J[i in t]
  factor h * x[i] for i in t
  factor J[i] * x[i] * x[i - 1] for i in t if i > 0
  require not (x[0] == 1 and x[1] == 1)
}
mask all = everything(x)
"""
LAWS = """
index t = range(11)
model chain {
  var x[i in t] : bit
  param first[a in range(2)] : simplex
  param step[a in range(2), b in range(2)] : simplex
  x[0] ~ categorical(first)
  x[i] ~ categorical(step[x[i - 1]]) for i in t if i > 0
}
mask all = everything(x)
"""
FIRST, STEP = np.array([0.3, 0.7]), np.array([[0.9, 0.1], [0.4, 0.6]])
EMIT = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
PARAMS = {"first": FIRST, "step": STEP, "emit": EMIT}


def joint(x: tuple[int, ...]) -> float:
    """p(x) of the hidden Markov model: a sum over all paths."""
    total = 0.0
    for z in product(range(2), repeat=4):
        p = FIRST[z[0]] * np.prod([STEP[z[i - 1], z[i]] for i in range(1, 4)])
        total += p * np.prod([EMIT[a, v] for a, v in zip(z, x, strict=True)])
    return total


def marginal(known: dict[int, int]) -> float:
    """p of some cells."""
    return sum(joint(x) for x in product(range(3), repeat=4) if all(x[k] == v for k, v in known.items()))


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def test_all_that_is_observed_of_a_product_of_laws_is_its_log_probability() -> None:
    rows = [(0, 1, 2, 2), (2, 2, 0, 1)]
    found = gm.parse(HMM).model().loss(PARAMS, rows, mask="all")
    assert float(found) == pytest.approx(-np.mean([np.log(joint(x)) for x in rows]), abs=1e-12)


def test_cells_that_are_missing_too_are_summed_out() -> None:
    found = gm.parse(HMM).model().loss(PARAMS, [(0, 9, 2, 2)], mask="all", missing=9)
    assert float(found) == pytest.approx(-np.log(marginal({0: 0, 2: 2, 3: 2})), abs=1e-12)


def given_path(x: tuple[int, ...], z: tuple[int, ...], known: tuple[int, ...]) -> float:
    """p(x_known | z): of emissions alone."""
    return float(np.prod([EMIT[z[i], x[i]] for i in known]))


def test_latents_that_some_rows_hold_are_given_there_whatever_other_rows_lack() -> None:
    """One row holds its path and lacks a cell, another lacks its path: they are summed together."""
    model, z = gm.parse(HMM).model(), (0, 1, 1, 0)
    x = np.array([[0, -1, 2, 1], [0, 1, 2, 1], [0, 1, 2, 1]])
    paths = np.array([z, z, (-1, -1, -1, -1)])
    expected = [
        -np.log(given_path((0, 0, 2, 1), z, (0, 2, 3))),
        -np.log(given_path((0, 1, 2, 1), z, (0, 1, 2, 3))),
        -np.log(joint((0, 1, 2, 1))),
    ]
    for k, value in enumerate(expected):
        found = model.loss(PARAMS, {"x": x, "z": paths}, mask="all", missing=-1, weights=np.eye(3)[k])
        assert float(found) == pytest.approx(value, abs=1e-12)


def test_latents_that_all_rows_hold_are_given() -> None:
    """Many cells: their joint values are not listed."""
    text = HMM.replace("range(4)", "range(8)").replace("mask pair = blocks({x[0], x[1]})", "")
    model, rng = gm.parse(text).model(), np.random.default_rng(0)
    x, z = rng.integers(0, 3, (1, 8)), rng.integers(0, 2, (1, 8))
    found = model.loss(PARAMS, {"x": x, "z": z}, mask="all")
    assert float(found) == pytest.approx(-np.log(EMIT[z[0], x[0]]).sum(), abs=1e-12)


def test_a_part_of_what_is_observed_is_conditioned_on_the_rest() -> None:
    found = gm.parse(HMM).model().loss(PARAMS, [(0, 1, 2, 2)], mask="pair")
    assert float(found) == pytest.approx(-np.log(joint((0, 1, 2, 2)) / marginal({2: 2, 3: 2})), abs=1e-12)


def test_a_long_product_of_laws_without_latents_is_not_summed() -> None:
    model = gm.parse(LAWS).model()
    assert isinstance(exact_loss(model.graph, graph_arrays(model.graph), model.mask("all")[1]), EliminatedLoss)
    x = np.random.default_rng(0).integers(0, 2, 11)
    expected = np.log(FIRST[x[0]]) + sum(np.log(STEP[a, b]) for a, b in pairwise(x))
    assert float(model.loss({"first": FIRST, "step": STEP}, x[None], mask="all")) == pytest.approx(-expected, abs=1e-12)


@pytest.mark.slow
def test_a_chain_has_its_log_partition_and_an_impossible_row_an_infinite_loss() -> None:
    model, rng = gm.parse(CHAIN).model(), np.random.default_rng(1)
    h, J = 0.2, rng.normal(size=11)

    def potential(x: Array) -> Array:
        found = h * x.sum(axis=1) + (J[1:] * x[:, 1:] * x[:, :-1]).sum(axis=1)
        return np.where((x[:, 0] == 1) & (x[:, 1] == 1), -np.inf, found)

    every = np.array(list(product([-1, 1], repeat=11)))
    possible, broken = np.where(np.arange(11) % 2, 1, -1)[None], np.ones((1, 11), int)
    expected = np.logaddexp.reduce(potential(every)) - potential(possible)[0]
    loss = exact_loss(model.graph, graph_arrays(model.graph), model.mask("all")[1])
    assert isinstance(loss, EliminatedLoss)
    codes = jnp.asarray(np.concatenate([possible, broken]).T > 0, jnp.int32)
    by_row = loss.rows({"h": jnp.asarray(h), "J": jnp.asarray(J)}, codes)
    np.testing.assert_allclose(np.asarray(by_row), [expected, np.inf], rtol=1e-12)
    assert float(model.loss({"h": h, "J": J}, possible, mask="all")) == pytest.approx(expected, abs=1e-12)
    assert float(model.loss({"h": h, "J": J}, broken, mask="all")) == np.inf


ITEMS = """
index item = range(6)
model items {
  var x[i in item] : range(4)
  var y : bit
  param J[i in item, j in item]
  param b
  factor J[i, j] * x[i] * x[j] for i in item, j in item if i < j
  factor b * y * x[0]
}
mask all = everything()
mask most = everything(x)
"""


def test_a_block_of_all_cells_has_one_sum_for_all_rows() -> None:
    """Its 8,192 joint values are summed once. The sum of a block with a neighbour differs between rows."""
    model, rng = gm.parse(ITEMS).model(), np.random.default_rng(2)
    J, b = rng.normal(size=(6, 6)) / 4, 0.7
    every = np.array(list(product(*[range(4)] * 6, range(2))))

    def potential(rows: Array) -> Array:
        pairs = sum(J[i, j] * rows[:, i] * rows[:, j] for i in range(6) for j in range(i + 1, 6))
        return np.asarray(pairs + b * rows[:, 6] * rows[:, 0])

    rows = every[rng.integers(0, len(every), 5)]
    loss = exact_loss(model.graph, graph_arrays(model.graph), model.mask("all")[1])
    assert isinstance(loss, EliminatedLoss)
    assert loss.row_terms(0, 0) == 1
    expected = np.logaddexp.reduce(potential(every)) - potential(rows)
    by_row = jax.jit(lambda p, x: loss.rows(p, x))({"J": jnp.asarray(J), "b": jnp.asarray(b)}, jnp.asarray(rows.T, jnp.int32))
    np.testing.assert_allclose(np.asarray(by_row), expected, rtol=1e-12)
    beside = exact_loss(model.graph, graph_arrays(model.graph), model.mask("most")[1])
    assert beside.row_terms(0, 0) >= 4**6
    given = np.logaddexp.reduce(np.where((every[:, 6] == rows[:, 6, None]), potential(every), -np.inf), axis=1) - potential(rows)
    found = jax.jit(lambda p, x: beside.rows(p, x))({"J": jnp.asarray(J), "b": jnp.asarray(b)}, jnp.asarray(rows.T, jnp.int32))
    np.testing.assert_allclose(np.asarray(found), given, rtol=1e-12)


def test_an_impossible_row_of_a_product_of_laws_has_an_infinite_loss_by_one_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law with zeros: whether a row is possible is not asked by a second sum of the same cells."""
    emit = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    model, params = gm.parse(HMM).model(), PARAMS | {"emit": emit}
    monkeypatch.setattr(_named_conditionals, "log_completions", None)
    found = float(model.loss(params, [(0, 1, 0, 1)], mask="all"))
    path = FIRST[0] * STEP[0, 1] * STEP[1, 0] * STEP[0, 1]
    assert found == pytest.approx(-np.log(path), abs=1e-12)
    assert float(model.loss(params, [(0, 1, 2, 1)], mask="all")) == np.inf
