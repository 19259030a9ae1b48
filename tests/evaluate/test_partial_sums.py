"""Elimination over partial sums: log Z, marginals, modes and draws of factors of many cells, against dynamic programming and enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.plan import _partial_sums, with_partial_sums

pytestmark = [pytest.mark.usefixtures("float64", "compiled_sums"), pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")]

COUNTED = """
index cell = range(60)
model twenty {
  var x[i in cell] : bit
  param h[i in cell] ~ normal(0, 1)
  factor h[i] * x[i] for i in cell
  require count(x[i] == 1 for i in cell) == 20
}
"""
KNAPSACK = """
input w[n] : int
input most : int
model m {
  var x[i in range(n)] : bit
  param v[i in range(n)]
  factor v[i] * x[i] for i in range(n)
  require sum(w[i] * x[i] for i in range(n)) <= most
}
"""


def by_weight(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The sum of exp(values of what is in) by total weight."""
    table = np.zeros(weights.sum() + 1)
    table[0] = 1.0
    for w, v in zip(weights, values, strict=True):
        moved = np.zeros_like(table)
        moved[w:] = table[: len(table) - w]
        table = table + np.exp(v) * moved
    return table


def check(model: gm.Model, params: dict[str, np.ndarray], weights: np.ndarray, values: np.ndarray, good: np.ndarray) -> None:
    """log Z and marginals, where weights of what is in sum to some that are good."""
    total = by_weight(weights, values)[good].sum()
    assert abs(float(model.log_partition(params)) - math.log(total)) < 1e-9
    for i in (0, len(weights) // 2, len(weights) - 1):
        rest = by_weight(np.delete(weights, i), np.delete(values, i))
        within = [k - weights[i] for k in good if 0 <= k - weights[i] < len(rest)]
        wanted = np.exp(values[i]) * rest[within].sum() / total
        assert abs(float(model.marginals(params)["x"][i, 1]) - wanted) < 1e-9


@pytest.mark.slow
def test_twenty_of_sixty():
    model, h = gm.parse(COUNTED).model(), np.random.default_rng(0).normal(size=60)
    check(model, {"h": h}, np.ones(60, int), h, np.array([20]))
    best, value = model.map({"h": h})
    assert set(np.flatnonzero(np.asarray(best))) == set(np.argsort(-h)[:20])
    assert abs(float(value) - (np.sort(h)[-20:].sum() - float(model.log_partition({"h": h})))) < 1e-9
    draws = model.sample({"h": h}, sampler="exact", draws=500, chains=2, seed=0).posterior
    assert list(draws) == ["x"] and (draws["x"].values.sum(axis=-1) == 20).all()
    assert np.abs(draws["x"].values.mean(axis=(0, 1)) - model.marginals({"h": h})["x"][:, 1]).max() < 0.1


@pytest.mark.slow
def test_a_knapsack_of_thirty_items():
    rng = np.random.default_rng(1)
    weights, values = rng.integers(1, 30, 30), rng.normal(size=30)
    most = int(weights.sum() // 3)
    check(gm.parse(KNAPSACK, w=weights, most=most).model(), {"v": values}, weights, values, np.arange(most + 1))


def test_terms_of_several_cells_of_many_values_and_a_parameter_outside():
    text = """
    model m {
      var x[i in range(7)] : range(3)
      var s[i in range(7)] : spin
      param a, b[i in range(7)]
      factor a * sum(x[i] * s[i] * (i + 1) for i in range(7) if i != 2) ^ 2 / 100
      factor b[i] * s[i] for i in range(7)
      require sum(x[i] for i in range(7)) % 4 != 1
    }
    """
    model, params = gm.parse(text).model(), {"a": -0.3, "b": np.linspace(-1, 1, 7)}
    assert with_partial_sums(model.graph) is not model.graph
    log_z, spins, total = [], np.array(list(itertools.product([-1, 1], repeat=7))), -np.inf
    for x in itertools.product(range(3), repeat=7):
        if sum(x) % 4 == 1:
            continue
        strength = np.array([x[i] * (i + 1) if i != 2 else 0 for i in range(7)])
        log_z.append(np.logaddexp.reduce(-0.3 * (spins @ strength) ** 2 / 100 + spins @ params["b"]))
    total = np.logaddexp.reduce(log_z)
    assert abs(float(model.log_partition(params)) - total) < 1e-9


def test_small_factors_and_sums_that_share_a_cell_are_left_alone():
    small = gm.parse("model m { var x[i in range(5)] : bit  require count(x[i] == 1 for i in range(5)) == 2 }").model()
    assert with_partial_sums(small.graph) is small.graph
    shared = gm.parse("model m { var x[i in range(14)] : bit  factor sum(x[i] * x[(i + 1) % 14] for i in range(14)) ^ 2 / 9 }").model()
    assert with_partial_sums(shared.graph) is shared.graph


def test_a_sum_that_has_no_terms_in_some_instances():
    """Of r = 0 the factor has no cell; its partial sum is 0."""
    text = "model m { var x[i in range(7)] : range(3)  param k  factor k * sum(x[c] for c in range(7 * r)) ^ 2 for r in range(2) }"
    model, states = gm.parse(text).model(), np.array(list(itertools.product(range(3), repeat=7)))
    wanted = np.logaddexp.reduce(0.1 * states.sum(axis=1) ** 2)
    assert abs(float(model.log_partition({"k": 0.1})) - wanted) < 1e-9


def test_one_sum_may_be_written_twice():
    """Of Curie and Weiss: the square of the sum and the sum itself in one factor."""
    text = "index s = range(40)  model m { var x[i in s] : spin  param J, h"
    text += "  factor J * sum(x[i] for i in s)^2 / 80 + h * sum(x[i] for i in s) }"
    sums = 2 * np.arange(41) - 40
    wanted = np.logaddexp.reduce([math.log(math.comb(40, k)) for k in range(41)] + 0.7 * sums**2 / 80 + 0.1 * sums)
    assert abs(float(gm.parse(text).model().log_partition({"J": 0.7, "h": 0.1})) - wanted) < 1e-9


def test_gates_that_differ_in_a_number_only():
    """Instances of one factor over like cells, each with its own limit and its own weights."""
    text = """
    input most[g], w[g, n] : real
    model m {
      var x[j in range(g), i in range(n)] : bit
      require sum(w[j, i] * x[j, i] for i in range(n)) <= most[j] for j in range(g)
    }
    """
    w = np.ones((3, 16))
    w[2, :8] = 2.0
    model = gm.parse(text, most=np.array([2.0, 3.0, 3.0]), w=w).model()
    ways = [1 + 16 + 120, 1 + 16 + 120 + 560, 1 + 8 + (28 + 8) + (56 + 64)]
    assert float(model.log_partition({})) == pytest.approx(sum(map(math.log, ways)), abs=1e-9)


def test_a_product_less_a_number_is_summed_where_it_is_positive():
    """The chain of two values reads the factor at products of 0 and of 1, and it is negative at 0 here."""
    n, c = 18, 1e-6
    text = f"""
model m {{
  var x[i in range({n})] : bit
  var y : bit
  factor log(prod(0.5 + (0.4 + 0.0001 * i * i) * x[i] for i in range({n})) - {c}) + 0.3 * y
}}
"""
    sums = np.prod([1.0 + 0.4 + 0.0001 * i * i for i in range(n)]) - c * 2**n
    found = float(gm.parse(text).model().log_partition({}))
    np.testing.assert_allclose(found, np.log(sums) + np.log1p(np.exp(0.3)), rtol=1e-6)


TALLIES = """
model m {
  var x[g in range(2), i in range(15)] : range(3)
  var y[g in range(2)] : bit
  param h[g in range(2), i in range(15)]
  factor h[g, i] * x[g, i] for g in range(2) for i in range(15)
  factor -0.01 * (sum((i % 2 + 1) * x[g, i] for i in range(15)) - 8 * y[g])^2 for g in range(2)
}
"""


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_partial_sums, "LEAST_CHAIN", 0)
    monkeypatch.setattr(_partial_sums, "LEAST_TREE", 0)


def of_totals(h: np.ndarray, y: int) -> np.ndarray:
    """exp(log p), unnormalised, by the total of a group whose y is known; terms count once or twice."""
    table = np.ones(1)
    for i, level in enumerate(h):
        term = np.zeros(2 * (i % 2 + 1) + 1)
        term[:: i % 2 + 1] = np.exp(level * np.arange(3))
        table = np.convolve(table, term)
    totals = np.arange(len(table))
    return table * np.exp(-0.01 * (totals - 8 * y) ** 2)


@pytest.mark.slow  # `test_linked_sums.py` has a tree of an odd number of terms
@pytest.mark.usefixtures("trees")
def test_sums_of_two_groups_by_trees_of_an_odd_number_of_terms():
    """Fifteen terms: seven pairs and one alone, and so on; two instances of one factor, beside another cell."""
    model, h = gm.parse(TALLIES).model(), np.random.default_rng(3).normal(size=(2, 15)) / 3
    counted = with_partial_sums(model.graph)
    assert counted.n_cells == model.graph.n_cells + 2 * (1 + 15 + 14)  # nothing, each term, and each sum of two
    assert len(counted.links) == 2 * 14 and max(g.cells.shape[1] for g in counted.groups) == 3
    both = np.array([[of_totals(h[g], y).sum() for y in range(2)] for g in range(2)])
    assert abs(float(model.log_partition({"h": h})) - np.log(both.sum(axis=1)).sum()) < 1e-9
    np.testing.assert_allclose(model.marginals({"h": h})["y"], both / both.sum(axis=1, keepdims=True), atol=1e-9)
    held = {"x": {(0, 3): 2}, "y": {1: 1}}
    shares = model.sample({"h": h}, "exact", draws=2000, chains=2, seed=1, clamp=held)["posterior"]["x"].values.mean(axis=(0, 1))
    mean = model.marginals({"h": h}, held)["x"] @ np.arange(3)
    assert np.abs(shares - mean).max() < 0.08 and shares[0, 3] == 2
    best, value = model.map({"h": h}, held)
    for g, i in ((0, 0), (1, 14), (1, 7)):  # no other value of a cell is more probable
        rows = {"x": np.repeat(best["x"][None], 3, 0), "y": np.repeat(best["y"][None], 3, 0)}
        rows["x"][:, g, i] = range(3)
        assert model.log_prob({"h": h}, rows).max() <= float(value) + 1e-9


@pytest.mark.usefixtures("trees")
def test_a_tree_of_a_requirement_and_chains_of_cells_that_other_factors_join():
    h = np.random.default_rng(4).normal(size=14)
    text = "model m {{ var x[i in range(14)] : bit  param h[i in range(14)]  factor h[i] * x[i] for i in range(14)  {} }}"
    odd = gm.parse(text.format("require sum(x[i] for i in range(14)) != 7")).model()
    totals = by_weight(np.ones(14, int), h)
    check(odd, {"h": h}, np.ones(14, int), h, np.array([k for k in range(15) if k != 7]))
    joined = text.format("factor 0.1 * sum(x[i] for i in range(14))^2  factor 0.3 * x[2] * x[3]")
    graph = with_partial_sums(gm.parse(joined).model().graph)
    assert graph.n_cells == 14 + 15 and len(totals) == 15  # a chain has a cell for each number of terms
