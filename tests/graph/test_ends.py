"""Edges named from either end, in parameters, variables and `let`s; the two sides of a bipartite graph have no order."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

import gmlmdsl as gm

BITS = np.array(list(itertools.product([0, 1], repeat=3)))


def potentials(text: str, x: object, params: dict[str, np.ndarray] | None = None) -> np.ndarray:
    model = gm.parse(text).model()
    return np.asarray(jax.jit(lambda p: model.log_potential(p, x))(params or {}))


def test_a_left_node_above_a_right_one_turns_no_edge_round(float64: None) -> None:
    text = """
    domain c = range(2)
    graph H = bipartite(3, 2)
    model m {
      var x[i in range(3)] : c
      var y[j in range(2)] : c
      param J[(i, j) in H.edges, a in c, b in c]
      factor J[i, j, x[i], y[j]] for (i, j) in H.edges
    }
    """
    J, x, y = np.arange(24.0).reshape(3, 2, 2, 2) ** 2, BITS, BITS[:, :2]
    want = [sum(J[i, j, a[i], b[j]] for i in range(3) for j in range(2)) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(potentials(text, {"x": x, "y": y}, {"J": J.reshape(6, 2, 2)}), want)


def test_a_let_read_from_the_far_end_is_that_of_the_near_one(float64: None) -> None:
    text = """
    graph G = chain(3)
    model m {
      var x[i in G.nodes] : bit
      let low[(i, j) in G.edges] = x[i] + 10 * x[j] + 100 * (i == 0)
      factor low[j, i] for (i, j) in G.arcs
    }
    """
    np.testing.assert_allclose(potentials(text, BITS), 200 + 2 * (BITS @ [1, 11, 10]))


def test_further_axes_of_a_let_turn_with_the_edge_and_may_move_with_cells(float64: None) -> None:
    text = """
    graph G = chain(3)
    model m {
      var x[i in G.nodes] : bit
      let t[(i, j) in G.edges, a in range(2), b in range(2)] = (i + 1) * (a + 3 * b)
      factor t[j, i, x[j], x[i]] for (i, j) in G.edges
      factor 100 * t[2, 1, 1, 0] + 1000 * t[1, 0, 1, x[2]]
    }
    """
    a, b, c = BITS.T
    np.testing.assert_allclose(potentials(text, BITS), a + 3 * b + 2 * (b + 3 * c) + 600 + 1000 * (3 + c))


def test_a_variable_over_edges_turns_like_a_parameter(float64: None) -> None:
    text = """
    graph G = chain(2)
    model m {
      var s[(i, j) in G.edges, a in range(2), b in range(2)] : bit
      factor s[0, 1, 1, 0] + 10 * s[1, 0, 0, 1] + 100 * s[1, 0, 1, s[0, 1, 0, 0]]
    }
    """
    x = np.array(list(itertools.product([0, 1], repeat=4))).reshape(-1, 1, 2, 2)
    s = x[:, 0]
    np.testing.assert_allclose(potentials(text, x), 11 * s[:, 1, 0] + 100 * np.where(s[:, 0, 0] == 1, s[:, 1, 1], s[:, 0, 1]))


@pytest.mark.parametrize(("factor", "said"), [("low[0, 2]", r"\(0, 2\) is not an edge"), ("low[x[0], 1]", "must be fixed")])
def test_what_is_no_fixed_edge_has_no_let(factor: str, said: str) -> None:
    text = f"graph G = chain(3)\nmodel m {{ var x[i in G.nodes] : bit  let low[(i, j) in G.edges] = x[i] - x[j]  factor {factor} }}"
    with pytest.raises(gm.GmlmError, match=said):
        _ = gm.parse(text).model().graph


@pytest.mark.parametrize(
    ("sets", "turned"),
    [("range(n), b in range(n)", True), ("range(n), b in range(k)", False), ("bv, b in range(2)", False), ("u, b in v", True)],
)
def test_axes_of_one_size_are_one_domain_where_they_are_written_so(sets: str, turned: bool) -> None:
    text = f"""
    input n : int = 2
    input k : int = 2
    index u = range(2)
    index v = range(2)
    domain bv = bit
    graph G = chain(2)
    model m {{
      var x[i in G.nodes] : bit
      param J[(i, j) in G.edges, a in {sets}]
      factor J[1, 0, 0, 1] * x[0]
    }}
    """
    found = potentials(text, np.array([[1, 0]]), {"J": np.arange(4.0).reshape(1, 2, 2)})
    assert found.tolist() == [2.0 if turned else 1.0]
