"""Exact answers of large models: hidden Markov models, grids and trees, beside textbook algorithms that share no code."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from references import forward_backward as reference
from references.kaufman import CRITICAL, torus
from references.transfer_matrix import ising_log_partition
from thinned import thinned

import gmlmdsl as gm

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning", "ignore::gmlmdsl.SamplingWarning"),
]
Array = np.ndarray
TIME, STATES = 1000, 64

HMM = """
domain char = letters("abcdefghijklmnopqrstuvwxyz .")
input n_tags : int
input width : int
index tag  = range(n_tags)
index time = range(width)
model hmm {
  latent z[t in time] : tag
  var    x[t in time] : char
  param first[a in tag]           : simplex
  param move[a in tag, b in tag]  : simplex
  param emit[a in tag, c in char] : simplex
  z[0] ~ categorical(first)
  z[t] ~ categorical(move[z[t - 1]]) for t in time if t > 0
  x[t] ~ categorical(emit[z[t]])     for t in time
}
mask spans = blocks({x[t], x[t + 1], x[t + 2]} for t in time if t < width - 2)
"""


@pytest.fixture(scope="module")
def hmm() -> tuple[Any, dict[str, Array], Array]:
    """A model, parameters and two strings."""
    rng = np.random.default_rng(4)
    params = {
        "first": rng.dirichlet(np.ones(STATES)),
        "move": rng.dirichlet(np.full(STATES, 0.1), size=STATES),
        "emit": rng.dirichlet(np.full(28, 0.2), size=STATES),
    }
    return gm.parse(HMM, n_tags=STATES, width=TIME).model(), params, rng.integers(0, 28, (2, TIME))


def parts(params: dict[str, Array]) -> tuple[Array, Array, Array]:
    return params["first"], params["move"], params["emit"]


def test_log_p_of_a_long_hidden_markov_model(hmm: tuple[Any, dict[str, Array], Array]):
    model, params, x = hmm
    np.testing.assert_allclose(model.log_prob(params, x), reference.log_likelihood(*parts(params), x), rtol=1e-11)
    holes = np.where(np.random.default_rng(1).random(x.shape) < 0.3, -1, x)
    np.testing.assert_allclose(model.log_prob(params, holes, missing=-1), reference.log_likelihood(*parts(params), holes), rtol=1e-11)


@pytest.mark.slow
def test_marginals_of_a_long_hidden_markov_model(hmm: tuple[Any, dict[str, Array], Array]):
    model, params, x = hmm
    seen = {t: x[0, t] for t in range(0, TIME, 3)}
    holes = np.full((1, TIME), -1)
    holes[0, list(seen)] = list(seen.values())
    found = model.marginals(params, clamp={"x": seen})
    np.testing.assert_allclose(found["z"], reference.smooth(*parts(params), holes).posterior[0], atol=1e-10)
    np.testing.assert_allclose(found["x"], reference.symbol_marginals(*parts(params), holes)[0], atol=1e-10)


def test_the_best_path_of_a_long_hidden_markov_model(hmm: tuple[Any, dict[str, Array], Array]):
    model, params, x = hmm
    found, value = model.map(params, clamp={"x": x[0]})
    path, log_p = reference.viterbi(*parts(params), x[:1])
    np.testing.assert_allclose(value, log_p[0], rtol=1e-11)
    np.testing.assert_array_equal(found["z"], path[0])
    np.testing.assert_array_equal(found["x"], x[0])


@pytest.mark.slow
def test_next_symbols_of_a_long_hidden_markov_model(hmm: tuple[Any, dict[str, Array], Array]):
    model, params, x = hmm
    expected = reference.next_symbol(*parts(params), x)
    for t in (0, 1, 500, TIME - 1):
        np.testing.assert_allclose(model.next_symbol(params, x[:, :t]), expected[:, t], atol=1e-10)


@pytest.mark.slow
def test_draws_of_a_long_hidden_markov_model(hmm: tuple[Any, dict[str, Array], Array]):
    """400 independent draws given every third symbol: no cell's frequency is 5.5 standard errors away, of 64 000 compared."""
    model, params, x = hmm
    seen = {t: x[0, t] for t in range(0, TIME, 3)}
    holes = np.full((1, TIME), -1)
    holes[0, list(seen)] = list(seen.values())
    options = {"observe": {"path": lambda x: x["z"]}, "keep_draws": False}
    draws = model.sample(params, "exact", draws=2, chains=200, seed=2, clamp={"x": seen}, **options)
    draws = draws["posterior"]["path"].values.reshape(-1, TIME).astype(int)
    expected = reference.smooth(*parts(params), holes).posterior[0]
    found = (draws[:, :, None] == np.arange(STATES)).mean(axis=0)
    often = expected * (1 - expected) * len(draws) > 5  # where the normal law is near
    error = np.sqrt(expected * (1 - expected) / len(draws))
    assert (np.abs(found - expected) < 5.5 * error)[often].all()
    assert found[expected < 1e-9].max() == 0
    pairs = np.bincount((STATES * draws[:, :-1] + draws[:, 1:]).ravel(), minlength=STATES**2).reshape(STATES, STATES) / len(draws)
    wanted = reference.smooth(*parts(params), holes).pairs[0]
    assert np.abs(pairs - wanted).sum() / 2 < 0.05 * (TIME - 1)  # neighbours are drawn together, not one by one


@pytest.mark.slow
def test_losses_of_spans_of_a_hidden_markov_model():
    rng = np.random.default_rng(4)
    params = {"first": rng.dirichlet(np.ones(8)), "move": rng.dirichlet(np.ones(8), size=8), "emit": rng.dirichlet(np.ones(28), size=8)}
    model, x = gm.parse(HMM, n_tags=8, width=40).model(), rng.integers(0, 28, (3, 40))
    np.testing.assert_allclose(model.loss(params, x, "spans"), reference.span_loss(*parts(params), x, 3), rtol=1e-11)


GRID = """
input n : int
graph G = grid(n, n, wrap = true)
model ising {
  var x[i in G.nodes] : spin
  param h[i in G.nodes]
  param J[(i, j) in G.edges]
  factor h[i] * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
"""


def grid(n: int) -> tuple[Any, dict[str, Array], tuple[Array, Array, Array]]:
    """A wrapped grid with random couplings: model, parameters, and what the transfer matrix takes."""
    program, rng = gm.parse(GRID, n=n), np.random.default_rng(n)
    right, down, fields = 0.5 * rng.normal(size=(3, n, n))
    number = {tuple(e): k for k, e in enumerate(np.asarray(program.graph("G").edges).tolist())}
    J = np.zeros(len(number))
    for i in range(n):
        for j in range(n):
            J[number[tuple(sorted((n * i + j, n * i + (j + 1) % n)))]] = right[i, j]
            J[number[tuple(sorted((n * i + j, n * ((i + 1) % n) + j)))]] = down[i, j]
    return program.model(), {"h": fields.ravel(), "J": J}, (right, down, fields)


@pytest.mark.parametrize("n", [6, pytest.param(10, marks=pytest.mark.slow)])
def test_log_z_of_a_wrapped_grid(n: int):
    model, params, arrays = grid(n)
    np.testing.assert_allclose(model.log_partition(params), ising_log_partition(*arrays), rtol=1e-11)


@pytest.mark.parametrize("n", [8, pytest.param(10, marks=pytest.mark.slow)])
def test_log_z_and_energy_of_a_torus_at_its_critical_point(n: int):
    model, params, _ = grid(n)
    exact = torus(n, n, CRITICAL)
    uniform = {"h": 0 * params["h"], "J": np.full_like(params["J"], CRITICAL)}
    np.testing.assert_allclose(model.log_partition(uniform), exact.log_partition, rtol=1e-11)


TREE = """
input pairs[e, 2] : int
input n : int
index site = range(n)
graph T = edges(pairs, nodes = site)
model tree {
  var x[i in site] : range(3)
  param h[i in site, a in range(3)]
  param J[a in range(3), b in range(3)]
  factor h[i, x[i]] for i in site
  factor J[x[i], x[j]] for (i, j) in T.edges
}
"""


def tree_log_z(parents: Array, h: Array, J: Array) -> float:
    """Messages from every node to its parent, whose number is smaller, last node first."""
    message = h.copy()
    for i in range(len(parents) - 1, 0, -1):
        table = message[i] + J  # parent's value, own value
        top = table.max(axis=1)
        message[parents[i]] += top + np.log(np.exp(table - top[:, None]).sum(axis=1))
    top = message[0].max()
    return float(top + np.log(np.exp(message[0] - top).sum()))


@pytest.mark.slow  # long; small trees are enumerated, and long Markov models are in the gate
@pytest.mark.parametrize("shape", thinned(["random", "path", "star"], 3))
def test_log_z_of_a_tree_of_100_000_nodes(shape: str):
    n, rng = 100_000, np.random.default_rng(3)
    above = {"random": lambda: rng.integers(0, np.arange(1, n)), "path": lambda: np.arange(n - 1), "star": lambda: np.zeros(n - 1, int)}
    parents = np.append(-1, above[shape]())
    params = {"h": rng.normal(size=(n, 3)), "J": rng.normal(size=(3, 3))}
    started = time.process_time()
    model = gm.parse(TREE, n=n, pairs=np.column_stack([parents[1:], np.arange(1, n)])).model()
    found = float(model.log_partition(params))
    print(f"{shape}: {time.process_time() - started:.2f} s of processor time from the text to log Z")
    np.testing.assert_allclose(found, tree_log_z(parents, params["h"], params["J"]), rtol=1e-12)
