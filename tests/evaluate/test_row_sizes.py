"""Rows come to compiled programs in few sizes: what fills a call up counts nowhere, and more rows compile nothing."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from events import traced_or_compiled
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.data import random_key
from gmlmdsl.evaluate import _named_conditionals, _row_sizes, draw_masks, over_rows
from gmlmdsl.evaluate._row_sizes import size_of
from gmlmdsl.evaluate.limits import CALL_SIZES, LARGE_CALL, MOST_EVALUATED

TEXT = """
model m {
  var x[i in range(4)] : bit
  latent z : bit
  param h
  factor (h + 0.3 * z) * x[i] for i in range(4)
  factor 0.4 * x[i] * x[i + 1] for i in range(3)
  require not (x[0] == 1 and x[3] == 1)
}
mask one = subsets(x, size = 1)
mask inner = blocks({x[1]})
mask some = bernoulli(x, rate = 0.4)
"""


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of at most eight rows: several pieces of few rows."""
    monkeypatch.setattr(_row_sizes, "CALL_SIZES", (1, 8))


def test_sizes_are_few_and_a_costly_row_makes_them_smaller(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_row_sizes, "CALL_SIZES", CALL_SIZES)
    assert {size_of(n, 1.0) for n in range(1, 3000)} == set(CALL_SIZES)
    assert size_of(LARGE_CALL + 1, 1.0) == LARGE_CALL
    for cost in (1.0, 3.0, 1e4, 3e6, 1e12):
        for rows in (1, 50, 5000):
            size = size_of(rows, cost)
            assert size & (size - 1) == 0
            assert size == 1 or size * cost <= MOST_EVALUATED


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 16, 19])
def test_rows_in_pieces_are_those_at_once(count: int):
    sizes: list[int] = []

    def function(some: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        a, b = some
        sizes.append(a.shape[-1])
        return a.sum(axis=0) * b, jnp.stack([b, -b])

    a, b = np.arange(3.0 * count).reshape(3, count), np.arange(count) + 1.0
    first, second = over_rows(function, (a, b), {}, 1.0)
    np.testing.assert_array_equal(first, a.sum(axis=0) * b)
    np.testing.assert_array_equal(second, [b, -b])
    assert set(sizes) <= {1, 8}


@pytest.mark.parametrize("cost", [1.0, MOST_EVALUATED / 4])
def test_traced_parameters_pass_with_their_gradient(cost: float):
    """At once, and by a loop over pieces of four rows."""
    x = np.arange(11.0)
    value = lambda p: over_rows(lambda some: p * some**2, x, p, cost).sum()  # noqa: E731
    found, slope = jax.jit(jax.value_and_grad(value))(3.0)
    np.testing.assert_allclose([found, slope], [3 * (x**2).sum(), (x**2).sum()])
    np.testing.assert_allclose(jax.jit(lambda p: over_rows(lambda some: p * some, x, p, cost))(3.0), 3 * x)


def one_row(rows: Any, r: int) -> Any:
    return {k: v[r : r + 1] for k, v in rows.items()} if isinstance(rows, dict) else rows[r : r + 1]


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_a_row_that_fills_a_call_up_counts_nowhere():
    """The rows of each kind: with a latent summed out, complete, with gaps; one of them is impossible."""
    model, params = gm.parse(TEXT).model(), {"h": 0.7}
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (9, 4))
    x[:, 3] = 0
    x[4, [0, 3]] = 1  # impossible
    gaps = np.where(rng.random((9, 4)) < 0.3, 9, x)
    for rows in (x, {"x": x, "z": rng.integers(0, 2, 9)}, gaps):
        ask = {"missing": 9} if rows is gaps else {}
        for verb in (model.log_potential, model.log_prob):
            np.testing.assert_allclose(verb(params, rows, **ask), [verb(params, one_row(rows, r), **ask)[0] for r in range(9)], rtol=1e-12)
        weights = np.where(np.arange(9) == 4, 0.0, 1.0 + np.arange(9))
        losses = np.array([model.loss(params, one_row(rows, r), "one", **ask) for r in range(9)])
        np.testing.assert_allclose(model.loss(params, rows, "one", **ask), losses.mean(), rtol=1e-12)
        kept = weights > 0
        np.testing.assert_allclose(model.loss(params, rows, "one", weights=weights, **ask), np.average(losses[kept], weights=weights[kept]))
    assert model.loss(params, {"x": x[4:5], "z": [0]}, "inner") == np.inf  # whatever its conditional is
    tables = model.log_conditional(params, x, K=(1, 4))
    np.testing.assert_allclose(tables, np.concatenate([model.log_conditional(params, x[r : r + 1], K=(1, 4)) for r in range(9)]))


def test_drawn_masks_depend_on_the_key_and_the_number_of_a_row_only():
    """They are those that a fit draws, and more rows leave them as they are."""
    model = gm.parse(TEXT).model()
    graph, mask = model.graph, model.mask("some")[1]
    codes = np.random.default_rng(1).integers(0, 2, (graph.n_cells, 19)).astype(np.int32)
    found = _named_conditionals._drawn(graph, ("some", mask), {}, codes, 3, random_key(5))
    np.testing.assert_array_equal(found, draw_masks(graph, mask, jnp.asarray(codes), 3, random_key(5)))
    np.testing.assert_array_equal(found[..., :4], _named_conditionals._drawn(graph, ("some", mask), {}, codes[:, :4], 3, random_key(5)))


@pytest.mark.slow
@pytest.mark.parametrize("rows", thinned([13, 40], 2, 1))
def test_more_rows_compile_nothing(rows: int):
    model, params = gm.parse(TEXT).model(), {"h": np.float32(0.7)}
    y = np.zeros((rows, 4), int)
    verbs = {
        "log_prob": lambda x: model.log_prob(params, x),
        "log_conditional": lambda x: model.log_conditional(params, x, K=(1,)),
        "loss": lambda x: model.loss(params, x, "one"),
        "weighted": lambda x: model.loss(params, x, "one", weights=np.ones(len(x))),
        "drawn": lambda x: model.loss(params, x, "some", key=0, n_masks=2),
    }
    for name, verb in verbs.items():
        verb(y[:5])
        with traced_or_compiled() as events:
            verb(y)
        assert events == [], name
