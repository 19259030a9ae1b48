"""Index sets with members below 0, types that follow from priors, and clusters over a chain whose nodes are a range of its length."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import gmlmdsl as gm

LAGS = Path(__file__).parents[1] / "programs" / "valid" / "lags_on_a_ring.gmlm"
W = np.array([0.3, -0.7, 1.1])  # of the lags -1, 0, 1


def score(x: np.ndarray, u: tuple[int, ...]) -> float:
    """log p of the program up to log Z, by hand; u[d] is the cell of the member d - 2."""
    n = len(x)
    ring = 0.4 * sum(x[i] * x[(i + 1) % n] for i in range(n))
    lags = sum(W[d + 1] * x[i + d] for i in range(n) for d in (-1, 0, 1) if 0 <= i + d < n)
    return ring + lags + u[1] * x[0] - 0.5 * u[2] * u[0] + W[u[2] + 1]


@pytest.fixture(scope="module")
def model() -> gm.Model:
    return gm.load(LAGS).model()


def test_members_below_zero_index_parameters_and_variables(model: gm.Model):
    states = [(np.array(x), u) for x in product((-1, 1), repeat=6) for u in product((0, 1), repeat=3)]
    scores = np.array([score(x, u) for x, u in states])
    found = model.log_prob({"w": W}, {"x": np.array([x for x, _ in states]), "u": np.array([u for _, u in states])})
    np.testing.assert_allclose(found, scores - np.logaddexp.reduce(scores), rtol=0, atol=2e-5)


@pytest.mark.slow  # statistical
def test_clusters_over_the_chain_keep_p(model: gm.Model):
    matrix = model.transition_matrix({"w": W}, sampler="clusters")
    law = np.exp([score(np.array(x), u) for x in product((-1, 1), repeat=6) for u in product((0, 1), repeat=3)])
    law = law / law.sum()
    np.testing.assert_allclose(law @ matrix, law, rtol=0, atol=1e-7)


@pytest.mark.parametrize("lag", [-2, 3])
def test_a_lag_that_is_no_member_is_refused(lag: int):
    text = LAGS.read_text().replace("w[u[0]]", f"w[{lag}]")
    with pytest.raises(gm.GmlmError, match=f"which has no member {lag}"):
        gm.parse(text).model()


@pytest.mark.parametrize("sizes", [(2, 2), (3, 1)])
def test_a_range_without_members_is_refused_once_its_ends_are_known(sizes: tuple[int, int]):
    text = "input a, b : int\nmodel m { var x[i in range(a, b)] : bit }"
    text = text.replace("input a, b : int", "input a : int\ninput b : int")
    with pytest.raises(gm.GmlmError, match="E406"):
        gm.parse(text, a=sizes[0], b=sizes[1]).model()


def test_a_parameter_without_a_type_has_the_support_of_its_prior():
    program = gm.load(LAGS.with_name("supports_of_priors.gmlm"))
    kinds = {p.name: p.type.kind for p in program.checked.models["m"].parameters.values()}
    assert kinds == {"tau": "positive", "h": "real", "p": "bounded", "q": "simplex"}
    start = program.model().init_params()
    assert start["tau"] > 0
    assert 0 < start["p"] < 1
    assert start["q"].sum() == pytest.approx(1)
