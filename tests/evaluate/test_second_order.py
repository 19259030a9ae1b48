"""Second-order sums by pairs of values and as squares: against automatic differentiation, and bugs planted in each part of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_local_statistics import TEXT
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.data import encode
from gmlmdsl.evaluate import _second_order, unflatten
from gmlmdsl.evaluate._colouring import colouring
from gmlmdsl.fit import _fit as fitting

ROWS = 23
WAYS = {"by pairs of values": True, "as squares": False}


def case(mask: str) -> tuple[Any, jax.Array]:
    """An objective, and the parameters at which its second order is asked."""
    model = gm.parse(TEXT).model()
    rng = np.random.default_rng(3)
    x = {"x": rng.integers(0, 2, (ROWS, 4)), "k": rng.integers(0, 2, ROWS)}
    start = {k: jnp.asarray(rng.normal(size=v.shape) * 0.3 + 1.0) for k, v in model.init_params().items()}
    weights, lowered = rng.integers(0, 3, ROWS).astype(float), model.mask(mask)[1]
    prepared = fitting.make_objective(model.graph, lowered, encode(model.graph, x).codes, weights, start, (), fitting.FitOptions(mask))
    return prepared.objective, jnp.concatenate([jnp.ravel(start[p.name]) for p in model.graph.parameters])


@cache
def expected(mask: str) -> tuple[np.ndarray, ...]:
    """H, the sum and the moments of u_r, and the one-mask moments, by automatic differentiation."""
    objective, vector = case(mask)
    return tuple(np.asarray(a) for a in jax.jit(lambda v: by_differentiation(objective, v))(vector))


def error(mask: str) -> float:
    """How far second-order sums are from those of automatic differentiation."""
    objective, vector = case(mask)
    found = _second_order.second_order(objective, vector, colouring(objective, vector.shape[0]))
    split = objective.loss.split
    one_mask = None if split else _second_order.one_mask_moments(objective, vector, colouring(objective, vector.shape[0]))
    pairs = zip((found.hessian, found.first, found.second, one_mask), expected(mask), strict=True)
    return max(float(np.abs(np.asarray(a) - b).max()) for a, b in pairs if a is not None)


def by_differentiation(objective: Any, vector: jax.Array) -> tuple[jax.Array, ...]:
    """The same from the losses of all masks, shape (masks, rows)."""
    weights, codes = objective.weights, objective.codes

    def losses(v: jax.Array) -> tuple[jax.Array, jax.Array]:
        of_mask, share = objective.loss.by_mask(unflatten(objective.frame.host, v), codes)
        return of_mask, jax.lax.stop_gradient(share)

    share, g = losses(vector)[1], jax.jacobian(lambda v: losses(v)[0])(vector)
    bend = jax.hessian(lambda v: (share * weights[None] * losses(v)[0]).sum())(vector)
    u = jnp.einsum("mr,r,mrp->rp", share, weights, g)
    return bend, u.sum(axis=0), u.T @ u, jnp.einsum("mr,r,mrp,mrq->pq", share, weights**2, g, g)


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the way, and has the program compiled anew."""

    def choose(name: str) -> None:
        monkeypatch.setattr(_second_order, "by_pairs", lambda *a: WAYS[name])
        plain = _second_order._chunk_sums.__wrapped__
        monkeypatch.setattr(_second_order, "_chunk_sums", jax.jit(lambda *a: plain(*a), static_argnums=7))

    return choose


@pytest.mark.parametrize(("mask", "name"), thinned(itertools.product(["seen", "two"], WAYS), 8, 5))
def test_sums_equal_automatic_differentiation(mask: str, name: str, way: Callable[[str], None]) -> None:
    way(name)
    with jax.enable_x64(True):
        assert error(mask) < 1e-10


# Bugs


def _unweighted(original: Callable[..., Any], *a: Any) -> Any:
    """Rows of weight 0 count."""
    *rest, weights, one_mask = a
    return original(*rest, jnp.ones_like(weights), one_mask)


def _one_share(original: Callable[..., Any], share: Any, *a: Any) -> Any:
    """One-mask moments take the square of a mask's probability."""
    return original(share**2 if a[-1] else share, *a)


def _without_constant(original: Callable[..., Any], stacked: Any, indicators: Any, mine: Any, rows: int) -> Any:
    """The indicators lack their one."""
    maps, z = original(stacked, indicators, mine, rows)
    return maps, z.at[0].set(0.0)


def _stale_scores(original: Callable[..., Any], stacked: Any, indicators: Any, mine: Any, rows: int) -> Any:
    """The scores are those of other parameters."""
    maps, z = original(stacked, indicators, mine, rows)
    return maps.at[0].multiply(0.9), z


def _uniform(original: Callable[..., Any], scores: Any) -> Any:
    """Values that a mask cannot have drawn have a probability."""
    return original(jnp.where(jnp.isfinite(scores), scores, -1.0))


def _transposed(original: Callable[..., Any], sums: Any, at: Any, found: Any) -> Any:
    """Colours are put where others belong."""
    return original(sums, at[::-1], found)


BUGS = {
    "a row of weight 0 that counts": ("_products", _unweighted, "by pairs of values"),
    "a mask's probability squared": ("_products", _one_share, "by pairs of values"),
    "no constant": ("_maps", _without_constant, "by pairs of values"),
    "stale scores": ("_maps", _stale_scores, "as squares"),
    "impossible values": ("_shares_of", _uniform, "as squares"),
    "colours swapped": ("_with", _transposed, "as squares"),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", thinned(BUGS, 6))
def test_planted_bugs_are_caught(bug: str, way: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    name, broken, path = BUGS[bug]
    original = getattr(_second_order, name)
    way(path)
    monkeypatch.setattr(_second_order, name, lambda *a: broken(original, *a))
    with jax.enable_x64(True):
        assert error("seen") > 1e-6
