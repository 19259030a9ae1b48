"""The work of a statement is foretold from the cells in it, each counted once."""

from __future__ import annotations

import math

import pytest

from gmlmdsl._diagnostics import Source
from gmlmdsl.graph import bind
from gmlmdsl.plan._check_size import _Work
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
