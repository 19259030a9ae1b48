"""Losses from tables: against trees, in both layouts, for every arity and domain; and bugs planted in each part of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.derive import Chunks, ExactLoss, _block_tables, bounded_jit, exact_loss, graph_arrays
from gmlmdsl.plan import _block_tables as plan

PAIRS = """
input n : int
index site = range(n)
graph G = complete(site)
model m {
  var x[i in site] : spin
  param h[i in site]
  param J[(i, j) in G.edges]
  factor h[i] * x[i] for i in site
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(size = 1)
mask two = subsets(size = 2)
"""
RING = """
input n : int
index site = range(n)
graph G = chain(site, wrap = true)
domain colour = labels("red", "green", "blue")
model m {
  var x[i in site] : colour
  param s : real
  param u[a in colour, b in colour]
  factor u[x[i], x[j]] + s * (x[i] == x[j]) for (i, j) in G.edges
}
mask one = subsets(size = 1)
"""
MIXED = """
index site = range(4)
domain sky = labels("sun", "rain", "snow")
model m {
  var x[i in site] : spin
  var c : sky
  var k : range(5)
  var alone : range(1)
  param a[i in site] : positive
  param b
  param t[v in sky]
  factor a[i] * x[i] * k for i in site
  factor b * x[0] * x[1] * x[2]
  factor t[c] * (k - 2)^2
  factor if x[3] == 1 then exp(b) * k else t[c]
  factor log(1 + k) * x[1] * x[0]
  factor b * alone * k
  require not (c == "snow" and k == 4)
}
mask one = subsets(size = 1)
mask two = subsets(size = 2)
"""
CASES = {"pairs-one": (PAIRS, 6, "one"), "pairs-two": (PAIRS, 5, "two"), "ring": (RING, 90, "one"), "mixed-one": (MIXED, 0, "one")}
CASES |= {"mixed-two": (MIXED, 0, "two")}
CASES |= {f"{name}, gaps": CASES[name] for name in ("pairs-one", "ring", "mixed-one")}  # cells that rows lack are left out
ROWS = 23


def made(name: str) -> tuple[gm.Model, ExactLoss, np.ndarray, dict[str, Any]]:
    """The model, its loss, rows as codes that nothing forbids, and parameters."""
    text, n, mask = CASES[name]
    model = (gm.parse(text, n=n) if n else gm.parse(text)).model()
    graph, rng = model.graph, np.random.default_rng(4)
    codes = rng.integers(0, np.asarray(graph.sizes)[:, None], (graph.n_cells, ROWS)).astype(np.int32)
    if not n:
        codes[5] = np.minimum(codes[5], 3)
    if "gaps" in name:
        codes[rng.random(codes.shape) < 0.3] = -1
    params = {k: jnp.asarray(np.abs(rng.normal(size=np.shape(v))) + 0.1) for k, v in model.init_params().items()}
    loss = exact_loss(graph, graph_arrays(graph), model.mask(mask)[1], "gaps" in name)
    assert isinstance(loss, ExactLoss)
    return model, loss, codes, params


@bounded_jit
def rows_and_gradient(loss: ExactLoss, params: dict[str, Any], codes: Any, weights: Any) -> tuple[Any, Any, Any]:
    """The loss of each row, and the weighted sum by `plain_total` where that is all, with its gradient."""

    def total(p: dict[str, Any]) -> Any:
        plain = all(loss.is_plain)
        return loss.plain_total(p, codes, weights, Chunks(8)) if plain else (weights * loss.rows(p, codes)).sum()

    value, gradient = jax.value_and_grad(total)(params)
    return loss.rows(params, codes), value, gradient


def error(name: str) -> float:
    """How far the losses from tables are from those from trees: rows, sums and gradients."""
    _, loss, codes, params = made(name)
    assert any(t is not None for t in loss.tabled)
    trees = eqx.tree_at(lambda o: o.tabled, loss, (None,) * len(loss.tabled), is_leaf=lambda t: t is None)
    weights = np.append(np.random.default_rng(1).gamma(2.0, size=ROWS), 0.0)  # the last row fills the chunks of 8 up, and counts nothing
    codes = np.concatenate([codes, codes[:, -1:]], axis=1)
    found, expected = (jax.tree.leaves(rows_and_gradient(o, params, codes, weights)) for o in (loss, trees))
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", thinned(CASES, 12))
def test_losses_from_tables_are_those_from_trees(name: str) -> None:
    with jax.enable_x64(True):
        assert error(name) < 1e-10


def test_layouts_are_found_from_index_arrays() -> None:
    with jax.enable_x64(True):
        of = {name: [c.of for t in made(name)[1].tabled if t is not None for c in t.contexts] for name in ("pairs-one", "ring")}
    assert all(o is None for o in of["pairs-one"])
    assert all(o is not None and o.shape == (90, 2) for o in of["ring"])


def test_a_factor_that_may_be_minus_infinity_has_no_table() -> None:
    text = "model m { var x[i in range(3)] : range(3)  factor log(x[i]) for i in range(3) }\nmask one = subsets(size = 1)\n# gmlm: allow W815\n"
    model = gm.parse(text).model()
    with jax.enable_x64(True):
        loss = exact_loss(model.graph, graph_arrays(model.graph), model.mask("one")[1])
    assert isinstance(loss, ExactLoss)
    assert loss.tabled == (None,)


def test_a_factor_that_its_parameters_may_make_minus_infinity_has_no_table() -> None:
    """At a simplex with a zero the loss is a number where what is observed is possible: -log p by hand."""
    text = """
    index day = range(2)
    model m { var z[t in day] : range(3)
      param p[a in range(3)] : simplex
      param q[a in range(3), b in range(3)] : simplex
      z[0] ~ categorical(p)
      z[1] ~ categorical(q[z[0]]) }
    mask one = subsets(z, size = 1)
    """
    params = {"p": [0, 0.5, 0.5], "q": [[0, 0.5, 0.5], [0.2, 0.3, 0.5], [0.5, 0.5, 0]]}
    found = gm.parse(text).model().loss(params, [[1, 1]], mask="one")
    assert float(found) == pytest.approx(-(np.log(0.15 / (0.15 + 0.25)) + np.log(0.3)) / 2, rel=1e-5)


def test_float32_sums_are_those_of_float64_to_six_digits() -> None:
    with jax.enable_x64(True):
        _, loss, codes, params = made("pairs-one")
        total = bounded_jit(lambda loss, params, codes, t: loss.plain_total(params, codes, jnp.ones(ROWS), Chunks(ROWS), t))
        single, double = (float(total(loss, params, codes, t)) for t in (jnp.float32, None))
    assert single != double
    assert single == pytest.approx(double, rel=1e-6)


# Bugs


def _dropped(original: Callable[..., Any], *args: Any) -> Any:
    """One neighbour of one block is left out."""
    found = original(*args)
    found.places[0, 0, :, 1] = args[0].size  # of the first block
    return found


def _transposed(original: Callable[..., Any], self: Any, u: Any, mine: np.ndarray, context: Any) -> Any:
    """A table is read with its slots swapped."""
    swapped = u.table.__class__(u.table.group, u.table.sizes[::-1], u.table.start, u.table.count)
    strides = swapped.strides[::-1]
    found = original(self, u, mine, context)
    return found if context is None or len(u.table.sizes) != 2 else _reread(found, u.table, strides)


def _reread(places: np.ndarray, table: Any, strides: np.ndarray) -> np.ndarray:
    first = (places - table.start) // table.values * table.values + table.start
    codes = np.unravel_index((places - table.start) % table.values, table.sizes)
    return first + sum(c * s for c, s in zip(codes, strides, strict=True))


def _stale(original: Callable[..., Any], self: Any, params: Any) -> Any:
    """The tables are those of other parameters."""
    return original(self, {k: jax.lax.stop_gradient(v) * 0.9 for k, v in params.items()})


def _padding_counts(original: Callable[..., Any], weights: Any, tabled: Any, codes: Any, shares: Any, row_weights: Any) -> Any:
    """A row of weight 0 counts."""
    return original(weights, tabled, codes, shares, jnp.maximum(row_weights, 1e-3))


def _without_first(original: Callable[..., Any], self: Any, slope: Any, z: Any, shape: Any) -> Any:
    """The gradient misses the first context."""
    return original(self, slope, z, shape).at[:, :, 0].set(0.0)


BUGS = {
    "a dropped neighbour": (plan._Filling, "placed", _dropped, "ring"),
    "a dropped cell of a dense matrix": (plan._Filling, "placed", _dropped, "pairs-one"),
    "a transposed table": (plan._Filling, "windows", _transposed, "ring"),
    "a stale table": (_block_tables.Tables, "entries", _stale, "pairs-two"),
    "a padded row that counts": (_block_tables, "_chunk_sum", _padding_counts, "pairs-one"),
    "a gradient without a context": (_block_tables.Contexts, "outer", _without_first, "ring"),
    "a dense gradient without a context": (_block_tables.Contexts, "outer", _without_first, "pairs-one"),
}


@pytest.mark.parametrize("bug", thinned(BUGS, 12))  # each compiles anew
def test_planted_bugs_are_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, broken, case = BUGS[bug]
    original = getattr(where, name)
    monkeypatch.setattr(where, name, lambda *a: broken(original, *a))
    plain = rows_and_gradient.__wrapped__
    fresh = jax.jit(lambda *a: plain(*a))  # not a program that was compiled without the bug
    monkeypatch.setattr(f"{__name__}.rows_and_gradient", fresh)
    with jax.enable_x64(True):
        assert error(case) > 1e-6
