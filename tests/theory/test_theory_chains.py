"""Gaps, times, laws and product gaps of masks and samplers against brute force; what holds of every block dynamics."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import given_cases
import numpy as np
import oracle
import pytest
from cases import BY_NAME, Case
from theory_cases import EVERY, IRON, close, crossed, ising, least, machine, mixed, potts
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import theory
from gmlmdsl.theory._block_dynamics import BlockDynamics, dynamics_of
from gmlmdsl.theory._chains import Chain, mask_chain
from gmlmdsl.theory._mixing import _first_power, gap_of

MASKS = crossed("masks")
BY_NAME = BY_NAME | {c.name: c for c in EVERY}
CHOSEN = {
    "ising": ("two", "sees", "sweep", "naive", "stuck"),
    "potts": ("gibbs", "apart"),
    "mixed": ("adapts",),
    "machine": ("blocked",),
    "log_zero": ("mixes", "nones"),
    "first": ("whole",),
    "branches": ("mixed",),
    "lattice": ("warm", "hybrid"),
}
CHAINS = [(BY_NAME[c], s) for c, chosen in CHOSEN.items() for s in chosen]
STEPS = 9


@cache
def matrix_of(c: Case, sampler: str) -> tuple[np.ndarray, np.ndarray]:
    return oracle.sampler_matrix(c.oracle, c.params, sampler)


def support(c: Case) -> np.ndarray:
    return np.flatnonzero(c.oracle.probabilities(c.params) > 0)


def visible_values(c: Case, codes: np.ndarray) -> Any:
    """Configurations of the `var`s as the model takes them, from rows of codes of all cells."""
    found = {k: v.astype(int) for k, v in c.oracle.decode(codes).items() if c.oracle.model.variables[k].role == "var"}
    return found if len(found) > 1 else next(iter(found.values()))


# Masks


@pytest.mark.parametrize(("c", "mask"), thinned(MASKS, 32, 16), ids=str)
def test_constants_of_a_mask(c: Case, mask: str):
    constant = oracle.poincare_constant(c.oracle, c.params, mask)
    found = theory.poincare_constant(c.model, c.params, mask)
    assert found.kind == "exact"
    close(found, constant)
    close(theory.product_gap(c.model, c.params, mask), oracle.product_gap(c.oracle, c.params, mask))
    f = np.random.default_rng(0).normal(size=len(oracle.visible_states(c.oracle)))
    expected = oracle.dirichlet_form(c.oracle, c.params, mask, f[oracle.visible(c.oracle, c.params).numbers])
    close(theory.dirichlet_form(c.model, c.params, f, mask), expected)


@pytest.mark.parametrize(("c", "mask"), thinned(MASKS, 32, 18), ids=str)
def test_block_dynamics(c: Case, mask: str):
    """The matrix, and P on functions, on laws and in symmetric form, which are programmed apart; reversible without negative eigenvalues."""
    _, dynamics = dynamics_of(c.model, c.params, mask, "a test")
    here, expected = oracle.visible(c.oracle, c.params), oracle.block_dynamics(c.oracle, c.params, mask)
    found, root = dynamics.dense(), np.sqrt(here.p)
    close(found, expected)
    close(dynamics.dense(symmetric=True), root[:, None] * expected / root)
    flow = here.p[:, None] * found
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=0, atol=1e-13)
    assert least(root[:, None] * found / root) > -1e-12
    given = np.zeros(dynamics.space.count)
    given[here.numbers] = np.random.default_rng(1).normal(size=len(here.p))
    inside, tensor = given[here.numbers], given.reshape(dynamics.space.sizes)
    for on, matrix in ((dynamics.apply, expected), (dynamics.push, expected.T), (dynamics.symmetric, root[:, None] * expected / root)):
        close(on(tensor).ravel()[here.numbers], matrix @ inside)
    parts = dynamics.components()
    reach = np.linalg.matrix_power(expected > 0, 1).astype(float)
    reach = np.linalg.matrix_power(reach + np.eye(len(reach)), 16) > 0
    np.testing.assert_array_equal(parts[:, None] == parts, reach)


@pytest.mark.parametrize(("c", "mask"), thinned([(ising, "seeing"), (potts, "like"), (mixed, "rest"), (machine, "looks")], 2), ids=str)
def test_times_and_laws_of_a_masks_chain(c: Case, mask: str):
    """The chain that draws K from the mask, on the `var`s alone."""
    matrix, here = oracle.block_dynamics(c.oracle, c.params, mask), oracle.visible(c.oracle, c.params)
    law = np.zeros(len(oracle.visible_states(c.oracle)))
    law[here.numbers] = here.p
    close(theory.spectral_gap(c.model, c.params, mask=mask), oracle.spectral_gap(matrix))
    close(theory.relaxation_time(c.model, c.params, mask=mask), oracle.poincare_constant(c.oracle, c.params, mask))
    assert theory.mixing_time(c.model, c.params, mask=mask) == oracle.mixing_time(matrix, 0.25)
    close(theory.stationary_law(c.model, c.params, mask=mask), law)
    x = len(here.p) - 2
    start = visible_values(c, oracle.visible_states(c.oracle)[here.numbers[x]])
    for from_, place in ((None, None), (start, x)):
        found = theory.total_variation(c.model, c.params, mask=mask, steps=STEPS, start=from_)
        close(found, oracle.distances(matrix, here.p, STEPS, place))
    target = np.zeros(len(law), bool)
    target[here.numbers[:3]] = True
    times = oracle.hitting_times(matrix, target[here.numbers])
    close(theory.hitting_time(c.model, c.params, target, mask=mask), times.max())
    close(theory.hitting_time(c.model, c.params, target, mask=mask, start=start), times[x])
    tail = theory.hitting_tail(c.model, c.params, target, start, mask=mask, steps=STEPS)
    close(tail, oracle.hitting_tails(matrix, target[here.numbers], STEPS)[:, x])


# Samplers


@pytest.mark.parametrize(("c", "sampler"), thinned(CHAINS, 12), ids=str)
def test_gap_and_times_of_a_sampler(c: Case, sampler: str):
    matrix, _ = matrix_of(c, sampler)
    gap = oracle.spectral_gap(matrix)
    close(theory.spectral_gap(c.model, c.params, sampler), gap)
    close(theory.relaxation_time(c.model, c.params, sampler), np.inf if gap == 0 else 1 / gap)
    assert theory.mixing_time(c.model, c.params, sampler, 0.04) == oracle.mixing_time(matrix, 0.04)
    start = c.values(c.oracle.states[support(c)[1]])
    if gap > 0:
        assert theory.mixing_time(c.model, c.params, sampler, 0.02, start=start) == oracle.mixing_time(matrix, 0.02, 1)


@pytest.mark.parametrize(("c", "sampler"), thinned(CHAINS, 12, 7), ids=str)
def test_laws_of_a_sampler(c: Case, sampler: str):
    """In the long run and after each step, from the worst start and from one; the bias of those that do not keep p."""
    matrix, p = matrix_of(c, sampler)
    close(theory.total_variation(c.model, c.params, sampler, STEPS, to="target"), oracle.distances(matrix, p, STEPS))
    if oracle.spectral_gap(matrix) == 0:
        with pytest.raises(gm.GmlmError, match="falls into parts"):
            theory.stationary_law(c.model, c.params, sampler)
        assert np.isnan(theory.total_variation(c.model, c.params, sampler, STEPS)).all()
        return
    law, every = oracle.stationary_law(matrix), np.zeros(len(c.oracle.states))
    every[support(c)] = law
    close(theory.stationary_law(c.model, c.params, sampler), every)
    bias = theory.stationary_bias(c.model, c.params, sampler)
    close([bias.total_variation, bias.kl, bias.reverse_kl], [oracle.total_variation(law, p), oracle.kl(law, p), oracle.kl(p, law)])
    assert (bias.total_variation > 1e-3) == (sampler in c.biased)
    close(theory.total_variation(c.model, c.params, sampler, STEPS), oracle.distances(matrix, law, STEPS))
    start = c.values(c.oracle.states[support(c)[0]])
    close(theory.total_variation(c.model, c.params, sampler, STEPS, start=start), oracle.distances(matrix, law, STEPS, 0))


@pytest.mark.parametrize(("c", "sampler"), thinned(CHAINS, 18, 2), ids=str)
def test_hitting_times_and_tails_of_a_sampler(c: Case, sampler: str):
    matrix, _ = matrix_of(c, sampler)
    alive, target = support(c), np.zeros(len(c.oracle.states), bool)
    target[alive[[-1, len(alive) // 2]]] = True
    times = oracle.hitting_times(matrix, target[alive])
    each = theory.hitting_time(c.model, c.params, target, sampler, start="each")
    close(each[alive], times)
    assert np.isnan(np.delete(each, alive)).all()
    close(theory.hitting_time(c.model, c.params, target, sampler), times.max())
    law = np.zeros(len(c.oracle.states))
    law[alive[[0, 1]]] = 0.25, 0.75
    close(theory.hitting_time(c.model, c.params, target, sampler, start=law), 0.25 * times[0] + 0.75 * times[1])
    tails = oracle.hitting_tails(matrix, target[alive], STEPS)
    close(theory.hitting_tail(c.model, c.params, target, law, sampler, STEPS), tails[:, :2] @ [0.25, 0.75])
    assert theory.hitting_time(c.model, c.params, target, sampler, start=c.values(c.oracle.states[alive[-1]])) == 0


@pytest.mark.slow
def test_a_target_may_be_a_function_of_configurations():
    array = (2 * ising.oracle.states - 1).sum(axis=1) == 4
    for start in (None, [-1, -1, -1, 1]):
        found = [theory.hitting_time(ising.model, IRON, t, "one", start=start) for t in (lambda x: x.sum(axis=-1) == 4, array)]
        assert found[0] == found[1] > 1
    found = theory.hitting_tail(
        mixed.model, mixed.params, lambda x: (x["s"] == 1) & (x["b"] == 0), {"a": 0, "s": -1, "w": "sun", "b": 1}, "cells", 3
    )
    assert found[0] == 1
    assert (np.diff(found) < 0).all()


def test_the_mean_of_a_hitting_time_is_the_sum_of_its_tail():
    target, start = (2 * ising.oracle.states - 1).sum(axis=1) == 4, [-1, -1, -1, -1]
    tail = theory.hitting_tail(ising.model, IRON, target, start, "two", 1500)
    close(tail.sum(), float(theory.hitting_time(ising.model, IRON, target, "two", start=start)))


# Given data


@pytest.mark.parametrize("r", range(3))
def test_chains_with_a_row_of_given_data(r: int):
    rows = given_cases.CASES["hard"]
    o, params, given = rows.oracles[r], rows.params, rows.row(r)
    matrix, _ = oracle.sampler_matrix(o, params, "pairs")
    close(theory.spectral_gap(rows.model, params, "pairs", given=given), oracle.spectral_gap(matrix))
    assert theory.mixing_time(rows.model, params, "pairs", 0.1, given=given) == oracle.mixing_time(matrix, 0.1)
    for mask in ("one", "two"):
        close(theory.poincare_constant(rows.model, params, mask, given=given), oracle.poincare_constant(o, params, mask))
        close(theory.product_gap(rows.model, params, mask, given=given), oracle.product_gap(o, params, mask))


# Infinite, singular and wrong


def test_a_mask_that_tells_what_it_hides_never_mixes():
    """Positions that K covers are all of them, and yet the configuration never changes."""
    assert theory.poincare_constant(ising.model, IRON, "telling") == np.inf
    assert theory.spectral_gap(ising.model, IRON, mask="telling") == 0.0
    assert theory.mixing_time(ising.model, IRON, mask="telling") == np.inf
    assert theory.relaxation_time(ising.model, IRON, mask="telling") == np.inf
    found = theory.hitting_time(ising.model, IRON, np.arange(16) == 3, mask="telling", start="each")
    np.testing.assert_array_equal(found, np.where(np.arange(16) == 3, 0, np.inf))


def test_a_chain_in_parts_reaches_what_lies_in_its_own():
    """Cells 2 and 3 never move: the target is reached from configurations that have its values there."""
    each = theory.hitting_time(ising.model, IRON, np.arange(16) == 0, "stuck", start="each")
    np.testing.assert_array_equal(np.isfinite(each), ising.oracle.states[:, 2:].sum(axis=1) == 0)
    assert theory.spectral_gap(ising.model, IRON, "stuck") == 0.0
    assert theory.mixing_time(ising.model, IRON, "stuck") == np.inf
    with pytest.raises(gm.GmlmError) as caught:
        theory.stationary_bias(ising.model, IRON, "stuck")
    assert caught.value.diagnostics[0].code == "E713"
    assert re.search(r"\b4\b", str(caught.value))


def test_a_periodic_chain_has_no_gap():
    """No sampler of the language is periodic, as every update may leave things as they are: a matrix that turns in a circle is put in."""
    _, dynamics = dynamics_of(ising.model, IRON, "k1", "a test")
    turn = np.roll(np.eye(16), 1, axis=1)
    chain = mask_chain("a circle", dynamics)
    made = Chain("a circle", dynamics.space, chain.apply, chain.push, lambda: turn, None, False, lambda: np.zeros(16, int))
    np.testing.assert_allclose(made.law, 1 / 16, atol=1e-12)
    gap, note = gap_of(made)  # rounding hides whether it is 0: it is bounded
    assert gap <= 1e-10
    assert "lost to rounding" in note
    assert _first_power(turn, np.eye(16), np.full(16, 1 / 16), 0.25) == np.inf
    assert oracle.spectral_gap(turn) == 0.0
    assert oracle.mixing_time(turn, 0.25) == np.inf


def test_one_possible_configuration_is_mixed():
    model = gm.parse(
        "model m { var a : bit  var b : bit  require a + b == 2 }\nmask one = subsets(size = 1)\nsampler s { update a  update b }"
    ).model()
    assert theory.poincare_constant(model, {}, "one") == 1
    assert theory.mixing_time(model, {}, "s") == 0
    assert theory.product_gap(model, {}, "one") == 0
    np.testing.assert_array_equal(theory.stationary_law(model, {}, "s"), [0, 0, 0, 1])


@pytest.mark.parametrize(("c", "mask"), [(ising, "seeing"), (ising, "part"), (potts, "like"), (mixed, "rest")], ids=str)
def test_an_adaptive_mask_with_the_plain_conditional_has_the_wrong_law(c: Case, mask: str):
    """The bug that users write by hand: x_K from p(x_K | x_-K). With the correction for K the chain comes to p."""
    wrong, p = oracle.plain_dynamics(c.oracle, c.params, mask), oracle.visible(c.oracle, c.params).p
    assert oracle.total_variation(oracle.stationary_law(wrong), p) > 1e-3
    assert theory.stationary_bias(c.model, c.params, mask=mask).total_variation < 1e-12
    far = theory.total_variation(c.model, c.params, mask=mask, steps=400, to="target")[-1]
    assert far < 1e-6 < oracle.distances(wrong, p, 400)[-1]


# Theorems


SEEDS = range(6)


def random_ising(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"h": rng.normal(0, 0.4, 4), "J": (0.3, 1.0, 1.8)[seed % 3] * rng.normal(0, 0.7, 6)}


@pytest.mark.parametrize("seed", SEEDS)
def test_larger_uniform_blocks_mix_faster(seed: int):
    """Lee: C_1 / C_k >= k, for every model."""
    c = [theory.poincare_constant(ising.model, random_ising(seed), f"k{k}") for k in (1, 2, 3, 4)]
    for k in (2, 3, 4):
        assert c[0] / c[k - 1] >= k - 1e-9
    close(c[3], 1.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mask", ["k2", "seeing"])
def test_no_function_has_more_variance_than_the_constant_allows(seed: int, mask: str):
    """Var f <= C E(f, f) for random f, and equality for the slowest one, which the oracle's eigenvectors give."""
    params, rng = random_ising(seed), np.random.default_rng(seed)
    c, p = theory.poincare_constant(ising.model, params, mask), ising.oracle.probabilities(params)
    values, vectors = np.linalg.eig(oracle.block_dynamics(ising.oracle, params, mask))
    slowest = vectors[:, np.argsort(values.real)[-2]].real
    for f in (*rng.normal(size=(4, 16)), slowest):
        ratio = (p @ f**2 - (p @ f) ** 2) / theory.dirichlet_form(ising.model, params, f, mask)
        assert ratio <= c * (1 + 1e-9)
    close(ratio, float(c))


@pytest.mark.parametrize("seed", SEEDS)
def test_mixing_times_lie_between_the_bounds_of_the_gap(seed: int):
    """Reversible chains: (t_rel - 1) log(1 / 2 tv) <= t_mix <= t_rel log(1 / (2 tv sqrt(min p))), rounded up; Levin and Peres 2017."""
    params, tv = random_ising(seed), 0.1
    p = ising.oracle.probabilities(params)
    for mask in ("k1", "seeing"):
        relaxation = theory.relaxation_time(ising.model, params, mask=mask)
        time = theory.mixing_time(ising.model, params, mask=mask, tv=tv)
        assert (relaxation - 1) * np.log(1 / (2 * tv)) <= time
        assert time <= np.ceil(relaxation * np.log(1 / (2 * tv * np.sqrt(p.min()))))
        curve = theory.total_variation(ising.model, params, mask=mask, steps=int(time))
        assert curve[-1] <= tv < curve[-2]
        assert (np.diff(curve) <= 1e-12).all()


def test_independent_parallel_settles_where_the_formula_says():
    """For Ising exp(h.x) prod_i 2 cosh(h_i + sum_j J_ij x_j), not p."""
    x, coupling = 2.0 * ising.oracle.states - 1, np.zeros((4, 4))
    for (i, j), value in zip(ising.program.graph("G").edges, IRON["J"], strict=True):
        coupling[i, j] = coupling[j, i] = value
    weight = np.exp(x @ IRON["h"]) * np.prod(2 * np.cosh(IRON["h"] + x @ coupling), axis=1)
    close(theory.stationary_law(ising.model, IRON, "naive"), weight / weight.sum())
    assert theory.stationary_bias(ising.model, IRON, "naive").total_variation > 0.05


def test_product_gaps_vanish_where_cells_do_not_interact():
    params = {"h": IRON["h"], "J": np.zeros(6)}
    assert theory.product_gap(ising.model, params, "k4") < 1e-14
    assert theory.product_gap(ising.model, IRON, "k1") == 0
    assert theory.product_gap(ising.model, IRON, "k2") < theory.product_gap(ising.model, IRON, "k3")
    tied = theory.product_gap(ising.model, params, "seeing")
    assert tied > 1e-3  # K, which depends on both cells, ties them


def test_rates_and_chances_are_on_the_whole_space():
    """What is left to an empty K is where the chances end."""
    _, dynamics = dynamics_of(ising.model, IRON, "coin", "a test")
    assert isinstance(dynamics, BlockDynamics)
    np.testing.assert_allclose(dynamics.stay, 0.6**4, atol=1e-14)
    _, dynamics = dynamics_of(ising.model, IRON, "telling", "a test")
    np.testing.assert_array_equal(dynamics.stay.ravel(), np.arange(16) == 0)


TWO_SPINS = "model m {\n  var a : spin\n  var b : spin\n  param J\n  factor J * a * b\n}\nmask single = subsets(size = 1)\n"


@pytest.mark.parametrize("coupling", [0.5, 5.0, 15.0, 20.0, 40.0])
def test_a_constant_keeps_its_digits_however_slow_the_chain(coupling: float) -> None:
    # Of two spins and single cells the slowest function is the sum: C = 1 + exp(2 J).
    found = gm.theory.poincare_constant(gm.parse(TWO_SPINS).model(), {"J": coupling}, "single")
    np.testing.assert_allclose(found, 1 + np.exp(2 * coupling), rtol=1e-12)
