"""The work of a statement is foretold from the cells in it, each counted once."""

from __future__ import annotations

import math

import pytest

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source
from gmlmdsl.graph import bind
from gmlmdsl.plan._check_size import _Work, too_large
from gmlmdsl.program import check_source

CHAINS = """index time = range(200)
model chains {{
  latent a[t in time] : range(2)
  latent b[t in time] : range(3)
  latent c[t in time] : range(4)
  let u[t in time] = a[t] + b[t] + c[t]
  let v[t in time] = a[t] * b[t] * c[t] + u[t]
  factor {} for t in time
}}
"""


@pytest.mark.parametrize(
    ("term", "values"),
    [
        ("log(1 + u[t] + v[t] + u[t] * v[t])", 24),
        ("log(1 + a[t] * b[t] * c[t] + a[t] * b[t] * c[t])", 24),
        ("log(1 + u[t] + u[(t + 1) % 200])", 24**2),
        ("log(1 + sum(a[s] for s in range(10)) + sum(a[s] for s in range(10)) * a[t])", 2**11),
        ("log(1 + sum(u[t] for s in range(10)))", 24),
        ("log(1 + sum(a[s] + a[199 - s] for s in time))", 2**200),
    ],
)
def test_each_cell_counts_once(term: str, values: int) -> None:
    program = check_source(Source("p.gmlm", CHAINS.format(term)))
    (factor,) = program.models["chains"].factors
    _, found = _Work(bind(program, {}), program.models["chains"]).work(factor.value)
    assert math.isclose(found, values)


@pytest.mark.parametrize(
    ("statement", "few"),
    [
        ("factor k * x[r] * x[c] for r in range(4) for c in range(r)", True),
        ("factor k * sum(x[c] * x[d] for c in range(r) for d in range(c, 5)) for r in range(3)", True),
        ("factor k * sum(x[j] for j in G.neighbours(i)) for i in G.nodes", True),
        ("let u[r in range(3)] = sum(x[c] for c in range(r + 1))  factor u[2] * k", True),
        ("factor k * sum(x[0] for c in range(r * r * r * r)) for r in range(60)", False),
    ],
)
def test_loops_whose_end_depends_on_another_are_counted(statement: str, few: bool):
    text = f"graph G = chain(9)\nmodel m {{\n  var x[i in G.nodes] : spin\n  param k\n  {statement}\n}}\n"
    bound = bind(check_source(Source("m.gmlm", text)), {})
    assert bool(too_large(bound, "m")) != few


def test_a_loop_over_which_another_runs_is_used():
    text = "model m {\n  var x[i in range(4)] : spin\n  param k\n  factor k * x[c] for r in range(1, 4) for c in range(r)\n}\n"
    assert "W817" not in [d.code for d in check_source(Source("m.gmlm", text)).warnings]


def test_branches_in_loops_over_which_others_run_are_looked_at():
    text = "model m {\n  var x[i in range(4)] : spin\n  param k\n  factor (if r == 9 then 1 else k) * x[c] for r in range(1, 4) for c in range(r)\n}\n"
    model = gm.parse(text).model()
    assert "W820" in [d.code for d in model.warnings]
