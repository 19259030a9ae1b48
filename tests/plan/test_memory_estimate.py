"""The estimate of what a sum by elimination holds in memory, beside what XLA allots."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.plan import plan_elimination, sum_memory

MODEL = """
graph G = {graph}
model m {{
  var x[i in G.nodes] : range({values})
  param J[(i, j) in G.edges, a in range({values}), b in range({values})]
  param h[i in G.nodes, a in range({values})]
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
  factor h[i, x[i]] for i in G.nodes
}}
"""
MODELS = [
    ("grid(8, 8)", 2, 1),
    ("grid(10, 10)", 2, 1),
    ("grid(6, 6, wrap = true)", 3, 1),
    ("chain(200)", 20, 1),
    ("chain(200)", 20, 64),
    ("chain(1000)", 4, 256),
    ("chain(128, wrap = true)", 8, 16),
    ("chain(64, wrap = true)", 2, 1024),
    ("grid(4, 40)", 3, 8),
    ("grid(3, 100)", 4, 4),
    ("grid(5, 5)", 4, 4),
    ("grid(5, 5)", 2, 512),
    ("chain(500, wrap = true)", 5, 4),
    ("grid(9, 9)", 2, 8),
    ("chain(5000)", 2, 16),
    ("chain(40, wrap = true)", 16, 2),
    ("grid(2, 60)", 6, 4),
    ("chain(300)", 3, 100),
    ("grid(7, 7)", 2, 64),
    ("chain(90, wrap = true)", 12, 1),
]


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_in_full")
@pytest.mark.parametrize(("graph", "values", "rows"), MODELS, ids=str)
def test_the_estimate_is_within_a_factor_of_two(graph: str, values: int, rows: int) -> None:
    model = gm.parse(MODEL.format(graph=graph, values=values)).model().graph
    plan = plan_elimination(model)
    device, contraction = derive.graph_arrays(model), derive.contraction(model, plan)
    params = {p.name: jnp.zeros(p.shape) for p in model.parameters}
    codes = jnp.zeros((model.n_cells, rows), jnp.int32)
    compiled = jax.jit(lambda p: derive.log_sum(device, p, codes, contraction).sum()).lower(params).compile()
    measured = compiled.memory_analysis().temp_size_in_bytes
    assert 0.5 < sum_memory(model, plan, rows) / measured < 2.0
