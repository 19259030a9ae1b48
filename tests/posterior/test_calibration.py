"""The calibration against NumPy alone: the oracle's losses, finite differences, Newton's method, coordinates by hand; and what a value costs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from cases import Case
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.data import encode_given
from gmlmdsl.fit._kinks import held_graph
from gmlmdsl.graph import with_given
from gmlmdsl.posterior._sampled import with_slabs

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")
SMALL = """
domain sky = labels("sun", "rain", "snow")
model small {
  var w : sky
  var v : sky
  var x : bit
  param s : positive ~ gamma(2, 1)
  param z[a in sky] : simplex ~ dirichlet(3)
  param h ~ normal(1, 1)
  factor log(z[w]) + log(z[v])
  factor s * x * (w == v)
  factor h * x
}
mask pieces { choose {w, x} weight 0.3  choose {v} weight 0.7 }
"""
RING = """
graph G = chain(6, wrap = true)
model ring {
  var x[i in G.nodes] : spin
  param h ~ normal(0, 10)
  param J ~ normal(0, 10)
  factor h * x[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
PAIR = """
model pair {
  given y : real
  var x[i in range(2)] : bit
  param h ~ normal(1, 0.05)
  param b ~ normal(1, 0.05)
  factor h * (x[0] + x[1]) + 0.5 * x[0] * x[1]
  factor b * y * x[0]
}
mask single = subsets(x, size = 1)
"""
STEP = 1e-4
small = Case("small", SMALL)


@cache
def counts() -> np.ndarray:
    """Rows of the model itself: how often each configuration is among 400."""
    params = {"s": np.array(0.8), "z": np.array([0.5, 0.3, 0.2]), "h": np.array(-0.4)}
    return np.random.default_rng(5).multinomial(400, small.oracle.probabilities(params))


def params_at(y: np.ndarray) -> dict[str, np.ndarray]:
    """Parameters at coordinates: exp, sticks that are broken off one after another, the line."""
    first, second = 1 / (1 + np.exp(-(y[1] - np.log(2)))), 1 / (1 + np.exp(-y[2]))
    return {"s": np.exp(y[0]), "z": np.array([first, (1 - first) * second, (1 - first) * (1 - second)]), "h": y[3]}


def losses(y: np.ndarray) -> np.ndarray:
    """c * loss of each configuration."""
    codes, params = small.oracle.states, params_at(y)
    return small.oracle.row_losses(params, codes, "pieces") * small.oracle.fit_constant(params, codes, "pieces")


def gradients(y: np.ndarray) -> np.ndarray:
    """Of the losses of each configuration, shape (configurations, coordinates)."""
    return np.stack([(losses(y + e) - losses(y - e)) / (2 * STEP) for e in STEP * np.eye(4)], axis=1)


def hessian(y: np.ndarray) -> np.ndarray:
    """Of the sum over rows."""
    rows = [counts() @ (gradients(y + e) - gradients(y - e)) / (2 * STEP) for e in STEP * np.eye(4)]
    return 0.5 * (np.stack(rows) + np.stack(rows).T)


@pytest.mark.parametrize("weighted", thinned([False, True], 2, 1))
@pytest.mark.slow
def test_the_matrix_is_the_root_of_the_curvature_by_the_covariance_of_scores(weighted: bool):
    """C C = S^-1 H at the minimiser without priors, of a positive parameter, a simplex and a real one; weights count once in H, twice in S."""
    y = np.zeros(4)
    for _ in range(12):
        y = y - np.linalg.solve(hessian(y), counts() @ gradients(y))
    assert np.abs(counts() @ gradients(y)).max() < 1e-6
    H, each, factor = hessian(y), gradients(y), 0.5 if weighted else 1.0
    S = (each * counts()[:, None]).T @ each
    x = small.values(np.repeat(small.oracle.states, counts(), axis=0))
    model = small.model.to_numpyro(x, weights=np.full(400, factor) if weighted else None)
    found = model.likelihood.calibration
    np.testing.assert_allclose(found.centre, y, atol=2e-5)
    square = np.asarray(found.matrix) @ np.asarray(found.matrix)
    np.testing.assert_allclose(square, np.linalg.solve(factor**2 * S, factor * H), rtol=2e-3, atol=2e-3)
    assert np.abs(square - np.eye(4)).max() > 0.2  # or else there is nothing to calibrate


@pytest.mark.slow
def test_priors_have_no_part_in_it_where_data_are_given():
    """The same map as of the model without priors, which pull hard here."""
    rng = np.random.default_rng(3)
    y, x = rng.normal(size=60), rng.integers(0, 2, (60, 2))
    models = [gm.parse(text).model() for text in (PAIR, PAIR.replace(" ~ normal(1, 0.05)", ""))]
    hard, free = (m.to_numpyro(x, given={"y": y}).likelihood.calibration for m in models)
    assert hard is not None and free is not None
    np.testing.assert_allclose(hard.centre, free.centre, atol=1e-6)
    np.testing.assert_allclose(hard.matrix, free.matrix, rtol=1e-6)
    assert np.abs(np.asarray(free.centre) - 1).max() > 0.3


def test_other_priors_are_those_of_the_graph_without_its_data_too():
    """Slabs in place of spikes, and what a selection holds: a fit takes priors from there."""
    text = PAIR.replace("normal(1, 0.05)", "spike_slab(sd = 2, probability = 0.5)", 1).replace("normal(1, 0.05)", "laplace(0, 1)")
    lowered = gm.parse(text).model().lowered
    given = encode_given(lowered.graph, {"y": np.array([0.5, -1.0])})
    assert given is not None
    graph = with_given(lowered, given).graph
    slabs, held = with_slabs(graph), held_graph(graph, {"b": [0]})
    for of in (slabs, slabs.without_data):
        assert [p.prior.name for p in of.parameters if p.prior] == ["normal", "laplace"]
    for of in (held, held.without_data):
        assert [(p.prior is None, p.still) for p in of.parameters] == [(False, ()), (True, (0,))]


def test_a_value_costs_what_its_rows_cost():
    """Of each distinct row what the loss looks up, as often as rows differ; rows with gaps have a cost of their own."""
    model = gm.parse(RING).model()
    rows = 2 * np.array([[k >> i & 1 for i in range(6)] for k in range(64)]) - 1
    one, all_of_them = (model.to_numpyro(x, calibrate=None).likelihood for x in (rows[:1], np.tile(rows, (3, 1))))
    assert one.cost == 18 * one.objective.codes.shape[1]
    assert all_of_them.cost == 18 * all_of_them.objective.codes.shape[1] == 18 * 64
    gaps = rows.copy()
    gaps[:20, 3] = 9
    apart = model.to_numpyro(gaps, missing=9, calibrate=None).likelihood
    assert apart.objective.gaps is not None
    complete = 18 * apart.objective.codes.shape[1]
    assert apart.cost - complete == apart.objective.gaps.row_cost * len(np.unique(gaps[:20], axis=0)) > 0


TWICE = """
model twice {
  given y[i in range(2)] : real
  given c : labels("a", "b")
  latent z : bit
  var x[i in range(2)] : bit
  param h ~ normal(0, 1)
  param b ~ normal(0, 1)
  factor h * z * (x[0] + x[1])
  factor b * (y[0] - 2 * y[1] + (c == "b")) * x[0] * (1 + z)
}
mask whole = everything(x)
"""


@pytest.mark.slow
def test_rows_are_alike_where_their_cells_are_and_what_is_given():
    """Each of these rows twice, which are seen as one; those that differ in one given number alone are two. Each tells its own log p."""
    model, params = gm.parse(TWICE).model(), {"h": 0.7, "b": -0.4}
    y = np.array([[0.5, 1.0], [0.5, 1.0], [0.5, -1.0], [0.5, 1.0], [1.0, 0.5]])
    given = {"y": np.tile(y, (2, 1)), "c": np.tile(["a", "b", "a", "a", "b"], 2)}
    x = np.tile([[1, 0], [1, 0], [1, 0], [1, 1], [0, 1]], (2, 1))
    likelihood = model.to_numpyro(x, given=given, mask="whole").likelihood
    assert likelihood.objective.gaps is not None
    assert len(likelihood.objective.gap_weights) == likelihood.objective.gaps.count == 5
    expected = np.asarray(model.log_prob(params, {"x": x}, given=given))
    np.testing.assert_allclose(likelihood.by_row(np.asarray(likelihood.distinct(params))), expected, rtol=1e-9)
    assert float(likelihood(params)) == pytest.approx(expected.sum(), rel=1e-9)
