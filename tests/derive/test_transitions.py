"""Transition matrices of every kernel against enumeration, and the law that each keeps."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from cases import BY_NAME, CASES, Case, samplers_of
from oracle import stationary, total_variation
from thinned import thinned

import gmlmdsl as gm

MATRIX = {"rtol": 0, "atol": 1e-9}
KEEPS = 1e-12


@cache
def _matrix(name: str, sampler: str) -> np.ndarray:
    case = BY_NAME[name]
    return case.model.transition_matrix(case.params, sampler)


@pytest.mark.check
@pytest.mark.parametrize(("case", "sampler"), thinned(samplers_of(), 24), ids=lambda v: str(v))
def test_matrix_of_one_step(case: Case, sampler: str):
    found = _matrix(case.name, sampler)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, case.oracle.transition_matrix(case.params, sampler), **MATRIX)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=0, atol=KEEPS)
    assert found.min() >= 0


@pytest.mark.check
@pytest.mark.parametrize(("case", "sampler"), thinned(samplers_of(), 24), ids=lambda v: str(v))
def test_exact_kernels_keep_p_and_the_others_do_not(case: Case, sampler: str):
    p = case.oracle.probabilities(case.params)
    moved = np.abs(p @ _matrix(case.name, sampler) - p).max()
    if sampler in case.biased:
        assert moved > 1e-3
    else:
        assert moved < KEEPS


BLOCK_DYNAMICS = [("lattice", s) for s in ("one", "two", "weigh", "warm", "agree")] + [
    ("log_zero", s) for s in ("pairs", "looks", "nones", "rates", "mixes")
]


@pytest.mark.parametrize(("name", "sampler"), thinned(BLOCK_DYNAMICS, 12))
def test_block_dynamics_are_reversible_and_have_no_negative_eigenvalue(name: str, sampler: str):
    """Adaptive ones too (Li et al. 2024, Proposition 1 and Definition 8); on the support of p."""
    case = BY_NAME[name]
    p, matrix = case.oracle.probabilities(case.params), _matrix(name, sampler)
    flow = p[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=KEEPS)
    alive = p > 0
    root = np.sqrt(p[alive])
    assert np.linalg.eigvalsh(root[:, None] * matrix[np.ix_(alive, alive)] / root[None]).min() > -KEEPS


@pytest.mark.slow
@pytest.mark.parametrize("case", thinned([c for c in CASES if c.name in ("weather", "log_zero", "branches", "triples")], 4, 2), ids=str)
def test_possible_configurations_stay_possible(case: Case):
    p = case.oracle.probabilities(case.params)
    assert (p == 0).any()
    for sampler in case.model.samplers:
        assert not _matrix(case.name, sampler)[np.ix_(p > 0, p == 0)].any()


def test_where_the_rest_is_impossible_the_block_stays():
    text = """
    model m { var a : bit  var b : range(3)  var c : bit  require not (a == 1 and b == 2)  require b != 1 }
    sampler first { update a }
    sampler both  { update {a, c} }
    """
    case = Case("stuck", text)
    for sampler, K in (("first", (0,)), ("both", (0, 2))):
        stuck = np.isnan(case.oracle.log_conditional({}, case.oracle.states, K)).reshape(12, -1).any(axis=1)
        assert stuck.sum() == 4  # b == 1
        np.testing.assert_array_equal(case.model.transition_matrix({}, sampler)[stuck][:, stuck], np.eye(4))


def test_a_chain_that_hides_nothing_somewhere_neither_leaves_nor_enters_there():
    """Where all weights of an adaptive mask are 0, K is empty: log_zero's `none` at b = 0."""
    case = BY_NAME["log_zero"]
    matrix, empty = _matrix("log_zero", "nones"), case.oracle.states[:, 1] == 0
    np.testing.assert_array_equal(matrix[empty][:, empty], np.eye(empty.sum()))
    assert not matrix[np.ix_(~empty, empty)].any()


@pytest.mark.slow
def test_larger_blocks_mix_faster():
    """Lee: the Poincare constants of uniform k-subsets satisfy C_1 / C_k >= k."""
    gaps = []
    for sampler in ("one", "two"):
        values = np.sort(np.linalg.eigvals(_matrix("lattice", sampler)).real)
        gaps.append(1 - values[-2])
    assert gaps[1] / gaps[0] >= 2 - 1e-9


def test_independent_parallel_chains_keep_another_law():
    """Reversible for Ising, with weight exp(h.x) prod_i 2 cosh(h_i + sum_j J_ij x_j), far from p."""
    case = BY_NAME["lattice"]
    x = 2.0 * case.oracle.states - 1
    coupling = np.zeros((6, 6))
    for (i, j), value in zip(case.program.graph("G").edges, case.params["J"], strict=True):
        coupling[i, j] = coupling[j, i] = value
    weight = np.exp(x @ case.params["h"]) * np.prod(2 * np.cosh(case.params["h"] + x @ coupling), axis=1)
    law = stationary(_matrix("lattice", "naive"))
    np.testing.assert_allclose(law, weight / weight.sum(), atol=1e-10)
    assert total_variation(law, case.oracle.probabilities(case.params)) > 0.05


def test_independent_updates_of_cells_that_share_no_factor_are_exact():
    case = BY_NAME["bipartite"]
    v, h = case.program.checked.samplers["alternate"].body
    jointly = case.oracle.transition_matrix(case.params, h) @ case.oracle.transition_matrix(case.params, v)
    np.testing.assert_allclose(_matrix("bipartite", "apart"), jointly, **MATRIX)


def test_single_independent_updates_are_exact():
    p = BY_NAME["first"].oracle.probabilities(BY_NAME["first"].params)
    np.testing.assert_allclose(p @ _matrix("first", "naive"), p, atol=KEEPS)


def test_weights_of_a_mixture_are_normalised_and_its_rows_alternatives():
    case = BY_NAME["lattice"]
    rows = case.program.checked.samplers["hybrid"].body[0].rows
    parts = [case.oracle.transition_matrix(case.params, k) for _, k in rows]
    np.testing.assert_allclose(_matrix("lattice", "hybrid"), 0.9 * parts[0] + 0.1 * parts[1], **MATRIX)


def test_cycle_and_repeat_are_products_and_powers():
    text = """
    model m { var a : range(3)  var b : spin  param u  factor u * a * b  factor 0.4 * b }
    mask one = subsets(size = 1)
    sampler once   { update a  update K where K ~ one }
    sampler cycled { cycle { update a  update K where K ~ one } }
    sampler thrice { repeat 3 { update a  update K where K ~ one } }
    """
    model = gm.parse(text).model()
    once, cycled, thrice = (model.transition_matrix({"u": 0.7}, s) for s in ("once", "cycled", "thrice"))
    np.testing.assert_allclose(cycled, once, atol=1e-15)
    np.testing.assert_allclose(thrice, once @ once @ once, atol=1e-14)


def test_sweeps_visit_colours_in_order_and_the_reverse_order_is_another_chain():
    """A sweep keeps p and is not reversible; its colours are those of the greedy rule."""
    case = BY_NAME["lattice"]
    p, matrix = case.oracle.probabilities(case.params), _matrix("lattice", "sweep")
    flow = p[:, None] * matrix
    assert np.abs(flow - flow.T).max() > 1e-4
    by_text = case.oracle.transition_matrix(case.params, "sweep", by_colours=False)
    assert np.abs(by_text - matrix).max() > 1e-3


def test_weights_that_mention_parameters_move_with_them():
    text = """
    model m { var a : bit  var b : bit  param u  factor u * a * b }
    mask leaning { choose {a} weight exp(u)  choose {b} weight 1 }
    mask seeing given a { choose {b} weight exp(u * a)  choose {a, b} weight 1 }
    sampler lean { update K where K ~ leaning }
    sampler see  { update K where K ~ seeing }
    """
    case = Case("leaning", text)
    for u in (-1.0, 2.0):
        for sampler in ("lean", "see"):
            found = case.model.transition_matrix({"u": u}, sampler)
            np.testing.assert_allclose(found, case.oracle.transition_matrix({"u": np.array(u)}, sampler), **MATRIX)


def test_too_many_configurations_are_refused_with_their_number():
    model = gm.parse(
        "index n = range(14)\nmodel m { var x[i in n] : spin  factor x[i] for i in n }\nsampler s { update x[i] for i in n }"
    ).model()
    with pytest.raises(gm.GmlmError, match="1.64e\\+04 configurations"):
        model.transition_matrix({})


@pytest.mark.parametrize("body", ["update {a, b} independently", "update K independently where K ~ one"])
@pytest.mark.parametrize("zero", ["factor log(a + b)", "a ~ categorical(P)", "require a + b < 2"])
def test_independent_updates_are_refused_where_p_has_zeros(body: str, zero: str):
    """With zeros in p an independent draw can leave the support."""
    text = f"input P[2] : real\nmodel m {{ var a : bit  var b : bit  factor 0 * P[0]  {zero} }}\nmask one = everything()\nsampler s {{ {body} }}"
    verbs = [lambda m: m.transition_matrix({}), lambda m: m.sample({}, draws=2, warmup=0)]
    for verb in verbs:
        with pytest.raises(gm.GmlmError) as caught:
            verb(gm.parse(text, P=[0.0, 1.0]).model())
        assert caught.value.diagnostics[0].code == "E307"
