"""Eliminations as one loop: what they find is what enumeration finds, and what is compiled does not grow with the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, Case
from chi_square import p_value
from given_cases import CASES as GIVEN
from test_elimination import CYCLE, EXACT, FOREST, MIXED_SIZES, STAR
from test_elimination import pairs as make_pairs
from test_exact import LATENT, counts_of, marginals_of
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.data._given_data import encode_given
from gmlmdsl.derive._elimination_kernels import draw_words
from gmlmdsl.evaluate import exact
from gmlmdsl.plan import Elimination, _elimination, _loop, factor_tables, place_factors, plan_elimination, plan_loop

pytestmark = [pytest.mark.usefixtures("float64", "compiled_sums"), pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")]
HUB = make_pairs(9, *[(0, i) for i in range(1, 9)], (1, 2), (3, 4), (5, 6), (7, 8), (6, 7))  # more than is added at once
PARTS = make_pairs(9, (0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 6), (6, 3), (3, 5))  # two with cycles, two cells alone
MODELS = [STAR, CYCLE, FOREST, HUB, PARTS, MIXED_SIZES, LATENT, *CASES]


@pytest.fixture(params=["short blocks", "long blocks", "one block a turn"])
def shape(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of several blocks, of one, and turns of one block."""
    lanes = 1 << 6 if request.param == "long blocks" else 2
    monkeypatch.setattr(_loop, "LANES", (lanes,))
    monkeypatch.setattr(_loop, "TOGETHER", (1,) if request.param == "one block a turn" else (4,))


def arrays(of: Case, plan: Elimination) -> tuple[derive.Graph, Any, derive.Contraction]:
    return derive.graph_arrays(of.model.graph), of.model._params(of.params, of.model.lowered), derive.contraction(of.model.graph, plan)


@pytest.fixture(autouse=True)
def every_small_plan_is_looped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains too, whose stages are as soon compiled, and quicker."""
    monkeypatch.setattr(_elimination, "FEW_KINDS", 0)


@pytest.mark.parametrize("of", thinned([HUB, PARTS, MIXED_SIZES, LATENT], 8, 6), ids=str)
def test_blocks_of_any_shape_say_what_enumeration_says(of: Case, shape: None):
    device, params, c = arrays(of, plan_elimination(of.model.graph))
    assert c.loop is not None
    codes = jnp.zeros((of.model.graph.n_cells, 1), jnp.int32)
    value, table = jax.jit(lambda p: derive.log_marginals(device, p, codes, c))(params)
    np.testing.assert_allclose(value[0], of.oracle.log_partition(of.params), **EXACT)
    expected = marginals_of(of.oracle, of.oracle.probabilities(of.params))
    for name, found in expected.items():
        for at, cell in np.ndenumerate(of.oracle.positions(name)):
            where = np.flatnonzero(np.asarray(c.free) == cell)
            if len(where):
                np.testing.assert_allclose(table[where[0], : found.shape[-1], 0], found[at], **EXACT)


@pytest.mark.parametrize("of", thinned([STAR, FOREST, HUB, PARTS, MIXED_SIZES], 5, 1), ids=str)
def test_a_mode_and_draws(of: Case):
    p = of.oracle.probabilities(of.params)
    assert plan_elimination(of.model.graph).is_looped
    x, value = of.model.map(of.params)
    np.testing.assert_allclose(value, np.log(p.max()), **EXACT)
    codes = of.oracle.encode(x if isinstance(x, dict) else {"x": x})
    assert p[(of.oracle.states == codes).all(axis=1)] == pytest.approx(p.max(), rel=1e-9)
    draws = of.model.sample(of.params, "exact", draws=500, chains=40, seed=21)
    assert p_value(counts_of(of, draws), p) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("of", thinned([HUB, PARTS, MIXED_SIZES], 3), ids=str)
def test_the_loop_and_stages_agree_with_rows_temperatures_and_known_cells(of: Case):
    """Sums of each component, their first and second derivatives forward and backward, -inf where a row's known cells forbid all."""
    graph = of.model.graph
    plan = plan_elimination(graph)
    rng = np.random.default_rng(5)
    codes = np.where(rng.random((graph.n_cells, 6)) < 0.3, rng.integers(0, graph.sizes[:, None], (graph.n_cells, 6)), -1)
    found = []
    for p in (plan, replace(plan, may_loop=False)):
        device, params, c = arrays(of, p)
        unary = np.array(derive.evidence(device, jnp.asarray(codes, jnp.int32), c))
        unary[0, :, 5] = -np.inf  # one row of one component is impossible
        added = jnp.asarray(unary)
        name = next(iter(params))

        def sums(v: Any, device: Any = device, c: Any = c, params: Any = params, added: Any = added, name: str = name) -> Any:
            own = {**params, name: v}
            beta = jnp.linspace(0.3, 1.5, 6)
            values = derive.forward(device, own, jnp.zeros((device.n_cells, 6), jnp.int32), c, added, beta).sums
            return jnp.where(jnp.isfinite(values), values, 0.0), values

        def total(v: Any, sums: Any = sums) -> Any:
            return (sums(v)[0] ** 2).sum()

        def all_of_them(v: Any, sums: Any = sums, total: Any = total) -> tuple[Any, ...]:
            along = (v,), (jnp.ones_like(v),)
            second = jax.jvp(jax.grad(total), *along)[1]
            return sums(v)[1], jax.grad(total)(v), jax.jvp(lambda v: sums(v)[0], *along)[1], second

        found.append(jax.jit(all_of_them)(params[name]))
    assert (plan.is_looped, plan.stages[0].radix[0]) == (True, int(graph.sizes.max()))
    assert np.isneginf(found[0][0]).any()
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, **EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(["fields", "same"], 2, 1))
def test_stages_and_the_loop_agree_given_covariates(name: str, monkeypatch: pytest.MonkeyPatch):
    of = GIVEN[name]
    rows = encode_given(of.model.graph, of.given)
    lowered = of.model._bound(rows)
    device, params = of.model._device(lowered), of.model._params(of.params, lowered)
    looped = exact.marginals(exact.Contractions(of.model.graph), device, params, None, rows)
    monkeypatch.setattr(_elimination, "MOST_LOOP_ENTRIES", 0.0)
    staged = exact.marginals(exact.Contractions(of.model.graph), device, params, None, rows)
    for variable, table in looped.items():
        np.testing.assert_allclose(staged[variable], table, **EXACT)


@pytest.mark.parametrize("of", MODELS, ids=str)
def test_no_table_takes_more_than_is_added_at_once_and_nothing_is_lost(of: Case):
    graph = of.model.graph
    plan = plan_elimination(graph)
    assert plan.is_looped
    tables, uses = factor_tables(graph, plan, place_factors(graph, plan))
    loop = plan_loop(plan, tables, uses[0])
    assert loop.base.shape[2] == loop.bases.shape[1] == _loop.SOURCES
    assert len(loop.roots) == plan.n_components
    assert sorted(s for s in loop.picks.ravel().tolist() if s < len(plan.parents)) == list(range(len(plan.parents)))
    read = np.unique((loop.base[..., None, None] + loop.patterns[loop.pattern][..., None]).ravel())
    assert read.max() < len(loop.component) + loop.messages
    assert (loop.component[: 2 * len(plan.parents)] < plan.n_components).all()


# Cells of different size

HUBS = {
    "in a factor of four": """
model m {
  var a : range(300)
  var x[i in range(4)] : bit
  param h
  factor h * a / 300 * x[0]
  factor h * x[0] * x[1] * x[2] * x[3]
}
""",
    "in a chain": """
model m {
  var a : range(2000)
  var x[i in range(10)] : bit
  param h
  factor h * a / 2000 * x[0]
  factor h * x[i] * x[i + 1] for i in range(9)
}
""",
    "amid a star": """
model m {
  var a : range(50)
  var x[i in range(40)] : bit
  param h
  factor h * a / 50 * x[i] for i in range(40)
}
""",
    "beside a grid": """
graph G = grid(6, 6)
model m {
  var a : range(5000)
  var x[i in G.nodes] : bit
  param h
  factor h * a / 5000 * x[0]
  factor h * x[i] * x[j] for (i, j) in G.edges
}
""",
}


def by_hand(name: str, h: float) -> float:
    """log Z of the models above, each in its own way."""
    if name in ("in a chain", "beside a grid"):  # row after row
        values, width, rows = (2000, 1, 10) if name == "in a chain" else (5000, 6, 6)
        row = np.arange(2**width)[:, None] >> np.arange(width) & 1
        inside, sent = np.exp(h * (row[:, 1:] * row[:, :-1]).sum(axis=1)), np.ones(2**width)
        for _ in range(rows - 1):
            sent = np.exp(h * row @ row.T) @ (inside * sent)
        added = np.exp(h * np.outer(row[:, 0], np.arange(values)) / values).sum(axis=1)
        return float(np.log((added * inside * sent).sum()))
    if name == "amid a star":
        return float(np.log(((1 + np.exp(h * np.arange(50) / 50)) ** 40).sum()))
    a, first = np.arange(300)[:, None], (np.arange(16) >> 3)[None]
    return float(np.log(np.exp(h * a / 300 * first + h * (np.arange(16) == 15)[None]).sum()))


@pytest.mark.parametrize("name", thinned(HUBS, 4, 2))
def test_a_cell_of_many_values_beside_bits_does_not_pad_their_tables(name: str):
    """Before, the first took 60 GiB for a few hundred entries."""
    model = gm.parse(HUBS[name]).model()
    plan = plan_elimination(model.graph)
    assert not plan.is_looped
    tables, _ = factor_tables(model.graph, plan, place_factors(model.graph, plan))
    held = sum(t.entries for t in tables) + sum(s.size * s.entries for s in plan.stages)
    assert held < 16 * plan.flops
    np.testing.assert_allclose(model.log_partition({"h": 0.7}), by_hand(name, 0.7), **EXACT)


@pytest.mark.slow  # dear to compile; hubs above have cells of unlike sizes
def test_a_grid_with_one_larger_cell_is_still_one_loop():
    """Its factors are over two cells: what is padded is little beside its messages."""
    text = """
input n : int
graph G = grid(n, n)
model m {
  var a : range(5)
  var x[i in G.nodes] : bit
  param J
  factor J * x[i] * x[j] for (i, j) in G.edges
  factor J * a * x[0]
}
"""
    model = gm.parse(text, n=8).model()
    plan = plan_elimination(model.graph)
    assert plan.is_looped
    tables, uses = factor_tables(model.graph, plan, place_factors(model.graph, plan))
    loop = plan_loop(plan, tables, uses[0])
    places = len(loop.component) + loop.messages
    assert places < _elimination.MOST_PADDED * plan.flops
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_loop, "MOST_LOOP_PLACES", places - 1)
        with pytest.raises(AssertionError, match="takes no loop"):
            plan_loop(plan, tables, uses[0])
    value = model.log_partition({"J": 0.4})
    device, params, c = (
        derive.graph_arrays(model.graph),
        model._params({"J": 0.4}, model.lowered),
        derive.contraction(model.graph, replace(plan, may_loop=False)),
    )
    staged = derive.log_sum(device, params, jnp.zeros((model.graph.n_cells, 1), jnp.int32), c)
    np.testing.assert_allclose(value, staged[0], **EXACT)


# What is compiled

GRID = """
input n : int
input m : int
graph G = grid(n, m)
model den {
  given y[i in G.nodes] : spin
  var   x[i in G.nodes] : spin
  param h
  param J
  factor h * x[i] * y[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
"""
NETWORK = """
input pairs[e, 2] : int
input n : int
index site = range(n)
graph G = edges(pairs, nodes = site)
model m {
  var x[i in site] : bit
  param J
  factor J * x[i] * x[j] for (i, j) in G.edges
}
"""


def counts(jaxpr: Any) -> Counter[str]:
    """The equations of a program and of the programs inside, by primitive."""
    out: Counter[str] = Counter()
    for e in jaxpr.eqns:
        out[e.primitive.name] += 1
        for p in jax.tree.leaves(list(e.params.values()), is_leaf=lambda p: hasattr(p, "eqns") or hasattr(p, "jaxpr")):
            inner = getattr(p, "jaxpr", p)
            if hasattr(inner, "eqns"):
                out += counts(inner)
    return out


def traced(graph: Any) -> Counter[str]:
    """What marginals, and draws, of a model are made of."""
    c, device = derive.contraction(graph, plan_elimination(graph)), derive.graph_arrays(graph)
    params = {p.name: jnp.zeros(p.shape) for p in graph.parameters}
    codes, numbers = jnp.zeros((graph.n_cells, 3), jnp.int32), draw_words(jax.random.split(jax.random.key(0), 3), c)

    def answers(params: Any) -> Any:
        found = derive.forward(device, params, codes, c)
        return derive.log_marginals(device, params, codes, c), derive.backward(c, codes, found, numbers)

    return counts(jax.make_jaxpr(answers)(params).jaxpr)


def networks() -> Iterator[Any]:
    rng = np.random.default_rng(0)
    yield np.array([(i, j) for i in range(14) for j in range(i)])  # all joined
    yield np.array(
        [(8 * i + j, 8 * ((i + a) % 8) + (j + b) % 8) for i in range(8) for j in range(8) for a, b in ((0, 1), (1, 0))]
    )  # a torus
    yield np.array(sorted({tuple(sorted(rng.choice(60, 2, replace=False).tolist())) for _ in range(90)}))


@pytest.mark.slow
def test_marginals_and_draws_of_any_graph_are_one_program():
    """Before, 10 x 12 cells were 120 kinds of messages, and 39 s of compiling."""
    alone = GRID.replace("given y[i in G.nodes] : spin", "").replace(" * y[i]", "")
    found = [traced(gm.parse(alone, n=n, m=m).model().graph) for n, m in ((4, 5), (4, 9), (12, 16))]
    assert found[0] == found[1] == found[2]
    wide = [traced(gm.parse(NETWORK, pairs=p, n=int(p.max()) + 1).model().graph) for p in networks()]
    assert wide[0] == wide[1] == wide[2]
    assert sum(found[0].values()) < 1000


@pytest.mark.slow
def test_first_marginals_of_a_grid_compile_as_many_programs_as_those_of_a_smaller_one():
    compiled: list[str] = []

    def heard(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    found = []
    jax.monitoring.register_event_duration_secs_listener(heard)
    try:
        for n, m in ((4, 5), (4, 9)):
            compiled.clear()
            model = gm.parse(GRID, n=n, m=m).model()
            table = model.marginals({"h": 0.3, "J": 0.4}, given={"y": np.ones(n * m, int)})
            assert table["x"].shape == (n * m, 2)
            found.append(len(compiled))
    finally:
        jax.monitoring.unregister_event_duration_listener(heard)
    assert found[1] <= found[0] <= 12
