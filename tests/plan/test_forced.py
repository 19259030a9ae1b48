"""Cells that follow from held ones, against a list of all configurations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.plan import with_forced

TEXT = """
graph G = edges(pairs, nodes = range(6))
model m {
  var x[i in G.nodes] : range(3)
  var s : spin
  require x[i] != x[j] for (i, j) in G.edges
  require x[5] == 2 or s == 1
  require s != 1
  require (x[0] + x[4]) % 3 != 1
}
"""
PAIRS = [[0, 1], [1, 2], [0, 2], [2, 3], [3, 4], [1, 3], [4, 5]]


def possible(c: tuple[int, ...]) -> bool:
    different = all(c[i] != c[j] for i, j in PAIRS)
    return different and c[5] == 2 and c[6] == 0 and (c[0] + c[4]) % 3 != 1


@pytest.mark.parametrize("seen", [{0: 0, 1: 1}, {0: 2}, {2: 0, 3: 1}, {0: 1, 1: 1}, {5: 1}, {4: 0, 1: 2}])
def test_what_follows_holds_in_all_configurations(seen: dict[int, int]):
    graph = gm.parse("input pairs[e, 2] : int\n" + TEXT, pairs=PAIRS).model().graph
    held, codes = np.zeros(7, bool), np.zeros(7, np.int32)
    for k, v in seen.items():
        held[k], codes[k] = True, v
    agree = [c for c in itertools.product(*[range(3)] * 6, range(2)) if possible(c) and all(c[k] == v for k, v in seen.items())]
    found = with_forced(graph, held, codes)
    if found is None:
        assert agree == []
        return
    for k in np.flatnonzero(found[0]):
        assert {c[k] for c in agree} <= {found[1][k]}
    assert found[0][list(seen)].all() and found[0][5] and found[0][6]


def test_one_value_after_another():
    """A chain of five cells of two values is settled by its first."""
    text = "model m { var x[i in range(5)] : bit  require x[i] != x[i + 1] for i in range(4) }"
    held = np.arange(5) == 0
    found = with_forced(gm.parse(text).model().graph, held, np.array([1, 0, 0, 0, 0], np.int32))
    assert found is not None
    np.testing.assert_array_equal(found[0], np.ones(5, bool))
    np.testing.assert_array_equal(found[1], [1, 0, 1, 0, 1])
