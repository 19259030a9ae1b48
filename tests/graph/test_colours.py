"""Colours of a sweep: each block the least colour that no block before it among its neighbours has, however they are found."""

from __future__ import annotations

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.graph import FactorGraph, distinct
from gmlmdsl.graph.colours import colour
from gmlmdsl.plan import size_classes

PROGRAM = """
input n : int
input pairs[e, 2] : int
graph G = edges(pairs, nodes = range(n))
model m {
  var x[i in range(n)] : spin
  param J
  factor J * x[i] * x[j] for (i, j) in G.edges
}
"""


def graph_of(n: int, pairs: np.ndarray) -> FactorGraph:
    return gm.parse(PROGRAM, n=n, pairs=pairs).model().graph


def greedy(n: int, pairs: np.ndarray, cells: np.ndarray) -> np.ndarray:
    near: list[set[int]] = [set() for _ in range(n)]
    for i, j in pairs.tolist():
        near[i].add(j)
        near[j].add(i)
    found: dict[int, int] = {}
    for cell in sorted(cells.tolist()):
        taken = {found[other] for other in near[cell] if other in found}
        found[cell] = next(c for c in range(n) if c not in taken)
    return np.array([found[c] for c in cells.tolist()])


@pytest.mark.parametrize("density", [0.02, 0.2, 0.9])
def test_colours_are_the_least_in_position_order(density: float):
    rng = np.random.default_rng(3)
    n = 60
    pairs = np.argwhere(np.triu(rng.random((n, n)) < density, 1))
    cells = rng.permutation(n)[: n - 7]  # some are not swept: they take no colour
    assert np.array_equal(colour(graph_of(n, pairs), cells[:, None]), greedy(n, pairs, cells))


@pytest.mark.parametrize("pairs", [np.argwhere(np.triu(np.ones((70, 70)), 1)), np.stack([np.arange(4999), np.arange(1, 5000)], 1)])
def test_many_colours_and_long_chains_are_coloured_one_by_one(pairs: np.ndarray):
    """More colours than a word has bits; more turns than are worth taking at once."""
    n = int(pairs.max()) + 1
    cells = np.arange(n)
    assert np.array_equal(colour(graph_of(n, pairs), cells[:, None]), greedy(n, pairs, cells))


def test_distinct_values_are_those_of_numpy():
    values = np.random.default_rng(1).integers(0, 50, (40, 3))
    assert np.array_equal(distinct(values), np.unique(values))
    assert distinct(np.zeros(0, np.int64)).shape == (0,)


def test_sizes_are_classed_by_powers_of_four():
    sizes = np.array([0.0, 1.0, 2.0, 4.0, 5.0, 16.0, 17.0, 4.0**20, 4.0**20 * 1.001])
    assert size_classes(sizes).tolist() == [0, 0, 1, 1, 2, 2, 3, 20, 21]
