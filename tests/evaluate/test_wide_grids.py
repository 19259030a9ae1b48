"""Exact answers of grids for which the greedy order of elimination is too dear, beside transfer matrices written here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.plan import plan_elimination

GRID = """
input n : int
graph G = grid(n, n)
model m { var x[i in G.nodes] : spin  param J, h  factor J * x[i] * x[j] for (i, j) in G.edges  factor h * x[i] for i in G.nodes }
"""
PARAMS = {"J": 0.4, "h": 0.1}


def grid(n: int) -> Any:
    return gm.parse(GRID, n=n).model()


def by_transfer(n: int, first: int | None = None) -> float:
    """Log Z of n by n spins, one spin after another; with the first spin held at a value."""
    states = np.arange(1 << n)
    spin = [2.0 * ((states >> k) & 1) - 1 for k in range(n)]
    inside = np.exp(PARAMS["J"] * sum(spin[k] * spin[k + 1] for k in range(n - 1)) + PARAMS["h"] * sum(spin))
    bond = np.exp(PARAMS["J"] * np.array([[1, -1], [-1, 1]]))
    v = inside * (1.0 if first is None else spin[0] == first)
    log_z = 0.0
    for _ in range(n - 1):
        for k in range(n):
            v = np.moveaxis(np.tensordot(bond, v.reshape(1 << (n - 1 - k), 2, 1 << k), axes=(1, 1)), 0, 1).ravel()
        v *= inside
        log_z += np.log(v.sum())
        v /= v.sum()
    return float(log_z)


@pytest.mark.parametrize("n", [15, pytest.param(18, marks=pytest.mark.slow)])
def test_wide_grids_agree_with_transfer_matrices(n: int):
    model = grid(n)
    held = by_transfer(n, 1)
    np.testing.assert_allclose(float(model.log_partition(PARAMS)), by_transfer(n), rtol=3e-7)
    p = model.marginals(PARAMS)["x"]
    np.testing.assert_allclose(p[0, 1], np.exp(held - by_transfer(n)), rtol=1e-5)
    np.testing.assert_allclose(p[0], p[n - 1], rtol=1e-5)  # corners are alike
    best, log_p = model.map(PARAMS)
    assert (best == 1).all()
    np.testing.assert_allclose(log_p, PARAMS["J"] * 2 * n * (n - 1) + PARAMS["h"] * n * n - by_transfer(n), rtol=1e-5)


def test_a_grid_in_the_order_of_its_cells_has_tables_of_one_row():
    found = plan_elimination(grid(20).graph)
    assert found.scopes.shape[1] == 21
    assert found.flops < 20 * 20 * 2.0**21


def test_numbers_of_the_cells_do_not_decide():
    """The same grid with shuffled nodes is eliminated at no more than four times the cost."""
    shuffled = np.random.default_rng(0).permutation(18 * 18)
    pairs = [(18 * r + c, 18 * r + c + 1) for r in range(18) for c in range(17)] + [
        (18 * r + c, 18 * r + c + 18) for r in range(17) for c in range(18)
    ]
    text = "input pairs[k, 2] : int\ngraph G = edges(pairs, nodes = range(324))\nmodel m { var x[i in G.nodes] : spin  factor 0.3 * x[i] * x[j] for (i, j) in G.edges }"
    model = gm.parse(text, pairs=shuffled[np.array(pairs)]).model()
    assert plan_elimination(model.graph).flops <= 4 * plan_elimination(grid(18).graph).flops


def test_marginals_that_would_keep_too_many_tables_are_refused_before_they_start():
    model = grid(24)
    with pytest.raises(gm.GmlmError, match=r"E601.*the tables of the elimination for a table of marginals take about 11\.\d GiB"):
        model.marginals(PARAMS)


@pytest.mark.parametrize("n", [10, pytest.param(24, marks=pytest.mark.slow)])
def test_clamped_grids_are_answered_whatever_was_asked_before(n: int):
    """Two free columns, once NumPy's time is used up too; of 24 by 24 cells, the marginals of the whole grid are refused."""
    model = grid(n)
    x = np.ones((n, n), int)
    free = np.zeros((n, n), bool)
    free[:, :2] = True
    clamp = {"x": np.ma.masked_array(x, free).reshape(-1)}
    found = model.marginals(PARAMS, clamp)["x"]
    model._counted._host_seconds += 100
    np.testing.assert_allclose(model.marginals(PARAMS, clamp)["x"], found, atol=1e-5)
    assert model.map(PARAMS, clamp)[0].reshape(n, n)[free].all()
