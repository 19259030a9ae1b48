"""A cell that a factor, weight or index mentions in several places has one value in all of them; factors may have no cell at all."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from oracle import Oracle
from thinned import thinned

import gmlmdsl as gm

GRADED = """
index cut = range(3)
model m {
  var g : range(3)
  var y : range(4)
  param d[k in cut] : positive
  let u[c in range(5)] = if c == 0 then 1 else if c == 4 then 0 else sigmoid(g - 2 - d[c - 1])
  factor log(u[y] - u[y + 1])
}
mask one = subsets(size = 1)
"""


def test_a_let_over_a_cell_is_tried_with_one_value_of_the_cell() -> None:
    model = gm.parse(GRADED).model()
    params, x = {"d": np.array([1.0, 2.0, 3.0])}, {"g": [0, 0, 2, 1], "y": [1, 2, 1, 3]}
    np.testing.assert_allclose(model.log_potential(params, x), [-3.525, -4.484, -1.899, -4.018], atol=1e-3)
    with pytest.raises(gm.GmlmError) as caught:
        model.log_potential({"d": np.array([2.0, 1.0, 3.0])}, x)  # cuts that are not ordered: the difference is negative
    assert caught.value.codes == ("E514",)


def test_the_graded_model_agrees_with_enumeration() -> None:
    program = gm.parse(GRADED)
    oracle, params = Oracle(program.checked, None, {}), {"d": np.array([0.5, 1.5, 2.0])}
    with jax.enable_x64(True):
        loss = program.model().loss(params, {"g": oracle.states[:, 0], "y": oracle.states[:, 1]}, "one")
    assert float(loss) == pytest.approx(oracle.loss(params, oracle.states, "one"), abs=1e-12)


SAME = """
model m {
  var x[i in range(3)] : bit
  var k : range(3)
  param h
  let c[t in range(3)] = if t == 0 then x[1] else 1 - x[1]
  factor h * x[0] * k
}
"""


@pytest.mark.parametrize(
    "statement",
    [
        "mask a given x { choose {x[0]} weight sum(x[q] for q in range(3)) - x[0] }",
        "mask a given x { each x[0] rate (1 + sum(x[q] for q in range(2)) - x[1] - x[0]) / 2 }",
        "mask a given x, k { choose {x[0]} weight log(1 + c[k] - c[k] * x[1] + x[1] * c[k]) }",
    ],
)
def test_a_weight_is_judged_with_one_value_of_each_cell(statement: str) -> None:
    program = gm.parse(SAME + statement)
    oracle, params = Oracle(program.checked, None, {}), {"h": np.array(0.7)}
    x = {"x": oracle.states[:, :3], "k": oracle.states[:, 3]}
    with jax.enable_x64(True):
        assert float(program.model().loss(params, x, "a")) == pytest.approx(oracle.loss(params, oracle.states, "a"), abs=1e-12)


def test_an_index_is_judged_with_one_value_of_each_cell() -> None:
    text = SAME.replace("factor", "factor U[sum(x[q] for q in range(3)) - x[1] - x[0]]\n factor")
    program = gm.parse("input U[2] : real\n" + text, U=[0.3, -0.4])
    oracle, params = Oracle(program.checked, None, {"U": [0.3, -0.4]}), {"h": np.array(0.7)}
    x = {"x": oracle.states[:, :3], "k": oracle.states[:, 3]}
    np.testing.assert_allclose(program.model().log_prob(params, x), oracle.log_prob(params, oracle.states), atol=1e-6)
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse("input U[2] : real\n" + text.replace("- x[1] - x[0]", "- x[1]"), U=[0.3, -0.4]).model()
    assert caught.value.codes == ("E407",)


def test_which_slots_share_a_cell_may_differ_by_iteration() -> None:
    text = """input U[2] : real
    model m {
      var x[i in range(3)] : bit
      factor U[x[i] * x[0] - x[0] * x[i]] + log(1 + x[i] - x[i] * x[0] * x[i % 2]) for i in range(3)
    }"""
    program = gm.parse(text, U=[0.3, -0.4])
    oracle = Oracle(program.checked, None, {"U": [0.3, -0.4]})
    np.testing.assert_allclose(program.model().log_prob({}, oracle.states), oracle.log_prob({}, oracle.states), atol=1e-6)


def test_a_number_in_many_slots_of_one_cell_is_no_blow_up() -> None:
    text = "model m { var x : range(5)  param h  factor exp(h * sum((x - q) * (x + q) * x for q in range(30)) / 1000) / (1 + x) }"
    assert np.isfinite(gm.parse(text).model().log_partition({"h": 0.1}))


DEGENERATE = {
    "no cell": "factor b  factor h[0] * x[0] * x[1]  factor 0.4 for q in range(3)",
    "no cell, many": "factor h[i] for i in range(3)  factor b * x[1] * x[2]",
    "no cell alone": "factor b",
    "sum of no turn": "factor sum(b * x[q] for q in range(3) if q > 5)  factor sum(b * x[q] * x[0] for q in range(3) if q > i) for i in range(3)",
    "no turn": "factor b * x[i] for i in range(3) if i > 5",
    "one cell many times": "factor sum(b * h[x[1]] for q in range(4) if q != i) for (i, j) in G.edges  factor h[x[0]] * x[0] * (x[0] + 1)",
    "many alike": "factor b * x[1] * x[2] for i in range(7)  factor b * x[0] for q in range(2)",
    "let": "let c = sum(b for q in range(2))  factor c  factor c * x[0] * x[1]",
    "picked": "factor b * x[x[0]]  factor sum(b * x[x[q]] for q in range(3) if q > 2)  factor b",
    "require": "factor b * x[0] * x[1]  require 1 < 2  require sum(x[q] for q in range(3) if q > 5) == 0",
}  # fmt: skip
FORMS = """
graph G = chain(3, wrap = true)
model m {{ var x[i in G.nodes] : range(3)  param b  param h[i in range(3)]  {} }}
mask two = subsets(size = 2)
mask look given x {{ choose {{x[0]}} weight 1 + x[1]  choose {{x[0], x[1]}} weight 0.5 }}
mask mix = mixture {{ 1 : two  1 : look  2 : bernoulli(rate = 0.4) }}
sampler cells {{ update x[i] for i in range(3) }}
sampler drawn {{ update K where K ~ two  update x[K] where K ~ look }}
"""


@pytest.mark.parametrize("kind", thinned(DEGENERATE, 2))
def test_degenerate_factors_agree_with_enumeration(kind: str) -> None:
    program = gm.parse(FORMS.format(DEGENERATE[kind]))
    model, oracle = program.model(), Oracle(program.checked, None, {})
    params, x = oracle.random_params(1), oracle.states
    with jax.enable_x64(True):
        np.testing.assert_allclose(model.log_prob(params, x), oracle.log_prob(params, x), atol=1e-12)
        for mask in ("two", "mix"):  # from tables, and by trees
            assert float(model.loss(params, x, mask)) == pytest.approx(oracle.loss(params, x, mask), abs=1e-12), mask


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.filterwarnings("ignore::gmlmdsl.sample._draw.SamplingWarning")  # 400 draws are few: what is asked of them is coarse
@pytest.mark.parametrize("kind", DEGENERATE)
def test_degenerate_factors_in_every_other_verb(kind: str) -> None:
    program = gm.parse(FORMS.format(DEGENERATE[kind]))
    model, oracle = program.model(), Oracle(program.checked, None, {})
    params, x = oracle.random_params(1), oracle.states
    p = oracle.probabilities(params)
    with jax.enable_x64(True):
        assert float(model.log_partition(params)) == pytest.approx(oracle.log_partition(params), abs=1e-12)
        marginals = model.marginals(params)["x"]
        np.testing.assert_allclose(marginals, [[p[x[:, i] == v].sum() for v in range(3)] for i in range(3)], atol=1e-12)
        assert float(model.map(params)[1]) == pytest.approx(oracle.log_prob(params, x).max(), abs=1e-12)
        found = model.log_conditional(params, x, K=(0, 1))
        np.testing.assert_allclose(found, oracle.log_conditional(params, x, (0, 1)), atol=1e-12)
    for sampler in ("cells", "drawn"):
        found = model.transition_matrix(params, sampler)
        np.testing.assert_allclose(found, oracle.transition_matrix(params, sampler), atol=1e-12)
    for sampler in ("cells", "drawn", "exact"):
        draws = model.sample(params, sampler, draws=400, chains=4, seed=0).posterior["x"].to_numpy()
        assert np.abs((draws[..., None] == np.arange(3)).mean(axis=(0, 1)) - marginals).max() < 0.1
    half = x[: len(x) // 2]
    fit = model.fit(half, "two")
    assert model.loss(fit.params, half, "two") <= model.loss(params, half, "two")
    gm.theory.fisher_information(model, params)
    gm.theory.asymptotic_covariance(model, params, mask="two")
    gm.theory.spectral_gap(model, params, sampler="cells")
