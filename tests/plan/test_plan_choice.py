"""Which plan a block gets, and plans that a user asks for: all give the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.plan import plan_block, plan_update

TEXT = """
graph G = grid(3, 3)
model m {
  var x[i in G.nodes] : range(3)
  param J
  param h[i in G.nodes]
  factor J * (x[i] == x[j]) for (i, j) in G.edges
  factor h[i] * x[i] for i in G.nodes
}
mask rows = blocks(G.rows)
mask whole = everything(x)
sampler strips { update x[r] for r in G.rows }
sampler listed { update x[K] where K ~ rows }
"""
PARAMS = {"J": np.array(0.7), "h": np.linspace(-1, 1, 9)}


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("plan", thinned(["enumeration", "elimination"], 2, 1))
def test_a_plan_that_is_asked_for_gives_the_same_losses(plan: str) -> None:
    program = gm.parse(TEXT)
    x = np.random.default_rng(0).integers(0, 3, (5, 9))
    for mask in ("rows", "whole"):
        usual = program.model().loss(PARAMS, x, mask)
        np.testing.assert_allclose(program.model(plan=plan).loss(PARAMS, x, mask), usual, rtol=1e-12)


@pytest.mark.parametrize("plan", ["enumeration", "elimination"])
def test_a_plan_that_is_asked_for_is_taken(plan: str) -> None:
    model = gm.parse(TEXT).model(plan=plan)
    method = plan_block(model.graph, np.arange(9)).method
    assert method == plan
    sweep = model.sampler("strips")[1].body[0]
    assert (plan_update(model.lowered, sweep).plans[0].elimination is None) == (plan == "enumeration")


def test_the_choice_follows_the_cost() -> None:
    graph = gm.parse(TEXT).model().graph
    assert plan_block(graph, np.arange(3)).method == "enumeration"  # 27 joint values
    assert plan_block(graph, np.arange(9)).method == "elimination"  # 19 683, or tables of 27 and 81
    assert plan_block(graph, np.array([0, 4, 8])).method == "product"


def test_another_plan_is_refused() -> None:
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse(TEXT).model(plan="magic")
    assert caught.value.codes == ("E507",)
