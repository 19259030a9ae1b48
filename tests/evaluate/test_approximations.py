"""Belief propagation, mean field, max-product and annealing against exact answers of small models."""

from __future__ import annotations

import pickle
import time
from contextlib import nullcontext
from functools import cache
from typing import Any, cast

import jax
import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.evaluate import limits

pytestmark = [pytest.mark.usefixtures("float64")]
EXACT = {"rtol": 0, "atol": 1e-9}
Scopes = list[tuple[int, ...]]
BP, MF = "belief-propagation", "mean-field"


def table_model(
    sizes: list[int], scopes: Scopes, rng: np.random.Generator, scale: float = 1.0, more: str = ""
) -> tuple[Any, dict[str, Any]]:
    """A model of a field on every cell and a random table on every scope, and its parameters."""
    lines = [f"  var {', '.join(f'x{i}' for i, q in enumerate(sizes) if q == size)} : range({size})" for size in sorted(set(sizes))]
    params = {}
    for k, scope in enumerate([*[(i,) for i in range(len(sizes))], *scopes]):
        axes = ", ".join(f"a{j} in range({sizes[i]})" for j, i in enumerate(scope))
        lines += [f"  param T{k}[{axes}]", f"  factor T{k}[{', '.join(f'x{i}' for i in scope)}]"]
        params[f"T{k}"] = scale * rng.normal(size=[sizes[i] for i in scope])
    return gm.parse("\n".join(["model m {", *lines, more, "}"])).model(), params


def errors(found: Any, wanted: Any) -> float:
    return max(float(np.abs(found[name] - wanted[name]).max()) for name in wanted)


def pair(model: Any, params: Any, mode: Any) -> float:
    return float(model.log_potential(params, mode.configuration))


TREES = {
    "a chain": ([2] * 6, [(i, i + 1) for i in range(5)], ""),
    "a tree of mixed sizes": ([2, 3, 4, 3, 2, 5], [(0, 1), (1, 2), (1, 3), (5, 3), (4, 3)], ""),
    "factors of three cells": ([3, 2, 3, 2, 4, 3, 2], [(0, 1, 2), (2, 4, 3), (6, 5, 4)], ""),
    "requirements": ([3, 3, 3, 3], [(0, 1), (1, 2), (2, 3)], "  require x0 != x1\n  require x2 + x1 < 3\n  require x3 != x2"),
    "two factors of the same cells": ([3, 3, 2], [(0, 1), (1, 0), (1, 2), (2, 1)], "  require x1 != x0"),
    "two parts": ([2, 2, 3, 3], [(0, 1), (3, 2)], ""),
    "no factor of two cells": ([2, 3], [], ""),
}


@pytest.mark.parametrize(("name", "seed"), thinned([(name, seed) for name in TREES for seed in range(3)], 6, 3))
def test_without_a_cycle_answers_are_exact(name: str, seed: int):
    sizes, scopes, more = TREES[name]
    model, params = table_model(sizes, scopes, np.random.default_rng(seed), 1.5, more)
    for clamp in (None, {"x1": 0}):
        found = model.marginals(params, clamp=clamp, method=BP)
        assert found.is_exact
        assert found.converged
        assert found.bound is None
        assert errors(found, model.marginals(params, clamp=clamp)) < 1e-9
        if clamp is None:
            np.testing.assert_allclose(found.log_partition, model.log_partition(params), **EXACT)
        best, mode = model.map(params, clamp=clamp), model.map(params, clamp=clamp, method="max-product")
        np.testing.assert_allclose(mode.log_prob, best.log_prob, **EXACT)
        np.testing.assert_allclose(mode.log_potential, pair(model, params, mode), **EXACT)
        assert mode.is_proven
        assert {k: int(v) for k, v in mode.configuration.items()} == {k: int(v) for k, v in best.configuration.items()}


@pytest.mark.parametrize("options", [{"tolerance": 0.1}, {"tolerance": 1e-3, "damping": 0.9}])
def test_options_do_not_matter_without_a_cycle(options: dict[str, float]):
    model, params = table_model([2] * 10, [(i, i + 1) for i in range(9)], np.random.default_rng(0), 0.5)
    found = model.marginals(params, method=gm.BeliefPropagation(**cast("Any", options)))
    assert errors(found, model.marginals(params)) < 1e-9


def test_log_partition_given_clamped_cells_is_that_of_the_sum_over_the_others():
    model, params = table_model([3, 3, 3], [(0, 1), (1, 2)], np.random.default_rng(1))
    found = model.marginals(params, clamp={"x1": 2}, method=BP).log_partition
    rows = {"x0": np.full(1, -9), "x1": np.array([2]), "x2": np.full(1, -9)}
    np.testing.assert_allclose(found, model.log_potential(params, rows, missing=-9)[0], **EXACT)


def test_a_cycle_that_clamped_cells_cut_leaves_exact_answers():
    model, params = table_model([3] * 4, [(0, 1), (1, 2), (2, 3), (3, 0)], np.random.default_rng(2))
    assert not model.marginals(params, method=BP).is_exact
    found = model.marginals(params, clamp={"x0": 1}, method=BP)
    assert found.is_exact
    assert errors(found, model.marginals(params, clamp={"x0": 1})) < 1e-9


@cache
def loopy() -> list[tuple[Any, dict[str, Any]]]:
    """Twenty models of 6 to 9 cells with random scopes of two and three cells; every fourth has requirements."""
    out = []
    for seed in range(20):
        rng = np.random.default_rng(100 + seed)
        n = int(rng.integers(6, 10))
        scopes = [tuple(rng.choice(n, int(k), replace=False).tolist()) for k in rng.choice([2, 2, 2, 3], n + 2)]
        more = "  require x0 != x1\n  require x1 + x2 > 0\n" if seed % 4 == 0 else ""
        out.append(table_model(rng.integers(2, 4, n).tolist(), scopes, rng, 0.6, more))
    return out


@pytest.mark.slow  # statistical: medians over twenty models
def test_errors_on_small_models_with_cycles():
    table = []
    for model, params in loopy():
        exact, log_z = model.marginals(params), float(model.log_partition(params))
        bp, mf = model.marginals(params, method=BP), model.marginals(params, method=MF)
        assert bp.converged
        table.append((errors(bp, exact), abs(bp.log_partition - log_z), errors(mf, exact), log_z - mf.log_partition, bp.is_exact))
    print("\nbelief propagation: marginals, log Z; mean field: marginals, log Z")
    print("\n".join("  ".join(f"{x:.2e}" for x in row[:4]) for row in table))
    bp, bethe, mf, gap, is_exact = np.array(table, float).T
    print("medians", *(f"{np.median(a):.2e}" for a in (bp, bethe, mf, gap)), "maxima", *(f"{a.max():.2e}" for a in (bp, bethe, mf, gap)))
    assert not is_exact.any()
    assert np.median(bp) < 0.05
    assert bp.max() < 0.12
    assert np.median(bethe) < 0.05
    assert bethe.max() < 0.3
    assert gap.min() > 0  # a bound below log Z, always
    assert gap.max() < 1.5
    assert np.median(mf) > np.median(bp)  # the bound costs accuracy


@pytest.mark.parametrize("k", range(0, 20, 5))
def test_the_mean_field_bound_is_that_of_its_own_marginals(k: int):
    """By enumeration: E_q[log_potential] + H(q) of the product q of the marginals."""
    model, params = loopy()[k]
    found = model.marginals(params, method=gm.MeanField(tolerance=1e-12))
    names = [*found]
    grid = np.stack([a.ravel() for a in np.meshgrid(*(np.arange(len(found[n])) for n in names), indexing="ij")])
    level = np.asarray(model.log_potential(params, dict(zip(names, grid, strict=True))))
    q = np.prod([found[n][codes] for n, codes in zip(names, grid, strict=True)], axis=0)
    some = q > 0
    bound = (q[some] * (level[some] - np.log(q[some]))).sum()
    np.testing.assert_allclose(found.log_partition, bound, rtol=0, atol=1e-8)


def test_mean_field_marginals_are_a_fixed_point():
    """q_i is proportional to exp(E[log_potential | x_i]) for every cell."""
    model, params = loopy()[1]
    found = model.marginals(params, method=gm.MeanField(tolerance=1e-12))
    names = [*found]
    grid = np.stack([a.ravel() for a in np.meshgrid(*(np.arange(len(found[n])) for n in names), indexing="ij")])
    level = np.asarray(model.log_potential(params, dict(zip(names, grid, strict=True))))
    for k, name in enumerate(names):
        rest = np.prod([found[n][grid[j]] for j, n in enumerate(names) if j != k], axis=0)
        mean = np.array([(rest * level)[grid[k] == v].sum() for v in range(len(found[name]))])
        law = np.exp(mean - mean.max())
        np.testing.assert_allclose(found[name], law / law.sum(), rtol=0, atol=1e-7)


@pytest.mark.parametrize("method", [BP, MF])
def test_clamped_cells_are_sure_and_the_bound_holds_given_them(method: str):
    for model, params in loopy()[::4]:
        clamp = {"x3": 1, "x4": 0}
        found = model.marginals(params, clamp=clamp, method=method)
        assert found["x3"].tolist()[1] == found["x4"].tolist()[0] == 1
        rows = {name: np.full(1, clamp.get(name, -9)) for name in found}
        log_sum = float(model.log_potential(params, rows, missing=-9)[0])
        if method == MF:
            assert found.bound == "lower"
            assert found.log_partition <= log_sum + 1e-9
        else:
            assert abs(found.log_partition - log_sum) < 0.2
            assert errors(found, model.marginals(params, clamp=clamp)) < 0.1


@pytest.mark.parametrize("method", [BP, MF])
def test_impossible_values_have_probability_zero(method: str):
    text = """
model m {
  var x[i in range(6)] : range(3)
  factor 0.3 * (x[i] == x[(i + 2) % 6]) for i in range(6)
  factor log((x[i] > 0) * 0.5) for i in range(1)
  require x[i] != x[i + 1] for i in range(5)
}
"""
    model = gm.parse(text).model()
    found = model.marginals({}, method=method)
    exact = model.marginals({})
    assert found["x"][0, 0] == 0
    np.testing.assert_allclose(found["x"].sum(axis=1), 1, rtol=1e-12)
    assert np.isfinite(found.log_partition)
    if method == MF:
        assert found.log_partition <= model.log_partition({})
    else:
        assert np.abs(found["x"] - exact["x"]).max() < 0.1


def test_rare_values_with_evidence_far_away_are_exact():
    """The messages of the first cell change by less than the tolerance, and the evidence weighs as much."""
    n = 12
    text = f"""
model m {{
  var x[i in range({n})] : bit
  param h[i in range({n})]
  factor h[i] * x[i] for i in range({n})
  factor 30 * (x[i] == x[i + 1]) for i in range({n - 1})
}}
"""
    model, params = gm.parse(text).model(), {"h": np.array([-25.0] + [0.0] * (n - 2) + [25.2])}
    found = model.marginals(params, method=BP)
    assert found.is_exact
    assert 0.5 < found["x"][0, 1] < 0.6
    assert errors(found, model.marginals(params)) < 1e-9
    np.testing.assert_allclose(found.log_partition, model.log_partition(params), **EXACT)


def test_large_penalties_leave_the_digits_of_other_messages():
    model, params = table_model([3, 3, 3], [(0, 1), (1, 2)], np.random.default_rng(4))
    params["T3"][0, 1] = -1e12
    params["T4"][1] -= 1e9
    found = model.marginals(params, method=BP)
    assert errors(found, model.marginals(params)) < 1e-9


def frustrated(scale: float = 3.0) -> tuple[Any, dict[str, Any]]:
    """Spins on a complete graph with random couplings, too strong for belief propagation without damping."""
    n, rng = 10, np.random.default_rng(3)
    program = gm.parse(f"""
model m {{
  var x[i in range({n})] : spin
  param J[i in range({n}), j in range({n})]
  param h[i in range({n})]
  factor h[i] * x[i] for i in range({n})
  factor J[i, j] * x[i] * x[j] for i in range({n}), j in range({n}) if i < j
}}
""")
    return program.model(), {"J": scale * rng.normal(size=(n, n)), "h": 0.1 * rng.normal(size=n)}


def test_a_run_that_does_not_converge_is_told():
    model, params = frustrated()
    with pytest.warns(gm.GmlmWarning, match="belief propagation has not converged in 1000 iterations.*damping=0.5") as caught:
        found = model.marginals(params, method=BP)
    assert caught[0].filename == __file__
    assert not found.converged
    assert not found.is_exact
    assert found.residual > 1e-3
    assert found.iterations == 1000
    assert "NOT converged" in found.summary
    assert "NOT converged" in repr(found)


def test_damping_makes_messages_converge():
    model, params = frustrated(0.4)
    with pytest.warns(gm.GmlmWarning, match="not converged"):
        plain = model.marginals(params, method=BP)
    found = model.marginals(params, method=gm.BeliefPropagation(damping=0.5))
    assert found.converged
    assert not plain.converged


def test_more_damping_takes_more_iterations():
    model, params = frustrated(0.2)
    few, many = (model.marginals(params, method=gm.BeliefPropagation(damping=d)) for d in (0.3, 0.9))
    assert few.converged
    assert many.converged
    assert few.iterations < 100 < many.iterations
    assert errors(few, many) < 1e-6  # the same fixed point


def test_more_starts_never_lower_the_bound():
    gains = []
    for seed in range(4):
        model, params = frustrated(1.0 + seed)
        one, many = (model.marginals(params, method=gm.MeanField(starts=k)).log_partition for k in (1, 8))
        gains.append(many - one)
    assert min(gains) >= 0
    assert max(gains) > 0.1


def test_too_few_iterations_on_a_tree_are_told_and_are_not_exact():
    model, params = table_model([2] * 8, [(i, i + 1) for i in range(7)], np.random.default_rng(5))
    with pytest.warns(gm.GmlmWarning, match="3 iterations.*more `iterations`"):
        found = model.marginals(params, method=gm.BeliefPropagation(iterations=3))
    assert not found.is_exact


@pytest.mark.parametrize("scale", thinned([0.3, 1.0, 3.0], 3, 1))
def test_annealing_finds_the_ground_state_of_a_small_spin_glass(scale: float):
    model, params = frustrated(scale)
    exact, found = model.map(params), model.map(params, method="anneal")
    np.testing.assert_array_equal(found.configuration, exact.configuration)
    np.testing.assert_allclose(found.log_prob, exact.log_prob, **EXACT)
    assert (exact.kind, exact.is_proven) == ("exact", True)
    assert (found.kind, found.is_proven) == ("annealing", False)
    other = model.map(params, method="max-product")
    assert (other.kind, other.is_proven) == ("max-product", False)
    assert other.log_prob <= exact.log_prob + 1e-9


@pytest.mark.parametrize("some", [slice(0, 5), pytest.param(slice(5, 20), marks=pytest.mark.slow)], ids=["five", "fifteen"])
@pytest.mark.parametrize("method", ["anneal", gm.SimulatedAnnealing(sweeps=1, chains=1), "max-product"])
def test_modes_are_local_optima_and_their_numbers_are_right(method: Any, some: slice):
    for model, params in loopy()[some]:
        found, log_p = mode = model.map(params, method=method)
        np.testing.assert_allclose(log_p, model.log_prob(params, found), **EXACT)
        np.testing.assert_allclose(mode.log_potential, pair(model, params, mode), **EXACT)
        for name in found:
            for v in range(len(model.graph.variable(name).labels)):
                assert model.log_potential(params, {**found, name: v}) <= mode.log_potential + 1e-9


@pytest.mark.parametrize("method", ["anneal", "max-product"])
def test_ties_and_requirements_end_in_a_possible_configuration(method: str):
    """Three colours on a ring of nine: every cell alone is uniform, and all must agree."""
    model = gm.parse("model m {\n  var x[i in range(9)] : range(3)\n  require x[i] != x[(i + 1) % 9] for i in range(9)\n}").model()
    found = model.map({}, method=method)
    assert found.log_potential == 0
    assert (found.configuration != np.roll(found.configuration, 1)).all()
    clamped = model.map({}, clamp={"x": {0: 2, 2: 1}}, method=method)
    assert clamped.configuration[[0, 1, 2]].tolist() == [2, 0, 1]


def test_equal_values_are_decoded_together():
    """Every cell alone is uniform, and the value of one decides those of all others."""
    model = gm.parse("model m {\n  var x[i in range(40)] : range(3)\n  factor x[i + 1] == (x[i] + 1) % 3 for i in range(39)\n}").model()
    found = model.map({}, method="max-product")
    assert found.is_proven
    assert found.log_potential == 39


@pytest.mark.parametrize("rule", ["x[i] != x[i + 1]", "x[i + 1] == (x[i] + 1) % 3"])
def test_a_long_tied_chain_is_proven(rule: str):
    model = gm.parse(f"model m {{\n  var x[i in range(40)] : range(3)\n  require {rule} for i in range(39)\n}}").model()
    found = model.map({}, method=gm.MaxProduct())
    assert found.is_proven
    assert found.log_potential == 0


@pytest.mark.parametrize("method", ["anneal", "max-product"])
def test_impossible_configurations_are_never_returned(method: str):
    two_colours = gm.parse("model m {\n  var x[i in range(5)] : range(2)\n  require x[i] != x[(i + 1) % 5] for i in range(5)\n}").model()
    with pytest.raises(gm.GmlmError, match=r"E512.*no configuration"):
        two_colours.map({}, method=method)
    with pytest.raises(gm.GmlmError, match=r"E512.*no configuration has a positive"):
        two_colours.map({}, clamp={"x": {0: 1, 1: 1}}, method=method)


def test_messages_prove_contradictions():
    text = "  require x0 == 0 or x0 == 1\n  require x1 == 2\n  require x0 == x1"
    model, params = table_model([3, 3], [(0, 1)], np.random.default_rng(9), more=text)
    with pytest.raises(gm.GmlmError, match=r"E512.*no configuration has a positive"):
        model.marginals(params, method=BP)
    with pytest.raises(gm.GmlmError, match=r"E512.*no configuration has a positive"):
        model.map(params, method="max-product")


@pytest.mark.parametrize("method", [BP, MF])
def test_contradictions_are_errors(method: str):
    model = gm.parse("model m {\n  var x[i in range(4)] : range(2)\n  require x[i] != x[i + 1] for i in range(3)\n}").model()
    with pytest.raises(gm.GmlmError, match=r"E512.*clamped values of `x\[0\]`, `x\[3\]`"):
        model.marginals({}, clamp={"x": {0: 1, 3: 1}}, method=method)
    with pytest.raises(gm.GmlmError, match=r"E512.*clamped values of `x\[0\]`, `x\[1\]`"):
        model.marginals({}, clamp={"x": [0, 0, 1, 0]}, method=method)


def test_all_cells_may_be_clamped():
    model, params = table_model([2, 3], [(0, 1)], np.random.default_rng(6))
    for method in (BP, MF):
        found = model.marginals(params, clamp={"x0": 1, "x1": 2}, method=method)
        np.testing.assert_allclose(found.log_partition, model.log_potential(params, {"x0": 1, "x1": 2}), **EXACT)
        assert found["x1"].tolist() == [0, 0, 1]
    for method in ("max-product", "anneal"):
        assert model.map(params, clamp={"x0": 1, "x1": 2}, method=method).configuration["x1"] == 2


def test_latents_and_given_data_are_cells_and_numbers_like_others():
    text = """
given u[i in range(4)] : real
model m {
  latent z : range(3)
  var x[i in range(4)] : spin
  param w[a in range(3)]
  factor w[z] * x[i] for i in range(4)
  factor u[i] * x[i] for i in range(4)
}
"""
    text = text.replace("given u[i in range(4)] : real\n", "").replace("  latent", "  given u[i in range(4)] : real\n  latent")
    model, params, given = gm.parse(text).model(), {"w": [0.5, -1.0, 0.2]}, {"u": [0.3, -0.2, 1.0, 0.0]}
    found, exact = model.marginals(params, given=given, method=BP), model.marginals(params, given=given)
    assert found.is_exact
    assert errors(found, exact) < 1e-9
    assert [*found] == ["z", "x"]
    np.testing.assert_allclose(found.log_partition, model.log_partition(params, given=given), **EXACT)
    assert model.marginals(params, given=given, method=MF).log_partition < found.log_partition
    for method in ("max-product", "anneal"):
        np.testing.assert_allclose(model.map(params, given=given, method=method)[1], model.map(params, given=given)[1], **EXACT)
    with pytest.raises(gm.GmlmError, match="E510"):
        model.marginals(params, given={"u": np.zeros((2, 4))}, method=BP)


def test_counts_of_many_cells_are_passed_as_partial_sums():
    text = "model m {\n  var x[i in range(24)] : bit\n  param h[i in range(24)]\n  factor h[i] * x[i] for i in range(24)\n"
    model = gm.parse(text + "  require count(x[i] == 1 for i in range(24)) == 7\n}").model()
    params = {"h": np.random.default_rng(7).normal(size=24)}
    found = model.marginals(params, method=BP)
    assert found.is_exact
    assert [*found] == ["x"]
    assert errors(found, model.marginals(params)) < 1e-9
    np.testing.assert_allclose(found.log_partition, model.log_partition(params), **EXACT)


def test_large_tables_are_refused_with_the_figure():
    text = "model m {\n  var x[i in range(30)] : bit\n  factor 0.1 * max(x[i] for i in range(30))\n}"
    model = gm.parse(text).model()
    with pytest.raises(gm.GmlmError, match=rf"E601.*1\.07e\+09.*{limits.MOST_APPROXIMATED:,}"):
        model.marginals({}, method="mean-field")


DENSE = """
model causes {
  var x[i in range(10)] : range(-1, 2)
  param q[i in range(10)]
  param J
  factor -x[i] ^ 2 * (0.3 + 0.1 * i) for i in range(10)
  factor J * x[i] * x[i + 1] for i in range(9)
  factor log(1 - prod(1 - q[i] * (x[i] == 1) for i in range(10)))
  factor log(1 - prod(1 - q[i] * (x[i] == -1) for i in range(10) if i > 3))
  require sum(x[i] for i in range(10)) != 0
}
"""


@pytest.mark.slow
def test_annealing_evaluates_factors_that_are_too_large_for_tables(monkeypatch: pytest.MonkeyPatch):
    """The mode of all 59,049 configurations, three dense factors, one a requirement, one that may be -inf; clamped cells too."""
    params = {"q": np.random.default_rng(3).uniform(0.1, 0.6, 10), "J": 0.7}
    model = gm.parse(DENSE).model()
    exact = [model.map(params), model.map(params, clamp={"x": {0: -1, 7: 0}})]
    monkeypatch.setattr(limits, "MOST_APPROXIMATED", 10_000)
    monkeypatch.setattr(limits, "MOST_ANNEALED", 10_000)
    monkeypatch.setattr(limits, "LARGE_FACTOR", 100)
    found = [model.map(params, method="anneal"), model.map(params, clamp={"x": {0: -1, 7: 0}}, method="anneal")]
    for one, best in zip(found, exact, strict=True):
        assert one.log_potential == pytest.approx(best.log_potential, abs=1e-5)
        np.testing.assert_array_equal(one.configuration, best.configuration)
    with pytest.raises(gm.GmlmError, match="need no tables"):
        model.map(params, method="max-product")


def grid(n: int) -> tuple[Any, dict[str, float]]:
    text = f"""
model m {{
  var x[i in range({n}), j in range({n})] : spin
  param h
  param J
  factor h * x[i, j] for i in range({n}), j in range({n})
  factor J * x[i, j] * x[i + 1, j] for i in range({n - 1}), j in range({n})
  factor J * x[i, j] * x[i, j + 1] for i in range({n}), j in range({n - 1})
}}
"""
    return gm.parse(text).model(), {"h": 0.1, "J": 0.3}


@pytest.mark.slow  # measures time
def test_a_large_grid_takes_less_than_a_second():
    model, params = grid(60)
    with pytest.raises(gm.GmlmError, match="E601"):
        model.marginals(params)
    start = time.process_time()
    found = model.marginals(params, method=BP)
    assert time.process_time() - start < 1
    assert found.converged
    mode = model.map(params, method="max-product")
    assert (mode.configuration == 1).all()  # a ferromagnet in a field
    assert np.isnan(mode.log_prob)
    np.testing.assert_allclose(mode.log_potential, 0.1 * 3600 + 0.3 * 2 * 60 * 59)


def test_the_bethe_value_of_a_grid_is_near_log_z():
    model, params = grid(8)
    found, log_z = model.marginals(params, method=BP), float(model.log_partition(params))
    assert abs(found.log_partition - log_z) < 0.01 * log_z
    assert errors(found, model.marginals(params)) < 0.03


def test_seeds_decide_the_chains_of_annealing():
    model, params = frustrated()
    short = gm.SimulatedAnnealing(sweeps=1, chains=1)
    found = [model.map(params, method=short, seed=s).configuration.tolist() for s in (0, 0, 1, 2, 3)]
    assert found[0] == found[1]
    assert any(f != found[0] for f in found[2:])


def test_results_keep_what_they_say_when_they_are_pickled():
    model, params = loopy()[1]
    found: Any = pickle.loads(pickle.dumps(model.marginals(params, method=BP)))
    assert isinstance(found, dict)
    assert (found.kind, found.converged, found.bound) == ("belief propagation", True, None)
    mode = pickle.loads(pickle.dumps(model.map(params, method="anneal")))
    assert len(mode) == 2
    assert (mode.kind, mode.is_proven) == ("annealing", False)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m, p: m.marginals(p, method="belief-propagaton"), "did you mean `belief-propagation`"),
        (lambda m, p: m.map(p, method="max-prodct"), "did you mean `max-product`"),
        (lambda m, p: m.map(p, method="mean-field"), "there is no method `mean-field`"),
        (lambda m, p: m.map(p, method=gm.MeanField()), "got MeanField"),
        (lambda m, p: m.marginals(p, method=3), "got int"),
        (lambda m, p: m.marginals(p, x={"x0": [0]}, method=BP), "`x` and `over` are exact only"),
        (lambda m, p: m.marginals(p, over=[("x0", "x1")], method=BP), "`x` and `over` are exact only"),
        (lambda m, p: gm.BeliefPropagation(damping=1.0), "damping must be a number from 0 to below 1"),
        (lambda m, p: gm.BeliefPropagation(tolerance=0), "tolerance must be a finite number above 0"),
        (lambda m, p: gm.MeanField(starts=0), "starts must be a whole number of at least 1"),
        (lambda m, p: gm.MaxProduct(damping=cast("Any", "a")), "damping must be"),
        (lambda m, p: gm.SimulatedAnnealing(sweeps=cast("Any", 2.5)), "sweeps must be a whole number"),
        (lambda m, p: m.map(p, method="anneal", seed=-1), "seed must be"),
    ],
)
def test_arguments_that_do_not_fit_are_errors(call: Any, said: str):
    model, params = table_model([2, 2], [(0, 1)], np.random.default_rng(8))
    with pytest.raises(gm.GmlmError, match=said) as caught:
        call(model, params)
    assert caught.value.codes == ("E507",)


CHAINED = """
model m {
  latent z : range(3)
  var x[i in range(5)] : bit
  var y : range(4)
  param J[a in range(3)], b[v in range(4)]
  factor J[z] * x[i] * x[i + 1] for i in range(4)
  factor b[y] + 0.5 * x[4] * y - 0.4 * z * x[0]
  require y != 3 or x[0] == 1
}
sampler pairs { update {x[i], x[i + 1]} for i in range(4)  update z  update y }
"""
CHAINED_PARAMS = {"J": [0.9, -0.8, 0.2], "b": [0.1, -0.3, 0.4, 0.2]}


@pytest.mark.slow  # statistical
@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")  # of some seeds, rightly
@pytest.mark.parametrize(("sampler", "clamp"), [(s, c) for s in (None, "pairs") for c in (None, {"y": 2, "x": {1: 1}})])
def test_shares_of_draws_are_off_by_their_standard_errors(sampler: str | None, clamp: dict[str, Any] | None):
    """The root mean square of (share - p) / error over cells and seeds is about 1; both are taken from independent chains."""
    model = gm.parse(CHAINED).model()
    exact = model.marginals(CHAINED_PARAMS, clamp=clamp)
    scaled = []
    for seed in range(40):
        found = model.marginals(CHAINED_PARAMS, clamp=clamp, method=gm.Chains(sampler, draws=400, warmup=100, chains=4, seed=seed))
        for name, p in exact.items():
            known = found.standard_error[name] == 0
            np.testing.assert_array_equal(found[name][known], p[known])
            moving = ~known & np.isfinite(found.standard_error[name])
            scaled += [((found[name] - p) / np.where(moving, found.standard_error[name], 1))[moving]]
            assert (p[~known & ~moving] < 0.02).all()  # a value that no draw has is rare
    square = float(np.mean(np.concatenate(scaled) ** 2))
    assert 0.75 < square < 1.35


def test_a_share_says_when_its_chains_have_not_converged():
    model = gm.parse("model m { var x[i in range(12)] : spin  factor 2 * x[i] * x[j] for i in range(12), j in range(12) if i < j }").model()
    with pytest.warns(gm.SamplingWarning):
        found = model.marginals({}, method=gm.Chains(draws=200, chains=8, seed=1))
    assert not found.converged
    assert not found.is_exact
    assert "NOT converged" in str(found)


def test_chains_refuse_samplers_that_draw_whole_strings():
    model = gm.parse(
        "model m { var x[i in range(3)] : bit  factor x[i] for i in range(3) }\nsampler w = autoregressive(decode = sample)"
    ).model()
    with pytest.raises(gm.GmlmError, match="E507"):
        model.marginals({}, method=gm.Chains("w"))
    with pytest.raises(gm.GmlmError, match="E507"):
        gm.Chains(draws=0)


@pytest.mark.slow
def test_the_gap_of_siblings_is_that_of_the_model_where_a_sibling_is_all_of_it():
    model = gm.parse(CHAINED).model()
    exact = model.marginals(CHAINED_PARAMS)
    for method in (BP, MF, gm.Chains(draws=50, seed=3)):
        gap = model.approximation_gap(CHAINED_PARAMS, method, siblings=2, cells=7)
        with pytest.warns(gm.SamplingWarning) if isinstance(method, gm.Chains) else nullcontext():
            found = model.marginals(CHAINED_PARAMS, method=method)
        off = np.concatenate([np.abs(found[name] - exact[name]).ravel() for name in exact])
        np.testing.assert_allclose(gap.largest, [off.max()] * 2, rtol=0, atol=1e-12)
        np.testing.assert_allclose(gap.mean, [off.mean()] * 2, rtol=0, atol=1e-12)


def test_a_sibling_is_a_connected_piece_given_the_rest():
    """A torus of 8 by 8 spins: pieces of five cells, each within two steps of the first; messages on pieces without a cycle are exact."""
    torus = gm.parse(
        "graph G = grid(8, 8, wrap = true)\nmodel m { var x[i in G.nodes] : spin  param J  factor J * x[i] * x[j] for (i, j) in G.edges }\n"
    ).model()
    gap = torus.approximation_gap({"J": 0.4}, BP, siblings=4, cells=2, seed=1)
    assert [len(c) for c in gap.cells] == [2] * 4
    assert gap.largest.max() < 1e-9
    wide = torus.approximation_gap({"J": 0.4}, BP, siblings=4, cells=12, seed=1)
    assert 1e-4 < wide.largest.max() < 0.2
    assert "siblings of at most 12 free cells" in str(wide)
    mean_field = torus.approximation_gap({"J": 0.4}, MF, siblings=4, cells=12, seed=1)
    assert mean_field.mean.mean() > wide.mean.mean()
    mode = torus.approximation_gap({"J": 0.4}, "anneal", siblings=3, cells=10)
    assert mode.question == "map"
    assert mode.largest.max() < 1e-9


def test_a_gap_needs_free_cells_and_a_method():
    model = gm.parse(CHAINED).model()
    with pytest.raises(gm.GmlmError, match="every cell is clamped"):
        model.approximation_gap(CHAINED_PARAMS, BP, clamp={"z": 0, "y": 1, "x": [0, 1, 0, 1, 0]})
    with pytest.raises(gm.GmlmError, match="approximation_gap: there is no method"):
        model.approximation_gap(CHAINED_PARAMS, "belief")


def test_modes_that_differ_by_rounding_are_not_missed():
    model = gm.parse(
        "graph G = grid(9, 9)\nmodel m { var x[i in G.nodes] : spin  param J  factor J * x[i] * x[j] for (i, j) in G.edges }\n"
    ).model()
    with jax.enable_x64(False):
        gap = model.approximation_gap({"J": 0.2137}, "max-product", siblings=3, cells=6, seed=2)
    assert gap.largest.max() == 0
    assert "0 modes are missed" in gap.summary


def test_a_summary_of_chains_shows_the_worst_cell():
    model = gm.parse(
        "model m { var x[i in range(12)] : spin  var o : range(1)  factor 3 * x[i] * x[j] for i in range(12), j in range(12) if i < j }"
    ).model()
    with pytest.warns(gm.SamplingWarning):
        found = model.marginals({}, method=gm.Chains(draws=200, chains=8, seed=1))
    assert np.isinf(found.r_hat["x"]).any()
    assert "R-hat of at most inf" in found.summary
    assert found.standard_error["o"].tolist() == [0.0]
    assert not any("`o`" in w for w in found.warnings)


@pytest.mark.slow
def test_the_plan_of_log_z_beside_a_search_ends_early(monkeypatch: pytest.MonkeyPatch):
    """A search states log Z where it takes few operations; the search for its order then ends at that limit, once."""
    from gmlmdsl.plan import _elimination

    steps: list[int] = []
    real = _elimination._Search.add
    monkeypatch.setattr(_elimination._Search, "add", lambda self, *a: (steps.append(a[0]), real(self, *a))[1])
    text = "model m { var x[r in range(40), c in range(40)] : spin  param J  factor J * x[r, c] * x[(r + 1) % 40, c] for r in range(40), c in range(40)  factor J * x[r, c] * x[r, (c + 1) % 40] for r in range(40), c in range(40) }"
    model = gm.parse(text).model()
    assert np.isnan(model.map({"J": 0.1}, method="anneal")[1])
    early, steps[:] = len(steps), []
    assert np.isnan(model.map({"J": 0.1}, method="anneal")[1])
    assert not steps
    with pytest.raises(gm.GmlmError, match="E601"):
        model.log_partition({"J": 0.1})
    assert early < 0.9 * len(steps)
