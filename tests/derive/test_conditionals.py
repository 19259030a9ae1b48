"""Conditionals of blocks given the rest, plain and adaptive, against enumeration."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from cases import BY_NAME, CASES, Case, masks_of
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.derive.compiled import local_scores

pytestmark = pytest.mark.usefixtures("float64")
EXACT = {"rtol": 1e-9, "atol": 1e-9}
LOOKING = [(c, m) for c, m in masks_of() if c.model.mask(m)[1].is_adaptive]


@pytest.mark.check
@pytest.mark.parametrize("size", thinned([1, 2, 3], 3, 1))
@pytest.mark.parametrize("case", thinned(CASES, 4), ids=str)
def test_every_block_up_to_three_cells(case: Case, size: int):
    """All blocks at once through the one compiled routine, at every configuration whose rest is possible."""
    graph, oracle = case.model.graph, case.oracle
    if size > oracle.n_cells:
        assert oracle.n_cells == 2
        return
    listed = np.array(list(itertools.combinations(range(oracle.n_cells), size)), np.int32)
    blocks = derive.fixed_blocks(graph, listed)
    codes = jnp.asarray(oracle.states.T, jnp.int32)
    scores = np.asarray(local_scores(derive.graph_arrays(graph), case.model._params(case.params, case.model.lowered), codes, blocks))
    for k, cells in enumerate(listed):
        expected = oracle.log_conditional(case.params, oracle.states, cells).reshape(len(oracle.states), -1)
        found = scores[k, : expected.shape[1]].T
        assert (scores[k, expected.shape[1] :] == -np.inf).all()  # values that this block does not have
        possible = ~np.isnan(expected[:, 0])
        found = found[possible] - np.logaddexp.reduce(found[possible], axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected[possible], **EXACT)


BLOCKS = {
    "weather": [(0,), (4,), (1, 4), (0, 2, 3)],
    "log_zero": [(1,), (0, 2), (0, 1, 2, 3)],
    "branches": [(0, 4), (3,)],
    "directed": [(0,), (1, 2, 3)],
}


@pytest.mark.parametrize(("case", "K"), thinned([(BY_NAME[c], K) for c, many in BLOCKS.items() for K in many], 8, 4), ids=str)
def test_tables_have_infinities_and_nans_where_they_belong(case: Case, K: tuple[int, ...]):
    """-inf at impossible values, nan where the rest itself is impossible; leading axes, then one per member."""
    found = np.asarray(case.model.log_conditional(case.params, case.states, K))
    expected = case.oracle.log_conditional(case.params, case.oracle.states, K)
    assert found.shape == expected.shape == (len(case.oracle.states), *(case.oracle.domain_sizes[i] for i in K))
    np.testing.assert_allclose(found, expected, **EXACT)


def test_members_stand_in_ascending_order_however_they_are_listed():
    case = BY_NAME["triples"]
    one, other = (case.model.log_conditional(case.params, case.states, K) for K in ((3, 0), (0, 3)))
    assert one.shape[1:] == (3, 4)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(
        case.model.log_conditional(case.params, case.states, 3), case.model.log_conditional(case.params, case.states, [3])
    )


@pytest.mark.parametrize(("case", "mask"), thinned(LOOKING, 12, 1), ids=lambda v: str(v))
def test_adaptive_conditionals_of_a_masks_blocks(case: Case, mask: str):
    """log p(x_K | x_rest, K) is proportional to p(x) p(K | x): three blocks of each mask, spread over its support."""
    support = sorted((sorted(k) for k in case.oracle.mask_table(case.params, mask) if k), key=lambda k: (len(k), k))
    for k in support[:: max(1, -(-len(support) // 3))]:
        found = np.asarray(case.model.log_conditional(case.params, case.states, k, mask=mask))
        expected = case.oracle.log_conditional(case.params, case.oracle.states, k, mask)
        np.testing.assert_allclose(found, expected, **EXACT)


def test_some_adaptive_conditionals_differ_from_the_plain_ones():
    case = BY_NAME["lattice"]
    plain, given = (case.model.log_conditional(case.params, case.states, (0, 1), mask=m) for m in (None, "agreeing"))
    assert np.abs(np.asarray(plain) - np.asarray(given)).max() > 0.1


def test_a_mask_that_does_not_look_changes_nothing():
    case = BY_NAME["lattice"]
    plain, given = (case.model.log_conditional(case.params, case.states, (0, 1), mask=m) for m in (None, "weighed"))
    np.testing.assert_array_equal(plain, given)


@pytest.mark.slow
def test_lemma_3():
    """p(a = 0 | b = 0) = 2/3, and 4/7 given that the mask chose to hide a (Li et al. 2024, Lemma 3; its last row is (1, 1))."""
    case = BY_NAME["lemma3"]
    plain = np.exp(case.model.log_conditional({}, {"a": 0, "b": 0}, 0))
    given = np.exp(case.model.log_conditional({}, {"a": 0, "b": 0}, 0, mask="looking"))
    np.testing.assert_allclose(plain, [2 / 3, 1 / 3], rtol=1e-12)
    np.testing.assert_allclose(given, [4 / 7, 3 / 7], rtol=1e-12)
    table = np.exp(case.model.log_prob({}, case.states))
    np.testing.assert_allclose(table, [0.5, 0.25, 0.25, 0.0], rtol=1e-12)  # (0, 0), (0, 1), (1, 0), (1, 1)
    beside_one = np.asarray(case.model.log_conditional({}, {"a": 1, "b": 1}, 0, mask="looking"))
    np.testing.assert_array_equal(np.exp(beside_one), [1, 0])


def test_lemma_3_as_printed():
    """9/13 is the conditional of the cell that K does not hide; the hidden cells have 6/7 beside 3/4, and 9/17 beside 3/5."""
    T, A = np.array([[3, 2], [1, 0]]) / 6, np.array([[1 / 2, 1 / 3], [1 / 4, 1 / 2]])
    inputs = {"T": T, "A": A}
    text = """
input T[2, 2] : real
input A[2, 2] : real
model two { var x0 : bit  var x1 : bit  factor log(T[x0, x1]) }
model both { var x0 : bit  var x1 : bit  var k : bit  factor log(T[x0, x1])  factor if k == 0 then log(A[x0, x1]) else log(1 - A[x0, x1]) }
mask looking for two sees x0, x1 { choose A[x0, x1] : {x0}  choose 1 - A[x0, x1] : {x1} }
"""
    program = gm.parse(text, **inputs)
    two, at = program.model("two"), {"x0": 0, "x1": 0}
    plain = [np.exp(two.log_conditional({}, at, K=cell))[0] for cell in (0, 1)]
    given = [np.exp(two.log_conditional({}, at, K=cell, mask="looking"))[0] for cell in (0, 1)]
    np.testing.assert_allclose(plain, [3 / 4, 3 / 5], rtol=1e-6)
    np.testing.assert_allclose(given, [6 / 7, 9 / 17], rtol=1e-6)
    printed = np.exp(program.model("both").log_conditional({}, at | {"k": 0}, K=1))[0]
    np.testing.assert_allclose(printed, 9 / 13, rtol=1e-6)


def test_lemma_4_adaptive_conditionals_average_to_the_plain_one():
    """The mean of p(x_K | x_rest, K') over K' ~ p(. | x_rest) is p(x_K | x_rest), here with K' in {a, not a}."""
    case = BY_NAME["lemma3"]
    p, look = np.array(case.inputs["T"]), np.array(case.inputs["A"])
    for b in (0, 1):
        hides_a = (p[:, b] * look[:, b]).sum() / p[:, b].sum()
        given = np.exp(case.model.log_conditional({}, {"a": 0, "b": b}, 0, mask="looking"))
        other = p[:, b] * (1 - look[:, b])
        other = other / other.sum() if other.sum() else other
        plain = np.exp(case.model.log_conditional({}, {"a": 0, "b": b}, 0))
        np.testing.assert_allclose(hides_a * given + (1 - hides_a) * other, plain, atol=1e-12)


@pytest.mark.parametrize("K", [(), (0, 0), (-1,), (6,), 1.5, "x", [[0, "a"]]])
def test_what_is_no_block_is_refused(K: object):
    case = BY_NAME["lattice"]
    with pytest.raises(gm.GmlmError, match="positions from 0 to 5"):
        case.model.log_conditional(case.params, case.states, K)


@pytest.mark.parametrize("mask", ["agreeing", "rows"])
def test_a_block_that_the_mask_never_draws_is_refused(mask: str):
    case = BY_NAME["lattice"]
    with pytest.raises(gm.GmlmError, match="never draws"):
        case.model.log_conditional(case.params, case.states, (0, 5), mask=mask)


def test_too_large_a_block_is_refused_with_its_cost():
    model = gm.parse("index n = range(40)\nmodel m { var x[i in n] : spin  factor x[i] * x[j] for i in n for j in n if i < j }").model()
    with pytest.raises(gm.GmlmError, match="joint values") as caught:
        model.log_conditional({}, np.ones(40), range(30))
    assert caught.value.diagnostics[0].code == "E601"
