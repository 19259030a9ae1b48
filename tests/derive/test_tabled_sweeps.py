"""Sweeps of single cells that read tables: they draw what sweeps draw that evaluate the factors' trees, number for number, and keep p."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import BY_NAME, Case, case
from one_step import LEAST_P, RING, keeps_p
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.derive import _kernels, _samplers, _tabled_sweep
from gmlmdsl.plan import SweepPlan, _sweep_layout, plan_update
from gmlmdsl.program import ir

EQUAL = case(
    "equal",
    """
graph G = chain(5, wrap = true)
model equal {
  var x[i in G.nodes] : range(3)
  param h[i in G.nodes, a in range(3)]
  param J[(i, j) in G.edges]
  factor h[i, x[i]] for i in G.nodes
  factor J[i, j] * (x[i] == x[j]) for (i, j) in G.edges
}
sampler sweep { update x[i] for i in G.nodes }
""",
    seed=8,
)
CHAINS = 64
LATTICE = BY_NAME["lattice"]
ALL = 10**6  # products where cells are many times more than neighbours
PROGRAMS = {
    "pairs of three values": """
graph G = chain(5, wrap = true)
model m {
  var x[i in G.nodes] : range(3)
  param h[i in G.nodes, a in range(3)]
  param J[(i, j) in G.edges, a in range(3), b in range(3)]
  factor h[i, x[i]] for i in G.nodes
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
sampler sweep { update x[i] for i in G.nodes }
""",
    "pairs with some not possible": """
graph G = complete(range(4))
model m {
  var x[i in range(4)] : range(3)
  param J[(i, j) in G.edges, a in range(3), b in range(3)]
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
  require not (x[0] == 2 and x[1] == x[3])
}
sampler sweep { update x[i] for i in range(4) }
""",
    "three spins in a factor": """
index site = range(7)
model m {
  var x[i in site] : spin
  param J[i in site]
  factor J[i] * x[i] * x[i + 1] * x[i + 2] for i in site if i < 5
  factor 0.2 * x[i] for i in site
}
sampler sweep { update x[i] for i in site }
""",
    "many values, and some not possible": """
index site = range(3)
model m {
  var a : range(12)
  var b[i in site] : bit
  param W[i in site, c in range(12), d in range(2)]
  factor W[i, a, b[i]] for i in site
  require a != 4
  require not (a == 0 and b[1] == 1)
}
sampler sweep { update a  update b[i] for i in site }
sampler both { update b[i] for i in site }
""",
    "a hub of eighteen, of unlike domains": """
index leaf = range(18)
model m {
  var hub : range(3)
  var x[i in leaf] : bit
  var y : range(4)
  param W[i in leaf, c in range(3), d in range(2)]
  factor W[i, hub, x[i]] for i in leaf
  factor 0.3 * hub * y - 0.1 * x[0] * y
}
sampler sweep { update hub  update x[i] for i in leaf  update y }
""",
}
FORMED = {
    "neighbours of equal values": """
graph G = chain(5, wrap = true)
model m {
  var x[i in G.nodes] : range(4)
  var y : range(3)
  param h[i in G.nodes, a in range(4)]
  param J[(i, j) in G.edges]
  param c
  factor h[i, x[i]] for i in G.nodes
  factor J[i, j] * (x[i] == x[j]) for (i, j) in G.edges
  factor c * (x[0] == y)
}
sampler sweep { update x[i] for i in G.nodes  update y }
""",
    "two neighbours in a factor": """
model m {
  var x[i in range(5)] : range(3)
  var b[i in range(6)] : bit
  param J[i in range(5)]
  factor J[i] * (x[i] == 1) * (b[i] == b[i + 1]) for i in range(5)
  factor 0.3 * x[i] * b[i] for i in range(5)
}
sampler sweep { update x[i] for i in range(5)  update b[i] for i in range(6) }
""",
    "equal values, and some not possible": """
model m {
  var x[i in range(5)] : range(3)
  param J
  factor J * (x[i] == x[i + 1]) for i in range(5) if i < 4
  require not (x[0] == 0 and x[1] == 2)
}
sampler sweep { update x[i] for i in range(5) }
""",
}
FORMED["cells that are all alike"] = """
graph G = chain(12, wrap = true)
model m {
  var x[i in G.nodes] : range(3)
  param J
  param h[a in range(3)]
  factor J * (x[i] == x[j]) for (i, j) in G.edges
  factor h[x[i]] for i in G.nodes
}
sampler sweep { update x[i] for i in G.nodes }
"""
FORMED["many values, of which equal ones count"] = """
graph G = chain(16)
model m {
  var x[i in G.nodes] : range(12)
  param J
  param h[i in G.nodes, a in range(12)]
  factor J * (x[i] == x[j]) for (i, j) in G.edges
  factor h[i, x[i]] for i in G.nodes
}
sampler sweep { update x[i] for i in G.nodes }
"""
FORMS = {  # whether weights are multiplied, comparisons for each value of the first stage's first neighbours, whether its cells are alike
    "neighbours of equal values": (True, [2, 1, 1, 1], False),
    "two neighbours in a factor": (True, [1, 1], False),
    "equal values, and some not possible": (True, [2, 2], False),
    "cells that are all alike": (True, [2, 2], True),
    "many values, of which equal ones count": (True, [1] * 12, False),
}
PAIRS = ("pairs of three values", "pairs with some not possible")  # products need neighbours that are single cells, all with as many values
WAYS = (
    [(name, "sweep", 0) for name in PROGRAMS]
    + [("many values, and some not possible", "both", 0)]
    + [(name, "sweep", ALL) for name in PAIRS]
)
step = eqx.filter_jit(lambda kernel, target, keys, state: kernel.prepared(target).step(target, keys, state))


def layout_of(model: gm.Model, sampler: str) -> list[_sweep_layout.SweepLayout]:
    """Of each of a sampler's updates."""
    body = model.sampler(sampler)[1].body
    assert isinstance(body, tuple)
    plans = [plan_update(model.lowered, k) for k in body if isinstance(k, ir.Sweep)]
    return [p.layout for p in plans if isinstance(p, SweepPlan)]


def target_of(model: gm.Model, held: int | None, beta: float | None) -> derive.Target:
    """At some parameters."""
    rng = np.random.default_rng(5)
    params = {p.name: jnp.asarray(rng.normal(size=p.shape)) for p in model.graph.parameters}
    clamped = None if held is None else jnp.arange(model.graph.n_cells + 1) == held
    return derive.Target(derive.graph_arrays(model.graph), params, clamped, None if beta is None else jnp.full(CHAINS, beta))


@pytest.mark.parametrize(("name", "sampler", "beside"), thinned(WAYS, 8, 2))
def test_tables_draw_what_trees_draw(name: str, sampler: str, beside: int, monkeypatch: pytest.MonkeyPatch):
    """In float64 from the same numbers: every code, at another beta and with a cell held too."""
    monkeypatch.setattr(_sweep_layout, "MOST_BESIDE", beside)
    model = gm.parse(PROGRAMS[name]).model()
    graph, layouts = model.graph, layout_of(model, sampler)
    by_product = [layout.tables is not None and layout.tables.by_product for layout in layouts]
    assert any(by_product) == (beside == ALL)
    with jax.enable_x64(True):
        tabled = [_samplers._sweep(graph, layout) for layout in layouts]
        trees = [_samplers._sweep(graph, replace(layout, tables=None)) for layout in layouts]
        assert all(isinstance(k, _tabled_sweep.TabledSweepKernel) for k in tabled)
        assert all(isinstance(k, _kernels.SweepKernel) for k in trees)
        kernels = [_kernels.CycleKernel(tuple(parts)) for parts in (tabled, trees)]
        codes = jnp.asarray(np.random.default_rng(0).integers(0, graph.sizes[:, None], (graph.n_cells, CHAINS)), jnp.int32)
        keys = jax.random.split(jax.random.key(2), CHAINS)
        for held, beta in ((None, None), (1, 0.6)):
            target = target_of(model, held, beta)
            (found, info), (expected, other) = (step(k, target, keys, k.init(codes)) for k in kernels)
            np.testing.assert_array_equal(found.codes, expected.codes)
            np.testing.assert_array_equal(info.changed, other.changed)
            np.testing.assert_array_equal(info.drawn, other.drawn)
            assert found.codes.dtype == expected.codes.dtype
            assert (np.asarray(found.codes) != np.asarray(codes)).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(FORMED, 4, 3))
def test_forms_at_parameters_draw_what_trees_draw(name: str, monkeypatch: pytest.MonkeyPatch):
    """In float64: products of weights with few comparisons, and sums at another beta with a cell held; colours made apart, as large ones are."""
    monkeypatch.setattr(_tabled_sweep, "LEAST_SHARED", 1)
    model = gm.parse(FORMED[name]).model()
    graph, layouts = model.graph, layout_of(model, "sweep")
    with jax.enable_x64(True):
        target = target_of(model, None, None)
        tabled = [_samplers.at_parameters(graph, _samplers._sweep(graph, layout), target.params) for layout in layouts]
        first = tabled[0]
        assert isinstance(first, _tabled_sweep.TabledSweepKernel)
        assert first.form is not None
        assert (first.form.weighed, [len(others) for _, others in first.form.exceptions[0][0]], first.form.alike[0]) == FORMS[name]
        trees = [_samplers._sweep(graph, replace(layout, tables=None)) for layout in layouts]
        kernels = [_kernels.CycleKernel(tuple(parts)) for parts in (tabled, trees)]
        codes = jnp.asarray(np.random.default_rng(0).integers(0, graph.sizes[:, None], (graph.n_cells, CHAINS)), jnp.int32)
        keys = jax.random.split(jax.random.key(2), CHAINS)
        for at in (target, target_of(model, 1, 0.6)):
            found, expected = (step(k, at, keys, k.init(codes))[0].codes for k in kernels)
            np.testing.assert_array_equal(found, expected)
            assert (np.asarray(found) != np.asarray(codes)).any()


def test_cells_planned_some_at_a_time_are_drawn_alike(monkeypatch: pytest.MonkeyPatch):
    """Chunks whose cells have one neighbour, or two, are filled up to the most."""
    text = PROGRAMS["pairs of three values"].replace("chain(5, wrap = true)", "chain(9)")
    model = gm.parse(text).model()
    target, keys = target_of(model, None, None), jax.random.split(jax.random.key(2), CHAINS)
    codes = jnp.asarray(np.random.default_rng(0).integers(0, 3, (9, CHAINS)), jnp.int32)
    drawn = []
    for at_once in (100, 2):
        monkeypatch.setattr(_sweep_layout, "MOST_PLANNED_CELLS", at_once)
        kernel = _samplers._sweep(model.graph, layout_of(gm.parse(text).model(), "sweep")[0])
        assert isinstance(kernel, _tabled_sweep.TabledSweepKernel)
        drawn.append(np.asarray(step(kernel, target, keys, kernel.init(codes))[0].codes))
    np.testing.assert_array_equal(*drawn)


def test_many_values_are_read_from_lists_where_few_entries_differ():
    """One comparison for each value where equality counts; with all values where every entry differs, for which trees are quicker."""
    for values, factor, tabled in ((12, "J * (x[i] == x[j])", True), (12, "J * x[i] * x[j] % 7", False), (10, "T[x[i], x[j]]", False)):
        text = f"graph G = chain(16) model m {{ var x[i in G.nodes] : range({values}) param J param T[a in range(10), b in range(10)] "
        text += f"factor {factor} for (i, j) in G.edges }} sampler sweep {{ update x[i] for i in G.nodes }}"
        (layout,) = layout_of(gm.parse(text).model(), "sweep")
        assert (layout.tables is not None) == tabled, factor


@pytest.mark.parametrize(("strength", "weighed"), [(5.0, True), (25.0, False)])
def test_weights_that_may_overflow_are_not_multiplied(strength: float, weighed: bool):
    """Of four neighbours: exp(4 x 25) is no number of 32 bits."""
    text = "input L : int\ngraph G = grid(L, L, wrap = true)\nmodel m { var x[i in G.nodes] : range(3) param J "
    text += "factor J * (x[i] == x[j]) for (i, j) in G.edges } sampler sweep { update x[i] for i in G.nodes }"
    model = gm.parse(text, L=4).model()
    kernel = derive.build_kernel(model.lowered, model.sampler("sweep")[1], {"J": np.array(strength)}).kernel
    assert isinstance(kernel, _tabled_sweep.TabledSweepKernel)
    assert kernel.form is not None
    assert kernel.form.weighed is weighed
    target = derive.Target(derive.graph_arrays(model.graph), {"J": jnp.asarray(strength)}, None)
    codes = step(kernel, target, jax.random.split(jax.random.key(2), CHAINS), kernel.init(jnp.ones((16, CHAINS), jnp.int32)))[0].codes
    assert (np.asarray(codes) == 1).mean() > 0.999  # neighbours that are alike keep a cell


@pytest.mark.check
@pytest.mark.usefixtures("compiled_in_full")
@pytest.mark.parametrize(("of", "beside"), thinned([(EQUAL, 0), (RING, 0), (RING, ALL), (LATTICE, 0), (LATTICE, ALL)], 5, 2), ids=str)
def test_one_step_from_p_stays_in_p(of: Case, beside: int, monkeypatch: pytest.MonkeyPatch):
    """In float32, compiled with all optimisations: 200 000 chains, chi-square against p."""
    monkeypatch.setattr(_sweep_layout, "MOST_BESIDE", beside)
    (layout,) = layout_of(of.model, "sweep")
    assert layout.tables is not None
    assert layout.tables.by_product == (beside == ALL)
    assert keeps_p(of, "sweep", 200_000) > LEAST_P


def test_a_penalty_written_as_a_number_is_read_by_lists():
    """Products take differences of entries: beside one of a million the others would lose their digits."""
    text = "graph G = complete(range(5))\nmodel m {{ var x[i in range(5)] : bit factor {0} * x[i] * x[j] for (i, j) in G.edges }}\n"
    text += "sampler sweep {{ update x[i] for i in range(5) }}"
    small, large = (layout_of(gm.parse(text.format(c)).model(), "sweep")[0].tables for c in ("0.3", "-1000000"))
    assert small is not None
    assert large is not None
    packed = "; chains packed 32 in a word at parameters where couplings are few numbers"
    assert small.words == f"scores by products of tables with all 5 cells{packed}"
    assert large.words == f"scores from tables by lists of 4 neighbours{packed}"


@pytest.mark.slow
@pytest.mark.parametrize("graph", thinned(["complete(s)", "chain(4)"], 2))
def test_a_penalty_given_as_a_parameter_costs_no_digits(graph: str):
    """Beside entries of ten millions, on cells' first value, the others keep theirs: draws follow the exact law."""
    model = gm.parse(f"""
index s = range(4)
graph G = {graph}
model m {{
  var x[i in s] : range(3)
  param J
  factor (if x[i] == 0 and x[j] == 0 then J else 0.4 * (x[i] == x[j])) for (i, j) in G.edges
}}
sampler sweep {{ update x[i] for i in s }}
""").model()
    params = {"J": np.array(-1e7)}
    cells = np.stack(np.meshgrid(*[range(3)] * 4, indexing="ij"), -1).reshape(-1, 4)
    exact = np.exp(np.asarray(model.log_potential({"J": np.array(-1e3)}, cells), float))  # as good as impossible, and exact in 32 bits
    x = model.sample(params, "sweep", draws=500, thin=3, chains=40, seed=6, progress=False)["posterior"]["x"].values.reshape(-1, 4)
    counts = np.bincount(x @ 3 ** np.arange(3, -1, -1), minlength=81)
    some = exact > 1e-9
    assert not counts[~some].any()
    away = counts[some] / counts.sum() - exact[some] / exact.sum()
    assert np.abs(away).sum() < 0.1


def test_neighbours_with_fewer_values_are_read_by_lists(monkeypatch: pytest.MonkeyPatch):
    """The state of a sweep by products is indicators of as many values as a neighbour has: they cannot say which of twelve a cell has."""
    monkeypatch.setattr(_sweep_layout, "MOST_BESIDE", ALL)
    layouts = layout_of(gm.parse(PROGRAMS["many values, and some not possible"]).model(), "sweep")
    assert [t is not None and t.by_product for t in (layout.tables for layout in layouts)] == [False, True]


def test_a_cell_has_no_value_that_only_others_of_its_colour_have():
    """Two cells of three and four values that share no factor are redrawn at once."""
    model = gm.parse("model m { var a : range(3) var b : range(4) factor 0.5 * a factor 0.2 * b }").model()
    kernel, target = derive.single_site_sweep(model.graph), target_of(model, None, None)
    assert isinstance(kernel, _tabled_sweep.TabledSweepKernel)
    assert len(kernel.stages) == 1
    codes = step(kernel, target, jax.random.split(jax.random.key(2), CHAINS), kernel.init(jnp.zeros((2, CHAINS), jnp.int32)))[0].codes
    np.testing.assert_array_equal(np.asarray(codes).max(axis=1), [2, 3])


def test_equal_cells_of_many_neighbours_share_their_constant():
    """Three cells, each beside 121 others, more than are written out: one constant serves all three."""
    text = "model hubs { var x[i in range(121)] : spin var y[k in range(3)] : range(4) param J "
    text += "factor J * x[i] * y[k] for i in range(121), k in range(3) } sampler both { update y[k] for k in range(3) }"
    model = gm.parse(text).model()
    graph, (layout,) = model.graph, layout_of(model, "both")
    with jax.enable_x64(True):
        target = derive.Target(derive.graph_arrays(graph), {"J": jnp.asarray(0.07)}, None)
        tabled = _samplers.at_parameters(graph, _samplers._sweep(graph, layout), target.params)
        assert isinstance(tabled, _tabled_sweep.TabledSweepKernel)
        trees = _samplers._sweep(graph, replace(layout, tables=None))
        codes = jnp.asarray(np.random.default_rng(0).integers(0, graph.sizes[:, None], (graph.n_cells, CHAINS)), jnp.int32)
        keys = jax.random.split(jax.random.key(2), CHAINS)
        found, expected = (step(k, target, keys, k.init(codes))[0].codes for k in (tabled, trees))
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(np.asarray(found)[121:])) > 1
