"""Long sums by links: log Z, marginals, modes, draws, losses and gradients of both engines, against enumeration; and their costs."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.evaluate import _contractions, limits
from gmlmdsl.evaluate._host_elimination import _log_sum, _Pass
from gmlmdsl.plan import _partial_sums, plan_elimination, with_partial_sums

pytestmark = [pytest.mark.usefixtures("float64", "links"), pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")]

# A tree of an odd number of terms, whose sum meets another cell in a factor.
TALLY = """
model m {
  var x[i in range(7)] : range(3)
  var y : bit
  param h[i in range(7)]
  factor h[i] * x[i] for i in range(7)
  factor -0.1 * (sum((i % 2 + 1) * x[i] for i in range(7)) - 8 * y)^2
}
mask some = blocks({x[i], x[i + 1], y} for i in range(7) if i < 6)
"""
# A chain of sums beside a chain of cells: the table of a term has its cell, the next one, and the sum of both.
CHAIN = """
model m {
  var x[i in range(13)] : bit
  param h[i in range(13)], J
  factor h[i] * x[i] for i in range(13)
  factor J * (x[i] == x[i + 1]) for i in range(13) if i < 12
  factor -0.1 * (sum((i % 3 + 1) * x[i] for i in range(13)) - 9)^2
}
mask some = blocks({x[i], x[i + 1]} for i in range(13) if i < 12)
"""
# Terms of two cells, one of them in a chain of its own.
POOL = """
model m {
  var x[i in range(7)] : bit
  var s[i in range(7)] : spin
  param h[i in range(7)], J
  factor h[i] * x[i] for i in range(7)
  factor J * s[i] * s[i + 1] for i in range(7) if i < 6
  require sum(x[i] * s[i] for i in range(7)) <= 1
}
mask some = blocks({x[i], s[i]} for i in range(7))
"""
# Two sums with the same cells: the second has tables.
TWICE = """
model m {
  var x[i in range(13)] : bit
  param h[i in range(13)]
  factor h[i] * x[i] for i in range(13)
  factor 0.05 * sum((i % 3 + 1) * x[i] for i in range(13))^2
  require sum(x[i] for i in range(13)) % 3 != 1
}
mask some = blocks({x[i], x[i + 1]} for i in range(13) if i < 12)
"""
# Terms of many values beside terms of few: the cheapest step is not always the next one that may come.
UNLIKE = """
input w[3] : int = [{}]
model m {{
  var x[i in range(3)] : range(20)
  param h[i in range(3)]
  factor h[i] * x[i] / 10 for i in range(3)
  factor -0.1 * (sum(x[i] % w[i] for i in range(3)) - 2)^2
}}
mask some = blocks({{x[i], x[i + 1]}} for i in range(3) if i < 2)
"""
MODELS = {"tally": (TALLY, 6), "chain": (CHAIN, 12), "pool": (POOL, 6), "twice": (TWICE, 12)}
MODELS |= {"many, few": (UNLIKE.format("3, 20, 10"), 2), "few": (UNLIKE.format("2, 3, 2"), 2)}
HELD: dict[str, Any] = {
    "tally": {"x": {3: 2, 5: 0}},
    "chain": {"x": {3: 1, 5: 0}},
    "pool": {"x": {0: 1}, "s": {2: -1}},
    "twice": {"x": {0: 1}},
}
HELD |= {"many, few": {"x": {1: 7}}, "few": {"x": {0: 3}}}


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short sums have links too."""
    monkeypatch.setattr(_partial_sums, "LEAST_CHAIN", 0)
    monkeypatch.setattr(_partial_sums, "LEAST_TREE", 0)
    monkeypatch.setattr(_partial_sums, "CHEAPER_LINKS", 0)


@pytest.fixture(params=thinned(["NumPy", "compiled"], 2))
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "compiled":
        monkeypatch.setattr(limits, "HOST_SECONDS", -1.0)


def made(name: str) -> tuple[Any, dict[str, Any]]:
    model: Any = gm.parse(MODELS[name][0]).model()
    rng = np.random.default_rng(0)
    return model, {p.name: rng.normal(size=p.shape) / 2 for p in model.graph.parameters}


def every(model: Any, params: dict[str, Any], clamp: Any = None) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """All codes (rows, cells) that agree with clamped cells, their log_potential, and their values by variable."""
    graph = model.graph
    codes = np.array(list(itertools.product(*(range(int(n)) for n in graph.sizes))))
    x, agrees = {}, np.ones(len(codes), bool)
    for v in graph.variables:
        x[v.name] = np.asarray(v.values_of(codes[:, v.offset : v.offset + v.size])).reshape(-1, *v.shape)
        for place, value in (clamp or {}).get(v.name, {}).items():
            agrees &= x[v.name][:, place] == value
    x = {k: a[agrees] for k, a in x.items()}
    return codes[agrees], np.asarray(model.log_potential(params, x)), x


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        pytest.param(engine, name, marks=[pytest.mark.slow] * (engine == "compiled"))  # the gate compiles the gradients below
        for engine in ("NumPy", "compiled")
        for name in MODELS
    ],
    indirect=["engine"],
)
@pytest.mark.usefixtures("engine")
def test_answers_are_those_of_enumeration(name: str):
    model, params = made(name)
    assert len(with_partial_sums(model.graph).links) == MODELS[name][1]
    for clamp in (None, HELD[name]):
        codes, levels, x = every(model, params, clamp)
        log_z = np.logaddexp.reduce(levels)
        p = np.exp(levels - log_z)
        if clamp is None:
            assert abs(float(model.log_partition(params)) - log_z) < 1e-9
        found = model.marginals(params, clamp)
        for v in model.graph.variables:
            mine = codes[:, v.offset : v.offset + v.size]
            wanted = np.stack([p @ (mine == k) for k in range(len(v.labels))], axis=-1)
            np.testing.assert_allclose(found[v.name].reshape(wanted.shape), wanted, atol=1e-9)
        best = model.map(params, clamp)
        assert abs(float(best.log_potential) - levels.max()) < 1e-9
        at = best[0] if isinstance(best[0], dict) else {"x": best[0]}
        assert abs(float(model.log_potential(params, at)) - levels.max()) < 1e-9
        if limits.HOST_SECONDS < 0 and clamp is not None:  # draws are compiled always
            draws = model.sample(params, "exact", draws=1500, chains=2, seed=1, clamp=clamp)["posterior"]["x"].values
            np.testing.assert_allclose(draws.mean(axis=(0, 1)), p @ x["x"], atol=0.08 * x["x"].max())
        last = min(6, x["x"].shape[1] - 1)
        pair = (("x", 1), ("x", last))
        together = model.marginals(params, clamp, over=[pair])[pair]
        wanted = [[p @ ((x["x"][:, 1] == a) & (x["x"][:, last] == b)) for b in range(together.shape[1])] for a in range(len(together))]
        np.testing.assert_allclose(together, wanted, atol=1e-9)


@pytest.mark.usefixtures("engine")
def test_rows_with_gaps_weights_and_what_is_impossible():
    model, params = made("chain")
    rows = np.array([[0, 1, 1, -1, 0, 1, -1, -1, 0, 0, 1, 1, -1], [-1] * 6 + [1] * 7])
    found = model.marginals(params, x=rows, missing=-1)["x"]
    for r, row in enumerate(rows):
        known = {"x": {int(i): int(row[i]) for i in np.flatnonzero(row >= 0)}}
        np.testing.assert_allclose(found[r], model.marginals(params, known)["x"], atol=1e-9)
        _, levels, _ = every(model, params, known)
        if limits.HOST_SECONDS > 0:
            assert abs(float(model.log_potential(params, row, missing=-1)) - np.logaddexp.reduce(levels)) < 1e-9
    weights = np.random.default_rng(1).uniform(0.2, 1, (13, 2))
    codes, levels, _ = every(model, params)
    with_weights = np.logaddexp.reduce(levels + np.log(weights)[np.arange(13), codes].sum(axis=1))
    assert abs(float(model.log_partition(params, likelihood={"x": weights})) - with_weights) < 1e-9
    pool, of_pool = made("pool")
    with pytest.raises(gm.GmlmError, match="E512") as caught:
        pool.marginals(of_pool, {"x": {i: 1 for i in range(7)}, "s": {i: 1 for i in range(7)}})
    assert "s[6]" in str(caught.value) or "x[0]" in str(caught.value)


@pytest.mark.parametrize("name", thinned(MODELS, 6))
def test_gradients_of_log_z_are_means_and_those_of_losses_are_differences(name: str):
    model, params = made(name)
    _, levels, x = every(model, params)
    p = np.exp(levels - np.logaddexp.reduce(levels))
    slopes = jax.jit(jax.grad(model.log_partition))(params)
    scale = 0.1 if "x[i] / 10" in MODELS[name][0] else 1.0
    np.testing.assert_allclose(slopes["h"], scale * (p @ x["x"]), atol=1e-9)
    best = {k: a[np.argsort(-levels)[:3]] for k, a in x.items()}
    loss = float(model.loss(params, best, "some"))
    one = gm.parse(MODELS[name][0]).model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_partial_sums, "LEAST_VALUES", np.inf)
        assert loss == pytest.approx(float(one.loss(params, best, "some")), abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_the_cost_of_a_plan_is_the_number_of_entries_that_are_visited(name: str):
    model, params = made(name)
    kept = _contractions.Contractions(with_partial_sums(model.graph))
    graph = kept.graph
    engine = kept.on_host(np.zeros(graph.n_cells, bool), model._known(params))
    assert engine is not None
    done = _Pass(engine, np.zeros(graph.n_cells, int), _log_sum)
    assert sum(t.size for t in done.joint.values()) == engine.plan.flops
    dense = with_partial_sums(model.graph, linked=False)
    assert not dense.links
    if name in ("tally", "chain"):
        assert engine.plan.flops * 3 < plan_elimination(dense).flops
    follow = [link for link in engine.plan.links if link is not None]
    assert len(follow) == len(graph.links) and len(engine.plan.parents) == np.count_nonzero(graph.sizes > 1) - len(follow)


def test_sums_that_rounding_makes_equal_have_no_link():
    """Sums of 0.5e-9 more and less round to one number, so the summand does not follow from it."""
    step = np.array([[0, 1, 1], [1, 2, 3]])
    assert _partial_sums._inverse(step, 4) is None
    found = _partial_sums._inverse(step[1:], 4)
    assert found is not None
    np.testing.assert_array_equal(found, [[-1, 0, 1, 2]])


def test_messages_have_tables_in_the_place_of_links():
    model, params = made("tally")
    found = model.marginals(params, method="belief-propagation")
    np.testing.assert_allclose(found["x"], model.marginals(params)["x"], atol=0.05)
    assert abs(float(model.map(params, method="max-product").log_potential) - float(model.map(params).log_potential)) < 1e-9


@pytest.mark.slow
def test_a_sum_of_960_cells_of_four_values():
    """Tables in the place of links would take 400 times as many operations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_partial_sums, "LEAST_CHAIN", 1 << 22)
        patch.setattr(_partial_sums, "LEAST_TREE", 1 << 12)
        patch.setattr(_partial_sums, "CHEAPER_LINKS", 2)
        text = "model m { var x[i in range(960)] : range(4)  param h[i in range(960)]  factor h[i] * x[i] for i in range(960)"
        model: Any = gm.parse(text + "  require sum(x[i] for i in range(960)) == 1440 }").model()
        h = np.random.default_rng(0).normal(size=960) * 0.3
        graph = with_partial_sums(model.graph)
        plan = plan_elimination(graph)
        assert len(graph.links) == 959 and plan.flops < 8e6 and int(plan.levels.max()) < 12
        table = np.zeros(1)
        for level in h:
            grown = np.full(len(table) + 3, -np.inf)
            for value in range(4):
                grown[value : value + len(table)] = np.logaddexp(grown[value : value + len(table)], table + level * value)
            table = grown
        assert abs(float(model.log_partition({"h": h})) - table[1440]) < 1e-8
        best, _ = model.map({"h": h})
        assert np.asarray(best).sum() == 1440
        np.testing.assert_allclose((model.marginals({"h": h})["x"] @ np.arange(4)).sum(), 1440, atol=1e-6)
