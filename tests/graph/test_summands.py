"""Factors that are sums: each term is a factor of its own, and log p is that of the sum as it is written."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("float64")

HEAD = """
input n : int = 5
input w[i in range(n)] : real = [0.5, -1, 0.3, 0.8, -0.4]
index site = range(n)
graph G = chain(n)
model m {
  var   s[i in site] : spin
  var   z : range(3)
  param beta, h
  param J[(i, j) in G.edges]
  let   energy = -sum(J[i, j] * s[i] * s[j] for (i, j) in G.edges) - h * sum(w[i] * s[i] for i in site)
  let   total = sum(w[i] * s[i] for i in site)
  let   each[i in site] = s[i] * sum(w[j] * s[j] for j in site if j > i)
"""
J = np.array([0.4, -0.7, 0.2, 1.1])
W = np.array([0.5, -1, 0.3, 0.8, -0.4])


def energy(s: np.ndarray, h: float) -> float:
    return -(J * s[:-1] * s[1:]).sum() - h * (W * s).sum()


def pairs(s: np.ndarray) -> float:
    return sum(s[i] * W[j] * s[j] for i in range(5) for j in range(i + 1, 5))


# The factors, the number of cells of the largest factor that they are lowered to, and log p up to a constant.
FACTORS: dict[str, tuple[int, Any]] = {
    "factor -beta * energy": (2, lambda s, z, b, h: -b * energy(s, h)),
    "factor z * energy / 2": (3, lambda s, z, b, h: z * energy(s, h) / 2),
    "factor (beta + 0.5) * (energy - 0.1 * z)": (2, lambda s, z, b, h: (b + 0.5) * (energy(s, h) - 0.1 * z)),
    "factor beta * sum(w[i] * s[i] * s[j] for i in site, j in site if i < j)": (2, lambda s, z, b, h: b * pairs_of(s)),
    "factor sum(w[i] * s[i] * s[j] for j in site if j != i) for i in site if i > 0": (2, lambda s, z, b, h: rows_of(s)),
    "factor sum(s[i] * sum(w[j] * s[j] for j in site if j > i) for i in site)": (2, lambda s, z, b, h: pairs(s)),
    "factor each[i] for i in site": (5, lambda s, z, b, h: pairs(s)),
    "factor sum(s[j] for j in range(i)) * w[i] for i in site if i > 1": (
        4,
        lambda s, z, b, h: sum(W[i] * s[:i].sum() for i in range(2, 5)),
    ),
    "factor beta * sum(s[i] for i in site) ^ 2 / 4": (5, lambda s, z, b, h: b * s.sum() ** 2 / 4),
    "factor sum(s[i] for i in site) * sum(w[i] * s[i] for i in site)": (5, lambda s, z, b, h: s.sum() * (W * s).sum()),
    "factor if z == 1 then energy else 0": (6, lambda s, z, b, h: energy(s, h) if z == 1 else 0.0),
    "factor w[i] * total for i in site": (1, lambda s, z, b, h: W.sum() * (W * s).sum()),  # two loops over `i`
    "factor sum(w[i] for i in site) * z": (1, lambda s, z, b, h: W.sum() * z),
}


def pairs_of(s: np.ndarray) -> float:
    return sum(W[i] * s[i] * s[j] for i in range(5) for j in range(i + 1, 5))


def rows_of(s: np.ndarray) -> float:
    return sum(W[i] * s[i] * s[j] for i in range(1, 5) for j in range(5) if j != i)


@pytest.mark.parametrize("factor", FACTORS, ids=range(len(FACTORS)))
def test_log_p_is_that_of_the_sum(factor: str):
    largest, wanted = FACTORS[factor]
    model = gm.parse(f"{HEAD}  {factor}\n}}").model()
    cells = [len(set(row.tolist()) - {model.graph.n_cells}) for g in model.graph.factors for row in g.cells]
    assert max(cells) == largest
    beta, h = 0.7, -0.3
    states = [(np.array(s), z) for s in itertools.product((-1, 1), repeat=5) for z in range(3)]
    scores = np.array([wanted(s, z, beta, h) for s, z in states])
    x = {"s": np.array([s for s, _ in states]), "z": np.array([z for _, z in states])}
    found = model.log_prob({"beta": beta, "h": h, "J": J}, x)
    np.testing.assert_allclose(found, scores - np.logaddexp.reduce(scores), rtol=0, atol=1e-12)


LATTICE = """
graph G = grid(10, 10, wrap = true)
model {name} {{
  var s[i in G.nodes] : spin
  param beta, h
  {factor}
}}
"""


@pytest.mark.slow
def test_an_energy_is_as_cheap_as_its_terms():
    """The same groups of factors and elimination as where each term is written as a factor."""
    whole = gm.parse(
        LATTICE.format(name="whole", factor="factor beta * (sum(s[i] * s[j] for (i, j) in G.edges) + h * sum(s[i] for i in G.nodes))")
    )
    apart = gm.parse(
        LATTICE.format(name="apart", factor="factor beta * s[i] * s[j] for (i, j) in G.edges\n  factor beta * h * s[i] for i in G.nodes")
    )
    for one, other in zip(whole.model().graph.factors, apart.model().graph.factors, strict=True):
        assert one.n == other.n
        np.testing.assert_array_equal(np.sort(one.cells, axis=1), np.sort(other.cells, axis=1))
    params = {"beta": 0.3, "h": 0.2}
    assert float(whole.model().log_partition(params)) == pytest.approx(float(apart.model().log_partition(params)), rel=1e-12)


def test_a_sum_of_very_many_terms_is_left_whole():
    """Lets that double: 2^7 sums would be as many groups of factors."""
    lets = "  ".join(f"let a{k + 1} = a{k} + a{k}" for k in range(7))
    model = gm.parse(f"model m {{ var x[i in range(4)] : bit  let a0 = sum(x[i] for i in range(4))  {lets}  factor 0.01 * a7 }}").model()
    assert len(model.graph.factors) == 1
    assert float(model.log_partition({})) == pytest.approx(4 * np.log1p(np.exp(1.28)), rel=1e-12)


COVARIATES = """
model m {
  given z[k in range(50)] : real
  var x[i in range(4)] : bit
  param b[i in range(4), k in range(50)]
  let effect[i in range(4)] = sum(b[i, k] * z[k] for k in range(50))
  factor x[i] * sum(b[i, k] * z[k] for k in range(50)) for i in range(4)
  factor sum(x[i] * effect[i] for i in range(4))
}
"""


def test_a_sum_over_covariates_stays_whole():
    """Its terms mention no cell: apart they would be fifty factors of one cell, each with a number for every row."""
    graph = gm.parse(COVARIATES).model().graph
    assert [g.n for g in graph.factors] == [4, 4]
