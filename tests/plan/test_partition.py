"""log Z by elimination: against enumeration, transfer matrices and closed forms."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from cases import CASES, Case
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.plan import Budget, plan_elimination

pytestmark = pytest.mark.usefixtures("float64")

CHAIN = """
input n : int
graph G = chain(n, wrap = true)
model ring {
  var x[i in G.nodes] : range(3)
  param J[a in range(3), b in range(3)]
  param h[a in range(3)]
  factor J[x[i], x[(i + 1) % n]] + h[x[i]] for i in range(n)
}
"""


@pytest.mark.check
@pytest.mark.parametrize("case", thinned(CASES, 2), ids=str)
def test_log_partition_is_the_log_of_the_sum(case: Case):
    found = case.model.log_partition(case.params)
    np.testing.assert_allclose(found, case.oracle.log_partition(case.params), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", [c for c in CASES if c.normalised], ids=str)
def test_laws_given_cell_by_cell_are_normalised(case: Case):
    np.testing.assert_allclose(case.model.log_partition(case.params), 0, atol=1e-12)


@pytest.mark.check
def test_a_ring_is_the_trace_of_its_transfer_matrix():
    model = gm.parse(CHAIN, n=60).model()
    rng = np.random.default_rng(0)
    params = {"J": rng.normal(size=(3, 3)), "h": rng.normal(size=3)}
    values = np.linalg.eigvals(np.exp(params["J"] + params["h"]))
    expected = 60 * math.log(values.real.max()) + math.log((np.sum((values / values.real.max()) ** 60)).real)
    np.testing.assert_allclose(model.log_partition(params), expected, rtol=1e-12)


def test_strong_couplings_neither_overflow_nor_underflow():
    text = "graph G = grid(3, 3)\nmodel m { var x[i in G.nodes] : spin  param J  factor J * x[i] * x[j] for (i, j) in G.edges }"
    model = gm.parse(text).model()
    np.testing.assert_allclose(model.log_partition({"J": 1e4}), 12e4 + math.log(2), rtol=1e-14)
    np.testing.assert_allclose(model.log_partition({"J": -1e4}), 12e4 + math.log(2), rtol=1e-14)


def test_a_model_without_possible_configurations_has_log_partition_minus_infinity():
    model = gm.parse("model m { var a : bit  var b : bit  require a + b == 1  require a == b  factor 0.3 * a }").model()
    assert model.log_partition({}) == -np.inf


def test_a_factor_without_cells_is_counted():
    model = gm.parse("model m { param c  var a : bit  factor 3 * c  factor 0 * a }").model()
    np.testing.assert_allclose(model.log_partition({"c": 0.5}), 1.5 + math.log(2))


def test_the_plan_knows_its_cost():
    graph = gm.parse(CHAIN, n=60).model().graph
    plan = plan_elimination(graph)
    assert sorted(plan.cells) == list(range(60))
    assert plan.arity.max() == 3  # a ring has treewidth 2
    assert plan.flops == sum(3.0**n for n in plan.arity)
    assert plan.largest == 27


def test_too_costly_a_sum_is_refused_with_its_cost_before_it_starts():
    text = "index site = range(60)\ngraph G = complete(site)\nmodel m { var x[i in site] : spin  factor x[i] * x[j] for (i, j) in G.edges }"
    model = gm.parse(text).model()
    started = time.process_time()
    with pytest.raises(gm.GmlmError) as caught:
        model.log_partition({})
    assert time.process_time() - started < 4
    said = caught.value.diagnostics[0]
    assert said.code == "E601"
    assert "60 cells" in said.message
    assert "GiB" in said.message


def test_a_smaller_budget_refuses_earlier():
    graph = gm.parse(CHAIN, n=10).model().graph
    with pytest.raises(gm.GmlmError, match="operations"):
        plan_elimination(graph, budget=Budget(flops=100))


def test_the_gradient_of_log_partition_is_the_expected_statistic():
    import jax

    model = gm.parse(CHAIN, n=4).model()
    rng = np.random.default_rng(1)
    params = {"J": rng.normal(size=(3, 3)), "h": rng.normal(size=3)}
    states = np.stack(np.meshgrid(*4 * [range(3)], indexing="ij"), axis=-1).reshape(-1, 4)
    p = np.exp(np.asarray(model.log_prob(params, states)))
    expected = [p @ (states == a).sum(axis=1) for a in range(3)]
    np.testing.assert_allclose(jax.grad(model.log_partition)(params)["h"], expected, rtol=1e-12)
