"""Neighbours straight from factors' arrays: the same scores as from contexts that were found by sorting."""

from __future__ import annotations

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.graph.colours import colour
from gmlmdsl.plan import SweepPlan, _sweep_layout, plan_update
from gmlmdsl.plan._cell_lists import cell_lists
from gmlmdsl.plan._sweep_layout import SweepTables, TabledColours, plan_layout
from gmlmdsl.program import ir

PROGRAMS = {
    "pairs": """
graph G = grid(3, 4)
model m {
  var x[i in G.nodes] : range(3)
  param h[i in G.nodes, a in range(3)]
  param J[(i, j) in G.edges, a in range(3), b in range(3)]
  factor h[i, x[i]] for i in G.nodes
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
sampler sweep { update x[i] for i in G.nodes }
""",
    "unlike domains, two and three neighbours in a factor": """
model m {
  var a : range(5)
  var x[i in range(6)] : bit
  var y : range(3)
  param W[i in range(6), c in range(5)]
  factor W[i, a] * x[i] for i in range(6)
  factor 0.7 * x[i] * x[i + 1] * x[i + 2] for i in range(4)
  factor (if x[0] == 1 then a else 2 * y) + 0.3 * x[5]
  factor 0.2 * y
  factor 0.1 * y * y
}
sampler sweep { update a  update x[i] for i in range(6)  update y }
""",
}


def tables_of(text: str) -> tuple[gm.Model, list[SweepTables]]:
    """Of each update."""
    model = gm.parse(text).model()
    body = model.sampler("sweep")[1].body
    assert isinstance(body, tuple)
    plans = [plan_update(model.lowered, k) for k in body if isinstance(k, ir.Sweep)]
    found = [p.layout.tables for p in plans if isinstance(p, SweepPlan)]
    return model, [t for t in found if t is not None]


def scores(stage: TabledColours, entries: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Of each value at codes by slots, shape (colours, blocks, values)."""
    total = entries[stage.inside].sum(axis=2)
    for k in stage.lists:
        value = (codes[k.slots] * k.strides).sum(axis=-1)  # colours, blocks, degree
        total = total + np.take_along_axis(entries[k.places].sum(axis=2), value[:, :, None, :, None], axis=4)[..., 0].sum(axis=3)
    return total


@pytest.mark.parametrize("name", PROGRAMS)
def test_scores_are_those_of_contexts_found_by_sorting(name: str, monkeypatch: pytest.MonkeyPatch):
    """At random entries, for every value that a cell has."""
    model, direct = tables_of(PROGRAMS[name])
    monkeypatch.setattr(_sweep_layout, "cell_lists", lambda *a: None)
    _, sorted_ = tables_of(PROGRAMS[name])
    rng, sizes = np.random.default_rng(1), np.append(model.graph.sizes, 1)
    assert len(direct) == len(sorted_) > 0
    assert all(cell_lists(model.graph, t.tables.tables, t.tables.size, t.stages[0].cells.ravel()) is not None for t in direct)
    for a, b in zip(direct, sorted_, strict=True):
        entries = np.append(rng.normal(size=a.tables.size), 0)
        for _ in range(5):
            codes = rng.integers(0, sizes[a.order])
            for s, t in zip(a.stages, b.stages, strict=True):
                has = np.arange(s.inside.shape[-1]) < sizes[s.cells][..., None]
                np.testing.assert_allclose(scores(s, entries, codes)[has], scores(t, entries, codes)[has], rtol=0, atol=1e-12)


@pytest.mark.parametrize("more", ["factor 0.5 * x[i] * x[j] for (i, j) in G.edges", "factor 0.5 * x[0] * x[0] * x[1]"])
def test_factors_of_the_same_cells_are_left_to_sorting(more: str):
    """Two factors of one edge, and one that holds a cell twice or shares its cells with another."""
    text = f"graph G = chain(4)\nmodel m {{ var x[i in G.nodes] : spin param J factor J * x[i] * x[j] for (i, j) in G.edges {more} }}"
    model, (tables,) = tables_of(f"{text}\nsampler sweep {{ update x[i] for i in G.nodes }}")
    assert cell_lists(model.graph, tables.tables.tables, tables.tables.size, np.arange(4)) is None


def test_no_place_lies_behind_all_tables_where_cells_of_one_colour_have_unlike_values():
    text = """
    model m {
      var s : bit
      var w : range(4)
      var k : range(3)
      param c
      factor c * w
      factor c * k * (w == 2)
      factor 0.3 * s
    }"""
    graph = gm.parse(text).model().graph
    cells = np.arange(graph.n_cells, dtype=np.int32)[:, None]
    tables = plan_layout(graph, cells, colour(graph, cells), ()).tables
    assert tables is not None
    for stage in tables.stages:
        assert stage.inside.max() <= tables.tables.size
        assert all(k.places.max() <= tables.tables.size for k in stage.lists)
