"""log p of whole configurations, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from cases import BY_NAME, CASES, Case
from thinned import thinned

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("float64")
EXACT = {"rtol": 1e-9, "atol": 1e-9}


@pytest.mark.check
@pytest.mark.parametrize("case", CASES, ids=str)
def test_log_p_of_every_configuration(case: Case):
    log_p = case.model.log_prob(case.params, case.states)
    assert log_p.dtype == np.float64
    np.testing.assert_allclose(log_p, case.oracle.log_prob(case.params, case.oracle.states), **EXACT)
    np.testing.assert_allclose(np.exp(log_p).sum(), 1, rtol=1e-12)


@pytest.mark.parametrize("case", thinned(CASES, 3), ids=str)
def test_unnormalised_log_p_has_the_same_zeros(case: Case):
    found = np.asarray(case.model.log_potential(case.params, case.states))
    expected = case.oracle.log_potential(case.params, case.oracle.states)
    np.testing.assert_array_equal(found == -np.inf, expected == -np.inf)
    np.testing.assert_allclose(found, expected, **EXACT)


def test_the_cases_hold_what_they_should():
    """Domains of two, three and four values together, three-cell factors, hard zeros of both kinds."""
    sizes = {s for c in CASES for s in c.oracle.domain_sizes}
    assert sizes == {2, 3, 4}
    assert any(len(set(c.oracle.domain_sizes)) == 3 for c in CASES)
    assert any(len(t) >= 3 for c in CASES for t in c.oracle.touched(c.params))
    zeros = {c.name for c in CASES if (c.oracle.probabilities(c.params) == 0).any()}
    assert {"weather", "log_zero", "triples"} <= zeros
    assert len(CASES) >= 12


def test_float32_agrees_to_its_digits():
    case = BY_NAME["lattice"]
    exact = np.asarray(case.model.log_prob(case.params, case.states))
    import jax

    with jax.enable_x64(False):
        rough = case.model.log_prob(case.params, case.states)
    assert rough.dtype == np.float32
    np.testing.assert_allclose(rough, exact, atol=2e-5)


def test_leading_axes_of_x_are_kept():
    case = BY_NAME["lattice"]
    x = np.asarray(case.states).reshape(4, 16, 6)
    assert case.model.log_prob(case.params, x).shape == (4, 16)
    assert case.model.log_prob(case.params, x[0, 0]).shape == ()
    np.testing.assert_allclose(case.model.log_prob(case.params, x).ravel(), case.model.log_prob(case.params, case.states), rtol=1e-14)


def test_labels_and_codes_are_the_same_data():
    case = BY_NAME["arcs"]
    words = ["".join("ACG"[c] for c in row) for row in case.oracle.states]
    letters = [list(w) for w in words]
    expected = case.oracle.log_prob(case.params, case.oracle.states)
    for x in (words, np.array(words), letters, case.oracle.states):
        np.testing.assert_allclose(case.model.log_prob(case.params, x), expected, **EXACT)


def test_an_edge_counts_once_and_reads_from_either_end():
    """J[j, i] is J[i, j], and its further axes turn with it."""
    case = BY_NAME["arcs"]
    assert case.program.graph("G").edges.tolist() == [[0, 1], [0, 3], [1, 2], [1, 3]]
    only = {k: np.zeros_like(v) for k, v in case.params.items()} | {"J": np.zeros((4, 3, 3))}
    only["J"][2, 0, 2] = 1.5  # the edge (1, 2), x[1] = A, x[2] = G
    values = case.model.log_potential(only, ["AAGA", "AGAA"])
    np.testing.assert_allclose(values, [1.5, 0.0])


def test_an_untaken_branch_may_leave_the_axis():
    case = BY_NAME["branches"]
    assert np.isfinite(np.asarray(case.model.log_potential(case.params, case.states))).any()
    with pytest.raises(gm.GmlmError, match="outside 0..2"):
        gm.parse(case.text, table=np.zeros(3), deep=1).model()
