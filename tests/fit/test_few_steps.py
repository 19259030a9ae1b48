"""What makes fits of many rows short: equal rows as one, and the metric that L-BFGS starts from; both leave the answers as they are."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.data import encode
from gmlmdsl.evaluate import (
    Objective,
    _metric,
    _row_sizes,
    distinct_rows,
    metrics,
    one_mask_moments,
    second_order,
    unflatten,
)
from gmlmdsl.fit import _fit as fitting
from gmlmdsl.fit import _minimise, _prepare
from gmlmdsl.fit._inference import curvature, prior_curvature
from gmlmdsl.fit._prepare import objective_colouring

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")
TEXT = """
index pos = range(3)
model m {
  var x[i in pos] : range(3)
  param g              ~ normal(0, 1)
  param h[i in pos, a in range(3)]                              ~ normal(0, 2)
  param J[i in pos, j in pos, a in range(3), b in range(3)]     ~ normal(0, 0.5)
  factor h[i, x[i]]          for i in pos
  factor g * (x[i] == x[j]) for i in pos for j in pos if i < j
  factor J[i, j, x[i], x[j]] for i in pos for j in pos if i < j
}
mask one = subsets(x, size = 1)
"""
RNG = np.random.default_rng(4)
X, WEIGHTS = RNG.integers(0, 3, (60, 3)), RNG.integers(0, 4, 60).astype(float)
MODEL = gm.parse(TEXT).model()


def objective(x: np.ndarray, weights: np.ndarray, merge: bool = False, text_mask: str = "one") -> Objective:
    start = {k: jnp.asarray(v) for k, v in MODEL.init_params().items()}
    options = fitting.FitOptions(text_mask)
    codes = encode(MODEL.graph, x).codes
    return fitting.make_objective(MODEL.graph, MODEL.mask(text_mask)[1], codes, weights, start, (), options, merge).objective


@cache
def vector() -> jax.Array:
    size = sum(p.size for p in MODEL.graph.parameters)
    return jnp.asarray(np.random.default_rng(1).normal(size=size) * 0.5)


def params_at(v: Any) -> dict[str, Any]:
    return unflatten(MODEL.graph, jnp.asarray(v))


def test_distinct_rows_are_those_of_numpy():
    found = distinct_rows(X.T, WEIGHTS)
    assert found is not None
    expected, of = np.unique(X, axis=0, return_inverse=True)
    order = np.lexsort(found.codes[::-1])
    np.testing.assert_array_equal(found.codes.T[order], expected)
    for got, each in ((found.weights, WEIGHTS), (found.repeated[0], WEIGHTS > 0), (found.repeated[1], WEIGHTS**2)):
        np.testing.assert_allclose(got[order], np.bincount(of.ravel(), each))
    np.testing.assert_array_equal(found.codes[:, 0], X[0])  # in the order in which they come


def test_rows_that_differ_stay_and_two_rows_of_one_key_do_not_meet(monkeypatch: pytest.MonkeyPatch):
    assert distinct_rows(np.arange(12).reshape(1, 12), np.ones(12)) is None
    monkeypatch.setattr(_row_sizes, "_keys", lambda codes: np.zeros(codes.shape[1], np.uint64))
    assert distinct_rows(X.T, WEIGHTS) is None


@pytest.mark.slow
def test_equal_rows_as_one_leave_value_errors_and_counts(monkeypatch: pytest.MonkeyPatch):
    """The sandwich's sums are over the rows that there were: a merged row of weights w has the square of each, not of their sum."""
    monkeypatch.setattr(_prepare, "WORTH_MERGING", 0)
    whole, merged = objective(X, WEIGHTS), objective(X, WEIGHTS, merge=True)
    assert merged.repeated is not None
    assert merged.codes.shape[1] < whole.codes.shape[1]
    assert merged.n_rows == whole.n_rows == (WEIGHTS > 0).sum()
    v, params = vector(), params_at(vector())
    np.testing.assert_allclose(merged.at(params), whole.at(params), rtol=1e-12)
    found = []
    for o in (whole, merged):
        colours = objective_colouring(o)
        assert colours is not None
        sums = second_order(o, v, colours)
        slow = curvature(o, params, None)
        counts = curvature(o, params, colours, counts=True)
        one = one_mask_moments(o, v, colours)
        found.append((sums.hessian, sums.first, sums.second, one, slow.hessian, slow.score, counts.score))
    for expected, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[1][5], curvature(merged, params, objective_colouring(merged)).score, rtol=1e-9, atol=1e-9)


def dense(metric: _metric.Metric, size: int) -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(metric))(jnp.eye(size)))


def hessian_at(o: Objective, order: np.ndarray, v: Any) -> np.ndarray:
    return np.asarray(jax.jit(jax.hessian(lambda u: o.at(params_at(u))))(jnp.asarray(v)))[np.ix_(order, order)]


def metric_of(o: Objective, v: Any) -> tuple[np.ndarray, np.ndarray]:
    """The metric as a matrix, and the order of its parameters."""
    made, params = metrics(o), params_at(v)
    assert made is not None
    prior = prior_curvature(o, params)
    for metric in (made.at(params_at(v - 0.3), prior), made.at(params, prior)):  # the second with what the first one kept
        assert metric is not None
    return dense(metric, len(made.order)), made.order


@pytest.fixture
def rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small cases have a metric whatever their frequencies, and it is as near as it can be."""
    monkeypatch.setattr(_metric, "_has_rare_values", lambda objective: True)
    monkeypatch.setattr(_metric, "ADDED_CURVATURE", 0.0)
    monkeypatch.setattr(_metric, "MOST_UNEVEN", 99.0)


@pytest.mark.slow  # dear to compile; its diagonal is compared below
@pytest.mark.usefixtures("rare")
def test_the_metric_is_the_inverse_hessian_where_all_rows_are_alike():
    """Then every context is at its mean, and D is the prior's."""
    o = objective(np.tile([[0, 2, 1]], (7, 1)), np.full(7, 2.0))
    found, order = metric_of(o, vector())
    np.testing.assert_allclose(found @ hessian_at(o, order, vector()), np.eye(len(order)), atol=2e-5)


@pytest.mark.usefixtures("rare")
def test_the_metric_has_the_diagonal_of_the_hessian_where_probabilities_do_not_vary():
    """At the start all values are alike: only what two entries of one parameter have together is left out."""
    o, start = objective(X, WEIGHTS), np.zeros(len(vector()))
    found, order = metric_of(o, start)
    names = np.concatenate([[p.name] * p.size for p in MODEL.graph.parameters])[order]
    ours, exact = np.diag(np.linalg.inv(found)), np.diag(hessian_at(o, order, start))
    np.testing.assert_allclose(ours[names != "g"], exact[names != "g"], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("rare")
def test_a_fit_with_the_metric_has_the_same_end_in_fewer_steps(monkeypatch: pytest.MonkeyPatch):
    x = np.where(np.random.default_rng(0).random((300, 3)) < 0.85, 0, RNG.integers(0, 3, (300, 3)))
    monkeypatch.setattr(_minimise, "MOST_SCALED", 0)  # no scaling by the whole Hessian
    plain = MODEL.fit(x, "one", progress=False)
    monkeypatch.setattr(_minimise, "MANY_PRODUCTS", 0)
    monkeypatch.setattr(_minimise, "METRIC_RENEWALS", (3, 5))
    quick = MODEL.fit(x, "one", progress=False)
    limited = MODEL.fit(x, "one", progress=False, max_steps=4)
    assert len(limited.loss_trace) == 4
    assert len(quick.loss_trace) < 0.7 * len(plain.loss_trace)
    for name, value in plain.params.items():
        np.testing.assert_allclose(quick.params[name], value, atol=2e-6)
    np.testing.assert_allclose(quick.objective, plain.objective, rtol=1e-10)


@pytest.mark.parametrize(
    ("change", "has"), [({}, True), ({"frame": dataclasses.replace(objective(X, WEIGHTS).frame, fixed=("h",))}, True), ({"gaps": 1}, False)]
)
@pytest.mark.usefixtures("rare")
def test_what_has_a_metric(change: dict[str, Any], has: bool):
    made = metrics(dataclasses.replace(objective(X, WEIGHTS), **change))
    assert (made is not None) == has
    if made is not None and "frame" in change:
        assert len(made.order) == len(vector()) - 9
