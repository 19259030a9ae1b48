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
    ("complete(8)", 3, 1),
    ("complete(12)", 2, 16),
    ("complete(6)", 4, 64),
    ("triangular(6, 6)", 2, 8),
    ("triangular(5, 12)", 3, 1),
    ("triangular(7, 7)", 2, 1),
    ("chain(400)", 8, 2),
    ("triangular(4, 20)", 2, 64),
    ("chain(700)", 6, 8),
    ("chain(60)", 32, 1),
    ("chain(2000)", 3, 4),
    ("chain(31)", 7, 300),
    ("grid(2, 200)", 3, 8),
    ("grid(3, 30)", 5, 1),
    ("grid(3, 40, wrap = true)", 2, 16),
    ("grid(4, 12)", 4, 2),
    ("grid(4, 4, wrap = true)", 3, 32),
    ("grid(5, 20)", 2, 64),
    ("grid(5, 7)", 3, 16),
    ("grid(6, 30)", 2, 4),
    ("grid(6, 6)", 3, 2),
    ("grid(7, 9)", 2, 16),
    ("grid(8, 20)", 2, 1),
    ("grid(8, 8, wrap = true)", 2, 1),
    ("grid(11, 11)", 2, 1),
    ("grid(12, 12)", 2, 1),
    ("chain(120, wrap = true)", 5, 50),
    ("chain(250, wrap = true)", 3, 12),
    ("chain(17, wrap = true)", 20, 6),
    ("chain(1500, wrap = true)", 2, 8),
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
