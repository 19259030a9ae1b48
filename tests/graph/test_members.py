"""Parameters whose axes depend on one another, at indices that cells compute."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gmlmdsl as gm

BLOCKS = """
graph G = complete(range(4))
model blocks {
  latent z[i in range(4)] : range(3)
  var tie[(i, j) in G.edges] : bit
  param B[a in range(3), b in range(a, 3)] ~ normal(0, 1)
  z[i] ~ categorical([0.5, 0.3, 0.2]) for i in range(4)
  tie[i, j] ~ bernoulli(logit = B[min(z[i], z[j]), max(z[i], z[j])]) for (i, j) in G.edges
}
mask one = subsets(tie, size = 1)
"""


def test_a_triangle_of_parameters_serves_blocks():
    """log p of ties by enumeration of the 81 assignments; B has six entries, in the order (0, 0), (0, 1), .., (2, 2)."""
    model = gm.parse(BLOCKS).model()
    values = np.array([0.3, -0.9, 1.2, 0.1, -0.4, 0.8])
    full = np.zeros((3, 3))
    full[np.triu_indices(3)] = values
    ties = np.array([1, 0, 0, 1, 1, 0])
    pairs = list(itertools.combinations(range(4), 2))
    total = 0.0
    for z in itertools.product(range(3), repeat=4):
        p = np.prod([[0.5, 0.3, 0.2][k] for k in z])
        for tie, (i, j) in zip(ties, pairs, strict=True):
            logit = full[min(z[i], z[j]), max(z[i], z[j])]
            p *= 1 / (1 + np.exp(-logit if tie else logit))
        total += p
    np.testing.assert_allclose(float(model.log_prob({"B": values}, ties)), np.log(total), rtol=1e-6)


def test_a_fixed_index_may_stand_beside_one_of_a_cell():
    model = gm.parse(
        "model m { var z : range(3)  param B[a in range(3), b in range(a, 3)]  factor B[0, z]  factor if z > 0 then B[1, z] else 0 }"
    ).model()
    values = np.arange(6) / 10
    found = [float(model.log_potential({"B": values}, k)) for k in range(3)]
    np.testing.assert_allclose(found, [0.0, 0.1 + 0.3, 0.2 + 0.4], rtol=1e-6)


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        ("factor B[z, y]", "E414.*what is not a member"),
        ("factor B[z + 1, z + 1]", "E407.*can be 3, outside 0..2"),
        ("factor if z <= y then B[z, y] else 0", ""),
    ],
)
def test_indices_name_members_at_all_values(factor: str, said: str):
    text = f"model m {{ var z, y : range(3)  param B[a in range(3), b in range(a, 3)]  {factor} }}"
    if not said:
        assert gm.parse(text).model().graph.factors[0].n == 1
        return
    with pytest.raises(gm.GmlmError, match=f"(?s){said}"):
        gm.parse(text).model()


def test_members_may_begin_anywhere():
    """A table for the indices that there are, and messages with the indices of the user."""
    text = "model m {{ var x[i in range(2)] : range({0}, {1})  param B[a in range({0}, {1}), b in range(a, {1})]  factor B[{2}] }}"
    for start in (10000, -1):
        model = gm.parse(text.format(start, start + 3, "min(x[0], x[1]), max(x[0], x[1])")).model()
        found = float(model.log_potential({"B": np.arange(6) / 10}, [start + 2, start + 1]))
        assert found == pytest.approx(0.4)
    for index, said in (("5, x[1]", "is 5, outside -1..1"), ("x[0] + 1, x[1]", r"can be 2, outside -1..1")):
        with pytest.raises(gm.GmlmError, match=said):
            gm.parse(text.format(-1, 2, index)).model()
