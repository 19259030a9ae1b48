"""Chains asked for by name: seeds, clamping, starts, observables, labels."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import BY_NAME
from chi_square import p_value
from events import programs, traced_or_compiled
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.sample import _starts, limits
from gmlmdsl.sample._run_chains import KernelRun

pytestmark = pytest.mark.filterwarnings("ignore::gmlmdsl.sample._draw.SamplingWarning")

SMALL = """
domain sky = labels("sun", "rain", "snow")
index site = range(3)
graph G = chain(site)
model small {
  var x[i in site] : spin
  var w            : sky
  param J[(i, j) in G.edges]
  let up = sum(x[i] == 1 for i in site)
  let agree[(i, j) in G.edges] = x[i] == x[j]
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
  factor 0.6 * x[0] * (w == "rain")
  require not (w == "snow" and x[2] == 1)
}
mask pairs = subsets(size = 2)
sampler gibbs { update K where K ~ pairs }
sampler only  { update w  update x[0] }
"""
PARAMS = {"J": np.array([0.4, -0.7])}


@pytest.fixture(scope="module")
def small() -> Any:
    return gm.parse(SMALL, coords={"site": ["north", "mid", "south"]}).model()


@pytest.fixture(scope="module")
def observed(small: Any) -> Any:
    """Draws with what functions and lets say of them."""
    observe = {"m": lambda v: v["x"].mean(), "wet": lambda v: v["w"] == 1, "up": "up", "pairs": "agree"}
    return small.sample(PARAMS, "gibbs", chains=2, draws=10, warmup=3, seed=5, observe=observe)


def draws(idata: Any, name: str = "x") -> np.ndarray:
    """An array of the posterior group: (chain, draw, *axes)."""
    return np.asarray(idata.posterior[name])


# Draw t of chain c depends on (seed, c, t) only


@pytest.mark.slow
def test_more_chains_and_more_draws_begin_alike(small: Any):
    few = small.sample(PARAMS, "gibbs", chains=2, draws=10, warmup=3, seed=5)
    many = small.sample(PARAMS, "gibbs", chains=4, draws=80, warmup=3, seed=5)
    for name in ("x", "w"):
        np.testing.assert_array_equal(draws(many, name)[:2, :10], draws(few, name))


@pytest.mark.slow
def test_chains_and_draws_that_fill_a_call_up_are_left_out(small: Any):
    """Three chains run as four, 17 as 32, five draws as 64."""
    options = {"warmup": 3, "seed": 5, "observe": {"first": lambda x: x["x"][0]}, "init": gm.annealed(steps=2)}
    many = small.sample(PARAMS, "gibbs", chains=33, draws=64, **options)
    for chains, count in ((1, 1), (3, 5), (17, 64)):
        few = small.sample(PARAMS, "gibbs", chains=chains, draws=count, **options)
        for name in ("x", "w", "first"):
            np.testing.assert_array_equal(draws(few, name), draws(many, name)[:chains, :count])
        for name in ("lp", "flip_rate"):
            np.testing.assert_allclose(few.sample_stats[name], np.asarray(many.sample_stats[name])[:chains, :count], rtol=1e-6)


def test_seeds_and_chains_differ(small: Any):
    one, again, other = (draws(small.sample(PARAMS, "gibbs", chains=2, draws=80, warmup=3, seed=s)) for s in (5, 5, 6))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert (one[0] != one[1]).any()


def test_thinning_keeps_every_nth_step_and_warmup_drops_the_first(small: Any):
    every = draws(small.sample(PARAMS, "gibbs", chains=2, draws=80, warmup=3, seed=5))
    np.testing.assert_array_equal(draws(small.sample(PARAMS, "gibbs", chains=2, draws=10, warmup=3, thin=3, seed=5)), every[:, 2:30:3])
    np.testing.assert_array_equal(draws(small.sample(PARAMS, "gibbs", chains=2, draws=10, warmup=7, seed=5)), every[:, 4:14])


def test_what_is_kept_and_observed_does_not_change_the_draws(small: Any, observed: Any):
    plain = small.sample(PARAMS, "gibbs", chains=2, draws=10, warmup=3, seed=5)
    np.testing.assert_array_equal(draws(observed), draws(plain))


# What the draws are


@pytest.mark.slow
def test_long_chains_have_the_law(small: Any):
    """4000 chains of 40 steps: chi-square against p, p above 1e-4."""
    idata = small.sample(PARAMS, "gibbs", chains=4000, draws=1, warmup=40, seed=1)
    x, w = (draws(idata, n)[:, 0] for n in ("x", "w"))
    number = np.ravel_multi_index((*((x.T + 1) // 2), w), (2, 2, 2, 3))
    states = np.stack(np.unravel_index(np.arange(24), (2, 2, 2, 3)), axis=1)
    law = np.exp(np.asarray(small.log_prob(PARAMS, {"x": 2 * states[:, :3] - 1, "w": states[:, 3]}), float))
    assert p_value(np.bincount(number, minlength=24), law / law.sum()) > 1e-4


@pytest.mark.check
def test_draws_are_values_and_codes_with_their_labels(small: Any):
    idata = small.sample(PARAMS, "gibbs", chains=2, draws=80, warmup=3, seed=5)
    assert set(np.unique(draws(idata))) == {-1, 1}
    assert set(np.unique(draws(idata, "w"))) <= {0, 1, 2}
    assert "'rain'" in idata.posterior.attrs["labels"]


def test_dims_and_coords_carry_the_programs_names(observed: Any):
    idata = observed
    assert idata.posterior["x"].dims == ("chain", "draw", "site")
    assert idata.posterior["x"].coords["site"].values.tolist() == ["north", "mid", "south"]
    assert idata.posterior["w"].dims == ("chain", "draw")
    np.testing.assert_array_equal(idata.posterior["x"].sel(site="mid"), draws(idata)[..., 1])


def test_log_p_and_flip_rates_are_kept(small: Any):
    idata = small.sample(PARAMS, "only", chains=2, draws=10, warmup=3, seed=5)
    x, w = draws(idata), draws(idata, "w")
    expected = np.asarray(small.log_potential(PARAMS, {"x": x, "w": w}))
    np.testing.assert_allclose(idata.sample_stats["lp"], expected, atol=1e-5)
    assert idata.sample_stats["flip_rate"].shape == (2, 10, 2)
    names = idata.sample_stats["flip_rate"].coords["update"].values.tolist()
    assert names == ["update w", "update x[0]"]
    flips = (w[:, 1:] != w[:, :-1]).astype(float)
    np.testing.assert_array_equal(idata.sample_stats["flip_rate"][:, 1:, 0], flips)


# Clamping


@pytest.mark.check
@pytest.mark.parametrize(
    "clamp",
    thinned([{"x": {1: 1}, "w": "rain"}, {"x": {(1,): 1}, "w": 1}, {"x": {1: np.int64(1)}, "w": {(): "rain"}}], 3),
    ids=["label", "code", "places"],
)
def test_clamped_cells_stay_and_the_rest_follows_its_conditional(small: Any, clamp: dict[str, Any]):
    """2000 chains of 30 steps given x[1] = +1 and w = rain: chi-square against the conditional law, p above 1e-4."""
    idata = small.sample(PARAMS, "gibbs", chains=2000, draws=1, warmup=30, seed=2, clamp=clamp)
    x, w = (draws(idata, n)[:, 0] for n in ("x", "w"))
    assert (x[:, 1] == 1).all()
    assert (w == 1).all()
    table = np.exp(np.asarray(small.log_conditional(PARAMS, {"x": [1, 1, 1], "w": 1}, K=(0, 2)), float)).ravel()
    counts = np.bincount((x[:, 0] + 1) + (x[:, 2] + 1) // 2, minlength=4)
    assert p_value(counts, table / table.sum()) > 1e-4


@pytest.mark.slow
def test_a_whole_variable_can_be_clamped(small: Any):
    idata = small.sample(PARAMS, "gibbs", chains=2, draws=10, warmup=3, seed=5, clamp={"x": [1, -1, -1]})
    assert (draws(idata) == [1, -1, -1]).all()
    assert len(np.unique(draws(idata, "w"))) > 1


# Starts


def test_a_start_is_where_chains_begin(small: Any):
    """`only` moves w and x[0]: the other cells stay where they were started."""
    one = small.sample(PARAMS, "only", chains=2, draws=10, warmup=0, init={"x": [1, -1, -1], "w": "sun"})
    assert (draws(one)[..., 1:] == -1).all()
    each = small.sample(PARAMS, "only", chains=2, draws=10, warmup=0, init={"x": [[1, -1, -1], [1, 1, -1]], "w": ["sun", "snow"]})
    assert (draws(each)[0, :, 1] == -1).all()
    assert (draws(each)[1, :, 1] == 1).all()


@pytest.mark.slow
def test_uniform_starts_satisfy_every_requirement():
    case = BY_NAME["weather"]
    idata = case.model.sample(case.params, "mixed", chains=50, draws=1, warmup=0)
    log_p = case.model.log_potential(case.params, {v: draws(idata, v) for v in ("s", "b", "k", "w")})
    assert np.isfinite(np.asarray(log_p)).all()


HIDDEN = "index n = range(12)\nmodel m { var x[i in n] : range(4)  require sum(x[i] * x[(i + 1) % 12] for i in n) == 108  factor 1 }\nsampler s { update x[i] for i in n }"


@pytest.mark.slow
def test_starts_that_are_not_found_are_drawn_where_p_is_summed():
    """One configuration of 4^12 again, which partial sums reach; a clamp that leaves none is told."""
    model = gm.parse(HIDDEN.replace("sum(x[i] * x[(i + 1) % 12] for i in n) == 108", "sum(x[i] for i in n) == 36")).model()
    idata = model.sample({}, draws=2, warmup=0)
    assert (draws(idata) == 3).all()
    assert "exact draws" in idata.posterior.attrs["starts"]
    with pytest.raises(gm.GmlmError, match="clamped"):
        model.sample({}, draws=2, warmup=0, clamp={"x": {0: 2}})


@pytest.mark.slow
def test_a_start_does_not_depend_on_how_many_chains_there_are(monkeypatch: pytest.MonkeyPatch):
    """Chain 2 alone is drawn; the others keep the starts that they have without it."""
    model = gm.parse("model m { var x[i in range(6)] : range(4)  factor x[0] }  sampler s { update x[i] for i in range(6) }").model()
    plain = draws(model.sample({}, draws=1, warmup=0, chains=2, progress=False))
    found, told = _starts._uniform, itertools.count()
    monkeypatch.setattr(_starts, "_uniform", lambda *a: None if next(told) == 2 else found(*a))
    monkeypatch.setattr(_starts, "_built", lambda *a: None)
    idata = model.sample({}, draws=1, warmup=0, chains=4, progress=False)
    assert "exact draws" in idata.posterior.attrs["starts"]
    np.testing.assert_array_equal(draws(idata)[:2], plain)


@pytest.mark.slow
def test_starts_that_are_not_found_ask_for_one(monkeypatch: pytest.MonkeyPatch):
    """One configuration of 4^12, and no move of one cell that mends the only requirement tells where it lies: in 5000 moves as in 200 000."""
    monkeypatch.setattr(limits, "MOST_MOVES", 5000)
    model = gm.parse(HIDDEN).model()
    with pytest.raises(gm.GmlmError, match="no start of positive probability") as caught:
        model.sample({}, draws=2, warmup=0)
    assert "init=" in str(caught.value)
    idata = model.sample({}, draws=2, warmup=0, init=np.full(12, 3))
    assert (draws(idata) == 3).all()


HARD = """
graph G = grid(6, 6)
model hard_core {
  var x[i in G.nodes] : bit
  var k : range(12)
  factor log(k == 7)
  require not (x[i] == 1 and x[j] == 1) for (i, j) in G.edges
  require sum(x[i] for i in G.nodes) > 3
}
sampler s { update x[1] }
"""


@pytest.mark.slow
def test_starts_are_built_where_no_uniform_one_is_possible():
    """Hard-core particles on 6 by 6: one configuration in 10^5 is possible. Built starts differ from chain to chain, and say what they are."""
    model = gm.parse(HARD).model()
    idata, more = (model.sample({}, draws=2, warmup=0, chains=c, clamp={"x": {0: 1, 35: 1}}) for c in (3, 4))
    x = draws(idata)
    assert np.isfinite(np.asarray(model.log_potential({}, {"x": x, "k": draws(idata, "k")}))).all()
    assert (x[..., [0, 35]] == 1).all()
    assert (draws(idata, "k") == 7).all()  # log 0 is no start either
    assert (x[0] != x[1]).any()
    np.testing.assert_array_equal(draws(more)[:3], x)
    assert idata.posterior.attrs["starts"] == "built by moves of single cells, not uniform"


def test_annealing_runs_the_body_at_rising_betas():
    """A kernel that adds 5 beta to its cell: 1 + 2 + 3 + 4 + 5 in five steps, before the warm-up."""

    class Counts(derive.AbstractKernel):
        def step(self, target: derive.Target, keys: Any, state: derive.State) -> tuple[derive.State, derive.Info]:
            beta = jnp.zeros(state.codes.shape[1]) if target.beta is None else target.beta
            return derive.State(state.codes + jnp.rint(5 * beta).astype(jnp.int32)[None]), self.nothing(state.codes.shape[1])

    graph = derive.graph_arrays(gm.parse("model m { var x : range(3)  factor 0 * x }").model().graph)
    options: dict[str, Any] = {"seed": 0, "draws": 1, "warmup": 2, "thin": 1, "observe": None, "keep": True, "progress": False}
    for steps, total in ((5, 15), (1, 5), (0, 0)):
        found = KernelRun(Counts(), derive.Target(graph, {}, None), np.zeros((1, 2), int), anneal=steps, **options).run()
        np.testing.assert_array_equal(found.last, np.full((1, 2), total))


@pytest.mark.slow
def test_annealed_chains_begin_in_a_deep_mode():
    """A strong ferromagnet on 8 by 8: cooled chains have fewer broken bonds than chains that start at random, and say so."""
    text = "graph G = grid(8, 8, wrap = true)\nmodel m { var x[i in G.nodes] : spin  factor 2 * x[i] * x[j] for (i, j) in G.edges }\nsampler s { update x[i] for i in G.nodes }"
    model = gm.parse(text).model()
    warm, cool = (model.sample({}, draws=1, warmup=10, chains=30, seed=1, init=i) for i in (None, gm.annealed(100)))
    assert float(cool.sample_stats["lp"].mean()) > float(warm.sample_stats["lp"].mean()) + 10
    assert cool.posterior.attrs["starts"] == "uniform, then 100 annealing steps"
    again = model.sample({}, draws=1, warmup=10, chains=30, seed=1, init=gm.annealed(100))
    np.testing.assert_array_equal(draws(again), draws(cool))


@pytest.mark.parametrize("steps", [0, -1, 1.5, True, "many"])
def test_annealing_takes_a_whole_number_of_steps(steps: Any):
    with pytest.raises(gm.GmlmError, match="annealed: steps must be a whole number of at least 1"):
        gm.annealed(steps)


def test_the_last_call_takes_no_step_too_many(small: Any):
    """70 draws are recorded 64 at a time: the chain ends where draw 69 is, whatever is cut off."""
    lowered, checked = small.lowered, small.sampler("gibbs")[1]
    kernel = derive.build_kernel(lowered, checked).kernel
    target = derive.Target(derive.graph_arrays(small.graph), {"J": jnp.asarray(PARAMS["J"], float)}, None)
    options: dict[str, Any] = {"seed": 0, "warmup": 2, "thin": 1, "observe": None, "keep": True, "progress": False}
    found = KernelRun(kernel, target, np.zeros((4, 2), int), draws=70, **options).run()
    assert found.codes is not None
    np.testing.assert_array_equal(found.last.T, found.codes[:, -1])


@pytest.mark.slow
def test_clamped_cells_do_not_count_as_drawn(small: Any):
    """`only` draws w and x[0]: with w clamped its update has no rate, and x[0] flips as often as it does."""
    idata = small.sample(PARAMS, "only", chains=2, draws=40, warmup=3, seed=5, clamp={"w": "sun"})
    x, rates = draws(idata), idata.sample_stats["flip_rate"].values
    assert np.isnan(rates[..., 0]).all()
    np.testing.assert_array_equal(rates[:, 1:, 1], x[:, 1:, 0] != x[:, :-1, 0])
    assert "`update w" not in idata.posterior.attrs["warnings"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": {"x": [1, 1, 1], "w": "snow"}}, "start of chain 0 has probability zero"),
        ({"init": {"x": [1, 1, 1], "w": "sun"}, "clamp": {"w": "snow"}}, "start of chain 0 has probability zero"),
        pytest.param(
            {"clamp": {"x": {2: 1}, "w": "snow"}},
            r"agrees with the clamped (cells|values of `x\[south\]`, `w`)",  # named where the sum is at hand
            marks=pytest.mark.slow,
        ),
        ({"init": {"x": np.ones((3, 3)), "w": ["sun"] * 3}}, "one for each of 2 chains"),
        ({"init": {"x": [1, 1, 0], "w": "sun"}}, "not a value of `x`"),
        ({"init": {"x": [1, 1, 1]}}, "lacks `w`"),
        ({"clamp": {"y": 1}}, "no variable `y`"),
        ({"clamp": {"x": {3: 1}}}, "3 is not a cell of `x`"),
        ({"clamp": {"x": {"east": 1}}}, "`east` is not a member of axis 0 of `x`"),
        ({"clamp": {"x": {0: 0}}}, "not a value of `x`"),
        ({"clamp": {"w": "hail"}}, "'hail'"),
        ({"clamp": {"x": np.ones((2, 3))}}, r"must have shape \(3,\)"),
        ({"draws": 0}, "draws must be a whole number of at least 1"),
        ({"warmup": -1}, "warmup must be"),
        ({"chains": 0}, "chains must be"),
        ({"chains": 1.5}, "chains must be"),
        ({"thin": 0}, "thin must be"),
        ({"seed": -1}, "seed must be"),
        ({"draws": True}, "draws must be"),
        ({"observe": ["ups"]}, "did you mean `up`"),
        ({"observe": {"x": lambda v: 0}}, "is a variable's name"),
        ({"observe": {"m": 3}}, "must be a function"),
        ({"sampler": "gips"}, "did you mean `gibbs`"),
        ({"sampler": None}, "2 samplers: say which"),
    ],
)
def test_options_that_do_not_fit_are_refused(small: Any, options: dict[str, Any], message: str):
    with pytest.raises(gm.GmlmError, match=message):
        small.sample(PARAMS, **{"sampler": "gibbs", "draws": 2, "warmup": 0, "chains": 2, **options})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "lacks `J`"),
        ({"J": np.zeros(3)}, r"must have shape \(2,\), got \(3,\)"),
        ({"J": [np.nan, 0]}, "has a NaN"),
        ({"J": ["a", "b"]}, "not an array of numbers"),
        ({"J": np.zeros(2), "K": 1}, "no parameter `K`"),
        (np.zeros(2), "must be a dict"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(small: Any, params: Any, message: str):
    with pytest.raises(gm.GmlmError, match=message):
        small.sample(params, "gibbs", draws=2)


# Observables


def test_functions_and_lets_are_computed_on_the_fly(observed: Any):
    idata = observed
    x, w = draws(idata), draws(idata, "w")
    np.testing.assert_allclose(draws(idata, "m"), x.mean(axis=-1), atol=1e-6)
    np.testing.assert_array_equal(draws(idata, "wet"), w == 1)
    np.testing.assert_array_equal(draws(idata, "up"), (x == 1).sum(axis=-1))
    np.testing.assert_array_equal(draws(idata, "pairs"), x[..., 1:] == x[..., :-1])


@pytest.mark.slow
def test_draws_need_not_be_kept(small: Any):
    idata = small.sample(PARAMS, "gibbs", chains=2, draws=10, warmup=3, seed=5, observe={"s": lambda v: jnp.sum(v["x"])}, keep_draws=False)
    kept = small.sample(PARAMS, "gibbs", chains=2, draws=10, warmup=3, seed=5)
    assert set(idata.posterior.data_vars) == {"s"}
    assert set(idata.sample_stats.data_vars) == {"flip_rate"}  # log p costs as much as a sweep: it is that of kept draws
    np.testing.assert_array_equal(idata.sample_stats["flip_rate"], kept.sample_stats["flip_rate"])
    np.testing.assert_array_equal(draws(idata, "s"), draws(kept).sum(axis=-1))


def test_a_model_of_one_variable_observes_its_array():
    text = "index n = range(3)\nmodel m { var x[i in n] : range(3)  factor x[i] for i in n }\nsampler s { update x[i] for i in n }"
    idata = gm.parse(text).model().sample({}, draws=5, chains=2, warmup=0, observe={"first": lambda v: v[0]})
    np.testing.assert_array_equal(draws(idata, "first"), draws(idata)[..., 0])


def test_functions_to_observe_that_compute_the_same_share_a_compiled_program():
    """A value that a function looks up counts as it is now, and what calls back into Python is compiled anew."""
    text = "index n = range(3)\nmodel m { var x[i in n] : range(3)  factor x[i] for i in n }\nsampler s { update x[i] for i in n }"
    model, power = gm.parse(text).model(), jnp.asarray([1, 2, 4])

    def found(function: Any) -> np.ndarray:
        return draws(model.sample({}, draws=5, chains=2, warmup=0, observe={"sum": function}), "sum")

    codes = draws(model.sample({}, draws=5, chains=2, warmup=0))
    first = found(lambda v: (v * power).sum())
    with traced_or_compiled() as events:
        np.testing.assert_array_equal(found(lambda other: (other * power).sum()), first)
    assert programs(events) == 0
    power = 3 * power
    np.testing.assert_allclose(found(lambda v: (v * power).sum()), 3 * first)
    shape = jax.ShapeDtypeStruct((), jnp.int32)
    for k in (2, 3):
        seen = found(lambda v, k=k: jax.pure_callback(lambda v: np.int32(k * v[0]), shape, v, vmap_method="sequential"))
        np.testing.assert_array_equal(seen, k * codes[..., 0])


@pytest.mark.produces("E553")
def test_a_function_to_observe_that_fails_is_one_diagnostic():
    model = gm.parse(
        'model m { var x[i in range(2)] : labels("a", "b")  param h  factor h * (x[0] == "a") }\nsampler s { update x }'
    ).model()
    with pytest.raises(gm.GmlmError, match=r"(?s)E553.*`n` fails: .*codes from 0") as caught:
        model.sample({"h": 0.0}, draws=2, observe={"n": lambda x: (x == "a").sum()})
    assert len(caught.value.diagnostics) == 1


@pytest.mark.parametrize("clamp", thinned([{"w": "snow", "x": {2: 1}}, {"w": "snow", "x": [1, 1, 1]}], 2, 1), ids=["some", "all"])
def test_exact_draws_refuse_clamped_cells_that_are_impossible_together(small: Any, clamp: dict[str, Any]):
    """Also where every cell is clamped, so that nothing is left to sum."""
    with pytest.raises(gm.GmlmError, match="no configuration agrees") as caught:
        small.sample(PARAMS, "exact", chains=1, draws=2, clamp=clamp)
    assert caught.value.codes == ("E512",)
