"""EBIC of paths: losses of refits without penalty, and tr(H^-1 S), beside closed forms of spins and the cases in which it is known."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.assess._path import conditionals_of_a_pair, effective_degrees
from gmlmdsl.assess._path_runs import Runs, edges_of
from gmlmdsl.data import bound_rows
from gmlmdsl.fit import Evidence, FitOptions, curvature, objective_colouring

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

N = 4
EDGES = list(itertools.combinations(range(N), 2))
SPINS = """
graph G = complete(range(4))
model m {
  var x[i in range(4)] : spin
  param h[i in range(4)]
  param J[(i, j) in G.edges]
  factor h[i] * x[i] for i in range(4)
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one   = subsets(x, size = 1)
mask two   = subsets(x, size = 2)
mask whole = everything(x)
"""
LETTERS = """
domain abc = letters("abc")
graph G = complete(range(3))
model m {
  var x[i in range(3)] : abc
  param h[i in range(3), a in abc]
  param J[(i, j) in G.edges, a in abc, b in abc]
  factor h[i, x[i]] for i in range(3)
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
mask one = subsets(size = 1)
"""
ALL = np.array(list(itertools.product((-1, 1), repeat=N)))


def exact_rows(edge_weights: dict[tuple[int, int], int]) -> np.ndarray:
    """Rows in which each configuration stands as often as p says: prod over edges of (weight if equal, else 1)."""
    counts = np.ones(len(ALL), int)
    for (i, j), weight in edge_weights.items():
        counts *= np.where(ALL[:, i] == ALL[:, j], weight, 1)
    return np.repeat(ALL, counts, axis=0)


def degrees_at(program: str, mask: str, x: np.ndarray, params: dict[str, Any], kept: Any) -> tuple[float, float]:
    """`effective_degrees` of some couplings with H and S at `params`, and what it would be were cells independent."""
    model = gm.parse(program).model()
    bound, rows = bound_rows(model.lowered, x, None, None)
    _, lowered = model._mask(mask, bound)
    run = Runs(Evidence(bound, lowered, rows.codes, FitOptions(mask)), edges_of(bound.graph, None), np.ones(len(x)), None)
    objective = run.whole.objective
    curve = curvature(objective, {k: np.asarray(v) for k, v in params.items()}, objective_colouring(objective))
    return effective_degrees(run, curve, np.asarray(kept)), conditionals_of_a_pair(run)


def by_hand(x: np.ndarray, h: np.ndarray, j: np.ndarray, kept: np.ndarray) -> float:
    """tr(H^-1 S) of the pseudolikelihood of spins less that of the fields alone, from p(x_i | rest) = sigmoid(2 x_i eta_i)."""
    eta = h + x @ j
    t = np.tanh(eta)
    parts, ones = x - t, np.ones(len(x))
    features = []  # of each parameter: what it is multiplied with in eta_i, shape (rows, N)
    for i in range(N):
        features.append(np.outer(ones, np.arange(N) == i))
    for i, k in np.array(EDGES)[kept]:
        f = np.zeros((len(x), N))
        f[:, i], f[:, k] = x[:, k], x[:, i]
        features.append(f)
    phi = np.array(features)  # parameters, rows, N
    u = (phi * parts).sum(axis=2)
    u = u - u.mean(axis=1, keepdims=True)
    hessian = np.einsum("pri,qri,ri->pq", phi, phi, 1 - t**2)
    s = u @ u.T
    return np.trace(np.linalg.solve(hessian, s)) - np.trace(np.linalg.solve(hessian[:N, :N], s[:N, :N]))


def test_degrees_are_those_of_the_closed_form() -> None:
    rng = np.random.default_rng(2)
    x = rng.choice([-1, 1], (300, N))
    x[:, 1] = np.where(rng.random(300) < 0.8, x[:, 0], x[:, 1])
    h, values = rng.normal(0, 0.3, N), rng.normal(0, 0.4, len(EDGES))
    j = np.zeros((N, N))
    j[tuple(np.array(EDGES).T)] = values
    for kept in ([True] * 6, [True, False, True, False, False, True]):
        found, _ = degrees_at(SPINS, "one", x, {"h": h, "J": values}, kept)
        np.testing.assert_allclose(found, by_hand(x, h, j + j.T, np.asarray(kept)), rtol=1e-6)


def test_degrees_of_a_likelihood_are_the_number_of_parameters_where_the_model_holds() -> None:
    x = exact_rows({(0, 1): 2, (1, 2): 4})
    j = np.zeros(len(EDGES))
    j[EDGES.index((0, 1))], j[EDGES.index((1, 2))] = np.log(2) / 2, np.log(4) / 2
    for kept in ([True] * 6, [True, False, True, True, False, True]):
        whole, each = degrees_at(SPINS, "whole", x, {"h": np.zeros(N), "J": j}, kept)
        np.testing.assert_allclose(whole, sum(kept), rtol=1e-6)
        assert each == 1
    composite, _ = degrees_at(SPINS, "one", x, {"h": np.zeros(N), "J": j}, [True] * 6)
    assert 6 < composite < 12  # strongly coupled: fewer than two for each


@pytest.mark.parametrize(("mask", "each"), [("one", 2.0), ("two", 5 / 3), ("whole", 1.0)])
def test_without_dependence_a_coupling_counts_as_often_as_blocks_meet_it(mask: str, each: float) -> None:
    """Blocks of two of four cells: c = 2, and 5 of 6 of them meet a pair."""
    found, known = degrees_at(SPINS, mask, exact_rows({}), {"h": np.zeros(N), "J": np.zeros(len(EDGES))}, [True] * 6)
    np.testing.assert_allclose([found, known * 6], each * 6, rtol=1e-6)


def test_flat_directions_count_nothing() -> None:
    """A table of three by three letters has four free directions: rows and columns move with the fields."""
    every = np.array(list(itertools.product(range(3), repeat=3)))
    params = {"h": np.zeros((3, 3)), "J": np.zeros((3, 3, 3))}
    found, _ = degrees_at(LETTERS, "one", every, params, [True, False, True])
    np.testing.assert_allclose(found, 2 * 2 * 4, rtol=1e-6)


@pytest.mark.slow  # test_path_rules.py has the criterion of a node beside a regression
def test_a_path_is_judged_by_refits_at_the_price_of_its_degrees() -> None:
    rng = np.random.default_rng(3)
    x = np.cumprod(np.where(rng.random((400, N)) < 0.75, 1, -1), axis=1) * rng.choice([-1, 1], (400, 1))
    model = gm.parse(SPINS).model()
    path = model.fit_path(x, "one", penalty=8, gamma=0.25)
    told = path.table.dropna()
    assert len(told) >= 3
    for k in told.index[[0, 2]]:
        refit = path.refit(int(k))
        np.testing.assert_allclose(told.loc[k, "refit_loss"], N * float(model.loss(refit.params, x, "one")), rtol=1e-8)
    price = np.log(400) + 2 * 0.25 * np.log(len(EDGES))
    np.testing.assert_allclose(told["ebic"], 2 * 400 * told["refit_loss"] + told["degrees"] * price, rtol=1e-12)
    refit = path.refit()
    j = np.zeros((N, N))
    j[tuple(np.array(EDGES).T)] = refit.params["J"]
    np.testing.assert_allclose(
        told.loc[path.chosen, "degrees"], by_hand(x, refit.params["h"], j + j.T, path.selected[path.chosen]), rtol=1e-3
    )


@pytest.mark.slow  # what is saved, not an answer
def test_a_model_that_could_not_win_is_not_refitted() -> None:
    """Nor would it: with the loss of the last one it would not be the least."""
    rng = np.random.default_rng(3)
    x = rng.choice([-1, 1], (200, N))
    table = gm.parse(SPINS).model().fit_path(x, "one", penalty=12).table
    left_out = table["ebic"].isna()
    assert left_out.any()
    least = 2 * 200 * table["refit_loss"].iloc[-1] + table.loc[left_out, "parameters"] * (np.log(200) + np.log(len(EDGES)))
    assert (least > table["ebic"].min()).all()
