"""Starts of chains under requirements that few configurations satisfy: walks find one, keep what is clamped, and end where none can be."""

from __future__ import annotations

import time

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.data import random_key
from gmlmdsl.derive import graph_arrays
from gmlmdsl.sample._starts import Walk

SATISFIABILITY = """
input n : int
input clauses[m, 3] : int
input signs[m, 3] : int
model formula {
  var x[i in range(n)] : bit
  require x[clauses[k, 0]] == signs[k, 0] or x[clauses[k, 1]] == signs[k, 1] or x[clauses[k, 2]] == signs[k, 2] for k in range(m)
}
sampler single for formula { update x[i] for i in range(n) }
"""

COLOURING = """
input n : int
input pairs[e, 2] : int
graph G = edges(pairs, nodes = range(n))
model colours {
  var x[i in G.nodes] : range(3)
  factor log(if x[i] == x[j] then 0 else 1) for (i, j) in G.edges
}
sampler single for colours { update x[i] for i in G.nodes }
"""


def planted_formula(n: int, m: int, seed: int) -> tuple[gm.Model, np.ndarray, np.ndarray]:
    """A formula of m clauses of three literals that a hidden configuration satisfies, with its clauses and signs."""
    rng = np.random.default_rng([seed, n])
    hidden, clauses, signs = rng.integers(0, 2, n), [], []
    while len(clauses) < m:
        cells, sign = rng.choice(n, 3, replace=False), rng.integers(0, 2, 3)
        if (hidden[cells] == sign).any():
            clauses.append(cells)
            signs.append(sign)
    clauses, signs = np.array(clauses), np.array(signs)
    return gm.parse(SATISFIABILITY, n=n, clauses=clauses, signs=signs).model(), clauses, signs


def planted_colouring(n: int, m: int, seed: int) -> tuple[gm.Model, np.ndarray]:
    """A graph of m edges that a hidden colouring in three colours leaves without an edge of one colour."""
    rng = np.random.default_rng([seed, n])
    hidden, pairs = rng.integers(0, 3, n), set()
    while len(pairs) < m:
        i, j = sorted(rng.choice(n, 2, replace=False).tolist())
        if hidden[i] != hidden[j]:
            pairs.add((i, j))
    return gm.parse(COLOURING, n=n, pairs=np.array(sorted(pairs))).model(), np.array(sorted(pairs))


def first_draws(model: gm.Model, chains: int) -> np.ndarray:
    """The first draw of each chain without a warm-up, shape (chains, cells)."""
    with pytest.warns(gm.SamplingWarning):
        return np.asarray(model.sample({}, "single", draws=1, warmup=0, chains=chains, seed=3).posterior["x"])[:, 0]


@pytest.mark.parametrize("cells", [120, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_formulas_near_the_threshold_find_a_start(cells: int):
    """There are 4.2 clauses for each cell, near the ratio from which random formulas cannot be satisfied."""
    model, clauses, signs = planted_formula(cells, 42 * cells // 10, 1)
    x = first_draws(model, 3)
    assert (x[:, clauses] == signs).any(axis=2).all()
    assert len(np.unique(x, axis=0)) == 3


@pytest.mark.slow
def test_a_start_does_not_depend_on_how_many_chains_there_are():
    model, *_ = planted_formula(60, 240, 2)
    np.testing.assert_array_equal(first_draws(model, 3)[:2], first_draws(model, 2))


@pytest.mark.slow
def test_colourings_of_two_hundred_nodes_find_a_start():
    """Factors of -inf are violated like requirements, and cells may have more than two values."""
    model, pairs = planted_colouring(200, 440, 1)
    x = first_draws(model, 2)
    assert (x[:, pairs[:, 0]] != x[:, pairs[:, 1]]).all()


def walk_of(model: gm.Model) -> Walk:
    return Walk.of(model.graph, graph_arrays(model.graph), {})


def test_a_walk_keeps_the_fixed_cells():
    model, clauses, signs = planted_formula(60, 150, 3)
    codes, fixed = np.zeros(60, np.int32), np.arange(60) < 5
    codes[:5] = 1
    found = walk_of(model)(random_key(0), codes, fixed)
    assert found is not None
    assert (found[:5] == 1).all()
    assert (found[clauses] == signs).any(axis=1).all()


@pytest.mark.slow  # measures time
def test_a_walk_ends_at_once_where_fixed_cells_violate_a_clause():
    model, clauses, signs = planted_formula(60, 150, 3)
    codes, fixed = np.zeros(60, np.int32), np.zeros(60, bool)
    codes[clauses[0]], fixed[clauses[0]] = 1 - signs[0], True
    walk = walk_of(model)
    walk(random_key(0), codes, fixed)  # compiles
    began = time.process_time()
    assert walk(random_key(1), codes, fixed) is None
    assert time.process_time() - began < 0.2  # all moves take seconds


def test_large_scopes_are_tried_some_cells_at_a_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gmlmdsl.sample.limits.WALK_AT_ONCE", 700)
    model = gm.parse("model m { var x[i in range(6)] : range(40)\n require all_different(x[i] for i in range(6)) }").model()
    walk = walk_of(model)
    assert walk.tried == 1  # of the two cells of a pair
    found = walk(random_key(0), np.zeros(6, np.int32), np.zeros(6, bool))
    assert found is not None
    assert len(set(found.tolist())) == 6


def test_annealing_satisfies_formulas_without_finite_factors():
    model, clauses, signs = planted_formula(200, 700, 4)
    x, _ = model.map({}, method="anneal")
    assert (x[clauses] == signs).any(axis=1).all()
