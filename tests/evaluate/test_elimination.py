"""Orders of elimination and their arrays: what they are called, how deep they are, and that every factor counts once."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, Case
from cases import case as make_case
from test_exact import LATENT
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.evaluate import _exact_answers as _exact
from gmlmdsl.evaluate import exact
from gmlmdsl.plan import Budget, Elimination, _elimination, _stages, factor_tables, place_factors, plan_elimination, step_places

pytestmark = [pytest.mark.usefixtures("float64", "compiled_sums"), pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")]
EXACT: Any = {"rtol": 1e-9, "atol": 1e-9}

PAIRS = """
input pairs[e, 2] : int
input n : int
index site = range(n)
graph G = edges(pairs, nodes = site)
model m {
  var x[i in site] : range(3)
  param J[(i, j) in G.edges, a in range(3), b in range(3)]
  param h[i in site, a in range(3)]
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
  factor h[i, x[i]] for i in site
}
"""


def pairs(n: int, *edges: tuple[int, int]) -> Case:
    """A model of pairs with three values for each cell."""
    return make_case(f"pairs {n}", PAIRS, n=n, pairs=np.array(edges, int).reshape(-1, 2))


def path(n: int) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(n - 1)]


def cycle(n: int) -> list[tuple[int, int]]:
    return [*path(n), (0, n - 1)]


def star(n: int) -> list[tuple[int, int]]:
    return [(0, i) for i in range(1, n)]


STAR, CHAIN, CYCLE = pairs(8, *star(8)), pairs(7, *path(7)), pairs(7, *cycle(7))
FOREST = pairs(8, (0, 1), (1, 2), (1, 3), (4, 5), (5, 6))  # and cell 7 alone
MIXED_SIZES = make_case(
    "sizes",
    """
domain one = labels("only")
model sizes {
  var a : range(5)
  var b : bit
  var u : one
  var c : range(3)
  var d : spin
  param T[i in range(5), j in range(2), k in range(3)]
  param U[k in range(3)]
  param w
  factor T[a, b, c]
  factor U[c] * (u == "only")
  factor w * d * a
  factor w * (d == 1) * c
  factor 0.7 * w * (u == "only")
}
""",
)
PLANNED = [STAR, CHAIN, CYCLE, FOREST, MIXED_SIZES, LATENT, *CASES]


def plan_of(of: Case) -> Elimination:
    return plan_elimination(of.model.graph)


@pytest.mark.parametrize(
    ("n", "edges", "method"),
    [
        (4, [(0, 1)], "chain"),
        (5, path(5), "chain"),
        (6, [*path(3), (3, 4)], "chain"),
        (5, star(5), "tree"),
        (6, [*path(5), (2, 5)], "tree"),
        (5, cycle(5), "elimination"),
        (6, [*cycle(4), (4, 5)], "elimination"),
    ],
)
def test_an_order_is_named_by_its_structure(n: int, edges: list[tuple[int, int]], method: str):
    plan = plan_of(pairs(n, *edges))
    assert plan.method == method
    assert plan.words.startswith(f"{method}: {n} cells")


def test_cells_without_a_factor_between_them_are_a_product():
    model = gm.parse("model m {\n  var x[i in range(4)] : bit\n  param h\n  factor h * x[i] for i in range(4)\n}\n").model()
    plan = plan_elimination(model.graph)
    assert plan.method == "product"
    assert plan.n_components == 4
    assert plan.flops == 8


@pytest.mark.parametrize("of", PLANNED, ids=str)
def test_an_order_is_one_whose_steps_wait_for_those_before(of: Case):
    graph, plan = of.model.graph, plan_of(of)
    steps = np.arange(len(plan.parents))
    assert sorted(plan.cells) == np.flatnonzero(graph.sizes > 1).tolist()
    inner = plan.parents >= 0
    assert (plan.parents[inner] > steps[inner]).all()
    assert (plan.levels[plan.parents[inner]] > plan.levels[inner]).all()
    assert (np.diff(plan.levels) >= 0).all()
    assert (plan.components[plan.parents[inner]] == plan.components[inner]).all()
    order = np.append(np.argsort(plan.cells), len(steps))
    place = {c: k for k, c in enumerate(plan.cells.tolist())}
    for k, scope in enumerate(plan.scopes):
        inside = [place[c] for c in scope.tolist() if c < graph.n_cells]
        assert inside == sorted(set(inside))  # in the order of elimination
        if inner[k]:
            assert inside[1] == plan.parents[k]
            assert set(scope[1:].tolist()) <= {*plan.scopes[plan.parents[k]].tolist(), graph.n_cells}
    assert plan.flops == sum(np.prod([graph.sizes[c] for c in s if c < graph.n_cells]) for s in plan.scopes)
    assert len(order) == len(steps) + 1


@pytest.mark.parametrize("of", [STAR, FOREST, MIXED_SIZES], ids=str)
def test_components_are_what_factors_join(of: Case):
    graph, plan = of.model.graph, plan_of(of)
    label = np.arange(graph.n_cells)
    for _ in range(graph.n_cells):
        for g in graph.groups:
            for cells in g.cells:
                some = [c for c in cells if c < graph.n_cells and graph.sizes[c] > 1]
                label[some] = min((label[c] for c in some), default=0)
    for a, i in zip(plan.cells, plan.components, strict=True):
        for b, j in zip(plan.cells, plan.components, strict=True):
            assert (i == j) == (label[a] == label[b])
    least = [plan.cells[plan.components == k].min() for k in range(plan.n_components)]
    assert least == sorted(least)


def test_a_cycle_of_64_cells_has_about_as_many_levels_as_the_logarithm():
    plan = plan_of(pairs(64, *cycle(64)))
    depth = int(plan.levels.max()) + 1
    assert depth <= 2 * np.log2(64)
    assert plan.arity.max() == 3


def test_two_orders_are_compared_and_few_levels_are_worth_some_work(monkeypatch: pytest.MonkeyPatch):
    graph = pairs(64, *cycle(64)).model.graph
    found = []
    original = _elimination._Search.eliminate_core

    def kept(self: Any, shallow: bool) -> None:
        original(self, shallow)
        found.append((shallow, self.flops))

    monkeypatch.setattr(_elimination._Search, "eliminate_core", kept)
    plan = plan_elimination(graph)
    assert [s for s, _ in found] == [True, False]
    assert plan.flops == found[0][1]
    monkeypatch.setattr(_elimination, "WORTH_FEWER_LEVELS", 0.0)
    assert plan_elimination(graph).flops == found[1][1]
    found.clear()
    monkeypatch.setattr(_elimination, "MOST_COMPARED_CELLS", 10)
    plan_elimination(graph)
    assert len(found) == 1


def test_an_order_within_the_budget_is_found_where_the_shallow_one_is_not(monkeypatch: pytest.MonkeyPatch):
    graph = pairs(64, *cycle(64)).model.graph
    original = _elimination._Search.eliminate_core

    def dear(self: Any, shallow: bool) -> None:
        self.flops += 1e11 * shallow
        original(self, shallow)

    monkeypatch.setattr(_elimination._Search, "eliminate_core", dear)
    assert plan_elimination(graph).flops < 1e5
    with pytest.raises(gm.GmlmError) as caught:
        plan_elimination(graph, what="this", budget=Budget(flops=10), help="do that")
    assert "this needs a table" in str(caught.value)
    assert "do that" in str(caught.value)


def test_too_many_cells_on_cycles_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_elimination, "MOST_CORE", 6)
    with pytest.raises(gm.GmlmError, match="7 cells on cycles"):
        plan_of(CYCLE)
    assert plan_of(CHAIN).method == "chain"


@pytest.mark.parametrize("known", thinned([[0], [3], [0, 3, 6], [1, 2, 3, 4, 5]], 2), ids=str)
def test_the_rest_of_a_chain_with_some_cells_known(known: list[int]):
    free = np.setdiff1d(np.arange(7), known)
    plan = plan_elimination(CHAIN.model.graph, free)
    assert sorted(plan.cells) == free.tolist()
    assert plan.n_components == 1 + int((np.diff(free) > 1).sum())
    codes = jnp.asarray(np.random.default_rng(0).integers(0, 3, (7, 5)), jnp.int32)
    found = log_sum(CHAIN, plan, codes)
    hidden = np.asarray(codes).T.copy()
    hidden[:, free] = -1
    np.testing.assert_allclose(found, CHAIN.oracle.log_potential(CHAIN.params, hidden), **EXACT)


def log_sum(of: Case, plan: Elimination, codes: Any) -> np.ndarray:
    c = derive.contraction(of.model.graph, plan)
    device = derive.graph_arrays(of.model.graph)
    return np.asarray(_exact.log_sums(device, of.model._params(of.params, of.model.lowered), codes, c))


def test_a_temperature_scales_the_factors():
    betas = np.array([0.0, 0.3, 1.0, 2.0])
    codes = jnp.zeros((7, 4), jnp.int32)
    c = derive.contraction(CYCLE.model.graph, plan_of(CYCLE))
    device = derive.graph_arrays(CYCLE.model.graph)
    sums = jax.jit(lambda p: derive.forward(device, p, codes, c, None, jnp.asarray(betas)).sums.sum(axis=0))
    found = sums(CYCLE.model._params(CYCLE.params, CYCLE.model.lowered))
    table = CYCLE.oracle.log_table(CYCLE.params).ravel()
    expected = [np.log(np.exp(b * table).sum()) for b in betas]
    np.testing.assert_allclose(found, expected, **EXACT)


@pytest.mark.parametrize("of", PLANNED, ids=str)
def test_every_factor_stands_in_one_table(of: Case):
    graph, plan = of.model.graph, plan_of(of)
    factors = place_factors(graph, plan)
    tables, uses = factor_tables(graph, plan, factors)
    stage, place = step_places(plan.stages, len(plan.parents))
    for number, (group, placed) in enumerate(zip(graph.groups, factors, strict=True)):
        assert sorted([*placed.rest, *placed.instances]) == list(range(group.n))
        for at, k in enumerate(placed.instances):
            step = int(np.flatnonzero((stage == placed.stage[at]) & (place == placed.place[at]))[0])
            mentioned = {c for c in group.cells[k].tolist() if c < graph.n_cells and graph.sizes[c] > 1}
            assert plan.cells[step] in mentioned
            assert mentioned <= set(plan.scopes[step].tolist())
        # Counted where they are used: tables that are equal are listed once, so that one instance may stand for several.
        used = 0
        for s, stage_uses in enumerate(uses):
            for use in stage_uses:
                touch = tables[use.tables].touch[number]
                slots = use.slots[plan.stages[s].steps >= 0]
                inside = slots[slots < len(tables[use.tables].cells)]
                used += int((touch[inside] >= 0).sum())
        assert used == len(placed.instances)


@pytest.mark.slow
@pytest.mark.parametrize("of", thinned([MIXED_SIZES, LATENT], 2), ids=str)
def test_one_cell_summed_at_a_time_is_log_potential(of: Case):
    """Every cell free in its turn, the others known: the sum is over the configurations that differ there."""
    graph, codes = of.model.graph, of.rows.T
    for cell in range(graph.n_cells):
        hidden = of.rows.copy()
        hidden[:, cell] = -1
        plan = plan_elimination(graph, np.array([cell]))
        found = log_sum(of, plan, jnp.asarray(codes, jnp.int32))
        np.testing.assert_allclose(found, of.oracle.log_potential(of.params, hidden), **EXACT)
    nothing = plan_elimination(graph, np.zeros(0, int))
    assert nothing.stages == ()
    np.testing.assert_allclose(log_sum(of, nothing, jnp.asarray(codes, jnp.int32)), of.oracle.log_potential(of.params, of.rows), **EXACT)


def test_a_star_lists_its_many_messages(monkeypatch: pytest.MonkeyPatch):
    """More children than are listed side by side: messages are added by the column that takes them."""
    monkeypatch.setattr(_elimination, "MOST_LOOP_ENTRIES", 0.0)
    plan = plan_of(STAR)
    assert any(f.to is not None for s in plan.stages for f in s.feeds)
    few = plan_of(CHAIN)
    assert all(f.to is None for s in few.stages for f in s.feeds)


def test_a_graph_without_factors():
    model = gm.parse("model m {\n  var x[i in range(3)] : range(4)\n  var s : spin\n}\n").model()
    assert model.log_partition({}) == pytest.approx(np.log(128))
    np.testing.assert_allclose(model.marginals({})["x"], 0.25)


def test_cells_of_one_value_are_left_out():
    plan = plan_of(MIXED_SIZES)
    assert 2 not in plan.cells
    np.testing.assert_allclose(MIXED_SIZES.model.marginals(MIXED_SIZES.params)["u"], [1.0])


# Both ways in which levels are run: a stage each, or several in one loop with tables padded to one shape

RUN = [STAR, CYCLE, MIXED_SIZES]
WAYS = {
    "a stage each": {"FEW_LEVELS": 1000, "LITTLE_WASTE": 0.0},
    "one loop": {"FEW_LEVELS": 0, "SMALL_LEVEL": 1 << 30},
    "listed messages": {"FEW_LEVELS": 0, "SMALL_LEVEL": 1 << 30, "MOST_CHILDREN": 0},
    "tables of one shape": {"FEW_LEVELS": 0, "SMALL_LEVEL": 0, "MOST_LEVEL_WASTE": 1.0},
    "large levels alone": {"FEW_LEVELS": 0, "SMALL_LEVEL": 1 << 30, "LARGE_LEVEL": 10},
    "large levels together": {"FEW_LEVELS": 0, "SMALL_LEVEL": 1 << 30, "LARGE_LEVEL": 10, "MOST_ALONE": 0},
}


@pytest.mark.parametrize("way", thinned(WAYS, 8))
@pytest.mark.parametrize("of", thinned(RUN, 3), ids=str)
def test_stages_of_any_shape_say_the_same(of: Case, way: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_elimination, "MOST_LOOP_ENTRIES", 0.0)  # never the one loop of `test_loop.py`
    for name, value in WAYS[way].items():
        monkeypatch.setattr(_stages, name, value)
    graph, params = of.model.graph, of.params
    plan = plan_of(of)
    many = max(s.levels for s in plan.stages)
    assert {"a stage each": many == 1, "one loop": many == plan.levels.max() + 1}.get(way, True)
    steps = np.concatenate([s.steps.ravel() for s in plan.stages])
    assert sorted(steps[steps >= 0]) == list(range(len(plan.parents)))
    kept = exact.Contractions(graph)
    p = of.oracle.probabilities(params)
    device, own = derive.graph_arrays(graph), of.model._params(params, of.model.lowered)
    found = exact.marginals(kept, device, own, None, None)
    for name, table in found.items():
        for at, cell in np.ndenumerate(of.oracle.positions(name)):
            expected = [p[of.oracle.states[:, cell] == k].sum() for k in range(table.shape[-1])]
            np.testing.assert_allclose(table[at], expected, **EXACT)
    codes, value = exact.best(kept, device, own, None, None)
    np.testing.assert_allclose(value[0] - of.oracle.log_partition(params), np.log(p.max()), **EXACT)
    np.testing.assert_allclose(of.oracle.log_potential(params, codes.T)[0], value[0], **EXACT)
