"""Annealed importance sampling: against exact log Z, exact moments of the weights, and its own standard errors."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import BY_NAME, CASES, Case
from references.kaufman import CRITICAL, torus
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.sample._annealed_importance import LogPartitionEstimate, summarise, verified_betas

WIDE = """
input n : int
graph G = chain(n)
model hard_core {
  var x[i in G.nodes] : bit
  param h[i in G.nodes]
  param J
  factor h[i] * x[i] for i in G.nodes
  factor J * x[i] * x[i + 2] for i in G.nodes if i < n - 2
  require not (x[i] == 1 and x[j] == 1) for (i, j) in G.edges
}
sampler pairs { update {x[i], x[j]} for (i, j) in G.edges }
"""
GRID = """
input L : int
graph G = grid(L, L)
model magnet {
  var x[i in G.nodes] : spin
  param J
  factor J * x[i] * x[j] for (i, j) in G.edges
}
sampler sweep { update x[i] for i in G.nodes }
sampler naive { update x independently }
sampler hot   { temper(betas = [0.5, 1]) { update x[i] for i in G.nodes } }
sampler inner { mixture { 1 : update x[i] for i in G.nodes  1 : cycle { repeat 2 { update x[r] independently for r in G.rows } } } }
sampler apart { update x[i] independently for i in G.nodes }
"""
# Betas so few that the weights spread, for their moments are what is tested.
LESS = float(jnp.finfo(jnp.asarray(0.0, float).dtype).eps) / 8  # which the working precision does not add to a half
COARSE = np.array([0.0, 0.3, 0.7, 1.0])


def agrees(found: LogPartitionEstimate, exact: float, errors: float = 4) -> bool:
    # 2e-5 is what 32-bit factors leave where every weight is the same.
    return abs(found.log_partition - exact) <= errors * found.standard_error + 2e-5


@pytest.mark.parametrize("case", thinned(CASES, 12, 6), ids=str)
def test_sweeps_of_single_cells_estimate_log_z(case: Case):
    """Every kind of domain, factor, law and requirement; none of the models says how its cells are redrawn."""
    exact = case.oracle.log_partition(case.params)
    found = case.model.annealed_log_partition(case.params, betas=60, chains=256, seed=3)
    assert agrees(found, exact)
    assert found.standard_error < 0.2
    assert str(found).startswith("annealed importance sampling: log Z is about")
    assert found.log_weights.shape == (256,)
    assert found.log_weights.dtype == np.float64


SAMPLERS = [
    *[("weather", s) for s in ("gibbs", "drawn", "mixed")],
    *[("log_zero", s) for s in ("looks", "nones", "rates", "mixes", "sweep")],
    *[("lattice", s) for s in ("strips", "warm", "agree", "hybrid")],
    ("bipartite", "ties"),
    ("bipartite", "apart"),
    ("triples", "sight"),
]


def exact_moments(case: Case, sampler: str, powers: tuple[int, ...]) -> list[float]:
    """E w^m of a chain's weight: configurations carry their weight through the kernel's matrix at each beta."""
    log_p = case.oracle.log_table(case.params).ravel()
    possible, steps = log_p > -np.inf, np.diff(COARSE)
    matrices = [case.oracle.at_beta(b).transition_matrix(case.params, sampler) for b in COARSE[1:-1]]
    found = []
    for m in powers:
        mass = np.where(possible, possible.sum() ** (m - 1.0), 0.0)  # (1 / count) * count^m on each of `count`
        for k, step in enumerate(steps):
            mass = mass * np.where(possible, np.exp(m * step * np.where(possible, log_p, 0.0)), 0.0)
            mass = mass @ matrices[k] if k < len(matrices) else mass
        found.append(float(mass.sum()))
    return found


@pytest.mark.slow  # statistical
@pytest.mark.parametrize(("name", "sampler"), thinned(SAMPLERS, 12, 7))
def test_the_weights_have_the_moments_of_enumeration(name: str, sampler: str):
    """Mean and variance within 4 of their own exact standard deviations: adaptive masks, mixtures, kernels that never reach all of x."""
    case, n = BY_NAME[name], 20_000
    one, two, three, four = exact_moments(case, sampler, (1, 2, 3, 4))
    z = case.oracle.log_partition(case.params)
    np.testing.assert_allclose(np.log(one), z, rtol=1e-9, atol=1e-9)  # the method itself: E w = Z
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.SamplingWarning)
        found = case.model.annealed_log_partition(case.params, sampler, betas=COARSE, chains=n, seed=5)
    w, spread = np.exp(found.log_weights - z), np.sqrt(two / one**2 - 1)
    central = four / one**4 - 4 * three / one**3 + 6 * two / one**2 - 3
    assert abs(w.mean() - 1) < 4 * spread / np.sqrt(n) + 1e-5
    assert abs(w.var() - spread**2) < 4 * np.sqrt((central - spread**4) / n) + 1e-5
    assert found.standard_error == pytest.approx(w.std(ddof=1) / w.mean() / np.sqrt(n), rel=1e-6)


@pytest.mark.slow
def test_standard_errors_cover() -> None:
    """400 replications of 128 chains: their estimates in units of their standard errors are standard normal."""
    case, size = BY_NAME["lattice"], 128
    exact = case.oracle.log_partition(case.params)
    found = case.model.annealed_log_partition(case.params, betas=60, chains=400 * size, seed=1)
    each = [summarise(w, found.betas) for w in found.log_weights.reshape(400, size)]
    z = np.array([(e.log_partition - exact) / e.standard_error for e in each])
    assert 0.92 <= (abs(z) < 1.96).mean() <= 0.98
    assert abs(z.mean()) < 0.25  # the log of a mean lies low by half a standard error squared
    assert 0.88 < z.std() < 1.15


@pytest.mark.slow
def test_standard_errors_cover_where_the_possible_are_counted() -> None:
    """Whole calls from 200 seeds: starts by rejection, their share estimated."""
    model = gm.parse(WIDE, n=20).model()
    rng = np.random.default_rng(0)
    params = {"h": rng.normal(size=20), "J": 0.8}
    exact = float(model.log_partition(params))
    found = [model.annealed_log_partition(params, betas=30, chains=64, seed=s) for s in range(200)]
    z = np.array([(e.log_partition - exact) / e.standard_error for e in found])
    assert 0.90 <= (abs(z) < 1.96).mean() <= 0.985
    assert abs(z.mean()) < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("sampler", thinned([None, "pairs"], 2, 1))
def test_requirements_of_wide_models(sampler: str | None) -> None:
    """One in 59 configurations of 20 cells is possible: the share is counted, and its error is part of the standard error."""
    model = gm.parse(WIDE, n=20).model()
    params = {"h": np.linspace(-1, 1, 20), "J": 0.8}
    found = model.annealed_log_partition(params, sampler, betas=200, chains=200, seed=2)
    assert agrees(found, float(model.log_partition(params)))
    share = 17711 / 2**20  # a Fibonacci number
    assert found.standard_error > np.sqrt((1 - share) / (share * 2**16)) * 0.9


@pytest.mark.slow
def test_starts_of_small_models_are_uniform_on_what_is_possible() -> None:
    """With p constant on its support every weight is the number of possible configurations, exactly."""
    text = "model m { var x[i in range(6)] : bit  var k : range(3)  require sum(x[i] for i in range(6)) == k }"
    found = gm.parse(text).model().annealed_log_partition({}, betas=3, chains=16)
    np.testing.assert_allclose(found.log_weights, np.log(1 + 6 + 15), rtol=1e-12)
    assert found.standard_error == 0
    assert found.effective_sample_size == pytest.approx(16)


@pytest.mark.slow
@pytest.mark.parametrize("precise", thinned([False, True], 2))
def test_large_models_in_either_precision(precise: bool) -> None:
    """1200 independent cells, log p of a thousand, 600 betas: rounding stays far below the standard error."""
    text = "input n : int\nmodel m { var x[i in range(n)] : spin  param h[i in range(n)]  factor h[i] * x[i] for i in range(n) }"
    n = 1200
    h = np.random.default_rng(0).normal(0, 0.5, size=n) + 1
    with jax.enable_x64(precise):
        found = gm.parse(text, n=n).model().annealed_log_partition({"h": h}, betas=600, chains=100)
    exact = np.logaddexp(h, -h).sum()
    assert found.standard_error < 0.2
    assert agrees(found, exact)


@pytest.mark.slow
def test_rounding_to_32_bits_is_below_every_standard_error() -> None:
    """Every weight is exp(2000 * 1.234567): what 32 bits lose is one rounding of log p, and none of the 997 products."""
    text = "input n : int\nmodel m { var x[i in range(n)] : bit  param c  factor c + 0 * x[i] for i in range(n) }"
    found = gm.parse(text, n=2000).model().annealed_log_partition({"c": 1.234567}, betas=997, chains=10)
    np.testing.assert_allclose(found.log_partition, 2000 * (1.234567 + np.log(2)), rtol=3e-7)
    assert found.standard_error < 1e-6


@pytest.mark.slow
def test_batches_of_chains_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain's weight depends on the seed and its number, not on the chains beside it."""
    model = gm.parse(GRID, L=3).model()
    whole = model.annealed_log_partition({"J": 0.5}, "sweep", betas=8, chains=50, seed=4)
    monkeypatch.setattr("gmlmdsl.sample.limits.ANNEALED_AT_ONCE", 18 * 7)
    parts = model.annealed_log_partition({"J": 0.5}, "sweep", betas=8, chains=50, seed=4)
    np.testing.assert_allclose(parts.log_weights, whole.log_weights, rtol=1e-6)
    again = model.annealed_log_partition({"J": 0.5}, "sweep", betas=8, chains=50, seed=5)
    assert not np.allclose(again.log_weights, whole.log_weights)


@pytest.mark.slow
def test_more_steps_spread_less() -> None:
    model = gm.parse(GRID, L=4).model()
    one, eight = (model.annealed_log_partition({"J": 0.6}, betas=20, chains=8192, steps_per_beta=s) for s in (1, 8))
    assert eight.standard_error < 0.8 * one.standard_error


def test_degenerate_weights_are_said() -> None:
    model = gm.parse(GRID, L=6).model()
    with pytest.warns(gm.SamplingWarning, match="The weights degenerate: an effective sample size of"):
        found = model.annealed_log_partition({"J": 1.5}, betas=2, chains=64)
    assert found.effective_sample_size < 10
    assert len(found.warnings) == 1
    assert found.warnings[0] in repr(found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = model.annealed_log_partition({"J": 0.3}, betas=100, chains=64)
    assert good.warnings == ()
    assert "64 chains, 101 betas" in repr(good)


@pytest.mark.parametrize(("variance", "least", "most"), [(0.5, 0.0, 0.02), (1.0, 0.0, 0.05), (3.0, 0.8, 1.0), (6.0, 0.98, 1.0)])
@pytest.mark.parametrize("chains", [64, 256])
@pytest.mark.filterwarnings("ignore::gmlmdsl.sample._draw.SamplingWarning")
def test_the_warning_comes_where_standard_errors_fail(variance: float, least: float, most: float, chains: int) -> None:
    """Log-normal weights, 200 times over: the warning is rare where intervals cover and near certain where they do not.

    The sample's own effective size alone would pass most cases of variance 3, whose large weights it has not seen.
    """
    rng = np.random.default_rng(0)
    found = [summarise(rng.normal(0, np.sqrt(variance), chains) - variance / 2, np.array([0.0, 1.0])) for _ in range(200)]
    warned = np.array([bool(e.warnings) for e in found])
    covered = np.array([abs(e.log_partition) < 1.96 * e.standard_error for e in found])
    assert least <= warned.mean() <= most
    assert covered.mean() > 0.87 if most < 0.5 else covered.mean() < 0.9
    if variance == 3:
        assert np.mean([e.effective_sample_size for e in found]) > 0.1 * chains


def test_small_weights_do_no_harm() -> None:
    """Half of the chains in a mode that weighs nothing: an effective size of half of them, and no warning."""
    log_w = np.concatenate([np.full(50, -80.0), np.random.default_rng(0).normal(0, 0.1, 51)])
    found = summarise(log_w, np.array([0.0, 1.0]))
    assert found.warnings == ()
    assert found.effective_sample_size == pytest.approx(50.5, abs=1)
    assert summarise(np.zeros(20), np.array([0.0, 1.0])).warnings == ()


@pytest.mark.slow  # long; enumeration says log Z of small models above
@pytest.mark.parametrize(("n", "m"), [(12, 12), (6, 20)])
def test_tori_have_kaufmans_partition_function(n: int, m: int) -> None:
    """144 spins at the critical coupling, far beyond enumeration."""
    text = GRID.replace("input L : int", "input n : int  input m : int").replace("grid(L, L)", "grid(n, m, wrap = true)")
    model = gm.parse(text, n=n, m=m).model()
    found = model.annealed_log_partition({"J": CRITICAL}, "sweep", betas=800, chains=128)
    assert agrees(found, torus(n, m, float(np.float32(CRITICAL))).log_partition)
    assert found.standard_error < 0.15
    assert found.warnings == ()


@pytest.mark.slow
def test_anneals_too_quick_for_a_large_torus_say_so() -> None:
    """1024 spins through their critical point: the estimate is many standard errors too low, and warned of."""
    model = gm.parse(GRID.replace("grid(L, L)", "grid(L, L, wrap = true)"), L=32).model()
    with pytest.warns(gm.SamplingWarning, match="The weights degenerate"):
        found = model.annealed_log_partition({"J": 0.44}, "sweep", betas=200, chains=64)
    assert 2 * found.standard_error < torus(32, 32, 0.44).log_partition - found.log_partition < 10


def test_the_summary_of_weights_is_the_delta_method() -> None:
    w = np.array([1.0, 2.0, 4.0, 1.0] * 10)
    found = summarise(np.log(w) + 800, np.array([0.0, 1.0]), variance=0.01)
    assert found.log_partition == pytest.approx(800 + np.log(2))
    assert found.effective_sample_size == pytest.approx(80**2 / 220)
    assert found.standard_error == pytest.approx(np.sqrt(w.var(ddof=1) / 40 / 4 + 0.01))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"betas": 0}, "betas must be a whole number of at least 1, got 0"),
        ({"betas": 2.5}, "betas must be a whole number of at least 1, got 2.5"),
        ({"betas": True}, "betas must be a whole number of at least 1, got True"),
        ({"betas": [0.1, 1]}, "betas must run from 0 to 1, got from 0.1 to 1"),
        ({"betas": [0, 0.5]}, "betas must run from 0 to 1, got from 0 to 0.5"),
        ({"betas": []}, "betas must run from 0 to 1, got an array of shape (0,)"),
        ({"betas": [[0, 1]]}, "betas must run from 0 to 1, got an array of shape (1, 2)"),
        ({"betas": [0, 0.6, 0.5, 1]}, "betas must ascend, got 0.6 and then 0.5 at place 2"),
        ({"betas": [0, 0.5, 0.5 + LESS, 1]}, f"betas must ascend, got 0.5 and then {0.5 + LESS:.9g} at place 2"),
        ({"betas": [0, np.nan, 1]}, "betas must ascend, got 0 and then nan at place 1"),
        ({"betas": ["low", "high"]}, "betas must be a whole number or a list of numbers"),
        ({"betas": "many"}, "betas must be a whole number of at least 1, got 'many'"),
        ({"steps_per_beta": 0}, "steps_per_beta must be a whole number of at least 1"),
        ({"chains": 1}, "chains must be a whole number of at least 2"),
        ({"seed": -1}, "seed must be a whole number from 0"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], said: str) -> None:
    model = gm.parse(GRID, L=2).model()
    with pytest.raises(gm.GmlmError) as caught:
        model.annealed_log_partition({"J": 0.1}, **options)
    assert caught.value.diagnostics[0].code == "E507"
    assert said in caught.value.diagnostics[0].message


def test_betas_are_what_the_device_holds() -> None:
    assert verified_betas(np.array([0, 0.1, 1])).tolist() == [0, float(jnp.asarray(0.1, float)), 1]
    np.testing.assert_allclose(verified_betas(4), [0, 0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize(
    ("sampler", "place", "said"),
    [
        ("naive", "update x independently", "`independently` keeps no known distribution"),
        ("inner", "update x[r] independently for r in G.rows", "`independently` keeps no known distribution"),
        ("hot", "temper(betas = [0.5, 1])", "`temper` has betas of its own"),
    ],
)
def test_samplers_that_do_not_keep_p_are_refused(sampler: str, place: str, said: str) -> None:
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse(GRID, L=2).model().annealed_log_partition({"J": 0.1}, sampler)
    found = caught.value.diagnostics[0]
    assert found.code == "E507"
    assert said in found.message
    assert found.span.text.startswith(place)
    assert "name another sampler" in (found.help or "")


@pytest.mark.slow  # the parallel update itself is compared in test_transitions.py
def test_independent_updates_of_cells_that_do_not_interact_are_used() -> None:
    model = gm.parse(GRID, L=2).model()
    found = model.annealed_log_partition({"J": 0.4}, "apart", betas=50, chains=100)
    assert agrees(found, float(model.log_partition({"J": 0.4})))


def test_models_whose_law_at_beta_0_cannot_be_drawn_are_refused() -> None:
    nothing = gm.parse("model m { var a : bit  require a == 1  require a == 0 }").model()
    with pytest.raises(gm.GmlmError, match="no configuration has positive probability") as caught:
        nothing.annealed_log_partition({})
    assert caught.value.diagnostics[0].code == "E509"
    one_hot = "model m { var x[i in range(40)] : bit  require sum(x[i] for i in range(40)) == 1 }"
    with pytest.raises(gm.GmlmError, match="0 of 65536 uniform configurations are possible") as caught:
        gm.parse(one_hot).model().annealed_log_partition({})
    assert caught.value.diagnostics[0].code == "E509"


def test_zeros_of_parameters_are_counted() -> None:
    """A simplex parameter with a zero makes half of the configurations impossible, which no look at the text shows."""
    text = "input n : int\nmodel m { var x : bit  var y[i in range(n)] : bit  param p[a in range(2)] : simplex\n  param J  x ~ categorical(p)  factor J * x * y[i] for i in range(n) }"
    model = gm.parse(text, n=14).model()
    params = {"p": np.array([0.0, 1.0]), "J": 0.2}
    found = model.annealed_log_partition(params, betas=20, chains=400)
    assert 150 < len(found.log_weights) < 250
    assert agrees(found, 14 * np.log1p(np.exp(0.2)))
    assert found.standard_error > 0.04
