"""Rows of a call: equal rows are merged, and all are split into pieces of few sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import AnyArray
from ..data import is_traced
from ..derive import Chunks, Graph, compiled, float_type, on_device
from .limits import CALL_SIZES, LARGE_CALL, MOST_EVALUATED, WORTH_MERGING_ROWS

if TYPE_CHECKING:
    from jaxtyping import PyTree

Array = np.ndarray


def over_rows(function: Callable[[PyTree], PyTree], rows: PyTree, params: PyTree, cost: float) -> PyTree:
    """Apply a function of rows to pieces of one size, and concatenate the results.

    The last row is repeated to fill the last piece, and the repeats are removed from the result. If
    parameters or the caller are traced, the rows are not padded, because the caller is compiled for
    their number anyway.

    Args:
        function: a function of `rows` on the device. It returns arrays whose last axis is rows, and
            treats each row separately.
        rows: arrays of the host, or traced ones, in any nesting, whose last axis is rows.
        params: the parameters that the function uses.
        cost: factor evaluations, or table entries, of one row.

    Returns:
        The results of the function on the host; traced arrays if anything is traced.
    """
    count = jax.tree.leaves(rows)[0].shape[-1]
    # If JAX traces the caller, nothing on the device has a value.
    if is_traced([params, rows, on_device(0)]):
        return _traced(function, jax.tree.map(lambda a: a if is_traced(a) else on_device(a), rows), count, _most(cost))
    size, parts = size_of(count, cost), []
    for start in range(0, max(count, 1), size):
        piece = jax.tree.map(lambda a, start=start: on_device(_piece(a, start, size)), rows)
        parts.append(jax.tree.map(np.asarray, function(piece)))
    return jax.tree.map(lambda *a: np.concatenate(a, axis=-1)[..., :count], *parts)


def _traced(function: Callable[[PyTree], PyTree], rows: PyTree, count: int, most: int) -> PyTree:
    """Apply a function of rows under tracing: at once, or by a loop over pieces."""
    if count <= most:
        return function(rows)
    found = jax.lax.map(function, jax.tree.map(Chunks(most).split_any, rows))
    return jax.tree.map(lambda a: jnp.moveaxis(a, 0, -2).reshape(*a.shape[1:-1], -1)[..., :count], found)


def placed(count: int, parts: Sequence[tuple[Array, AnyArray]], lead: tuple[int, ...] = ()) -> AnyArray:
    """Return the answers for subsets of rows, (*lead, rows), at their places among `count` rows.

    Rows without an answer are 0.
    """
    if is_traced([values for _, values in parts]):
        found = jnp.zeros((*lead, count), float_type())
        for rows, values in parts:
            found = found.at[..., rows].set(values)
        return found
    found = np.zeros((*lead, count), float_type())
    for rows, values in parts:
        found[..., rows] = np.asarray(values)
    return found


def answer(found: Any, shape: tuple[int, ...] | None = None) -> jax.Array:
    """Return an answer for the user on the device, in another shape if given.

    Traced answers pass.
    """
    if is_traced(found):
        return found if shape is None else found.reshape(shape)
    return on_device(found if shape is None else np.asarray(found).reshape(shape))


def size_of(rows: int, cost: float) -> int:
    """Return the number of rows of one call.

    It is one of few sizes, or a smaller power of two if a row is costly.
    """
    size = next((s for s in CALL_SIZES if s >= rows), CALL_SIZES[-1])
    size = LARGE_CALL if rows > LARGE_CALL else size
    return min(size, _most(cost))


def _most(cost: float) -> int:
    most = max(1, int(MOST_EVALUATED // max(1.0, cost)))
    return 1 << (most.bit_length() - 1)


def _piece(rows: Array, start: int, size: int) -> Array:
    piece = rows[..., start : start + size]
    if piece.shape[-1] == size:
        return piece
    if not piece.shape[-1]:  # no rows
        return np.zeros((*piece.shape[:-1], size), piece.dtype)
    return np.pad(piece, [(0, 0)] * (piece.ndim - 1) + [(0, size - piece.shape[-1])], mode="edge")


def log_potentials(graph: Graph, params: Mapping[str, jax.Array], codes: Array) -> AnyArray:
    """Return the unnormalised log p of whole configurations, (cells, rows).

    The result is on the host unless `params` are traced.
    """
    cost = float(sum(g.n * (1 + g.cells.shape[1]) for g in graph.groups))
    return over_rows(lambda c: compiled.log_potential(graph, params, c), codes, params, cost)


@dataclass(frozen=True, eq=False)
class Distinct:
    """Rows of which no two are equal.

    Attributes:
        codes: shape (cells, rows).
        weights: for each row the sum of the weights of the rows that it stands for.
        repeated: shape (2, rows): the number of these rows with a weight above 0, and the sum of
            their squared weights.
    """

    codes: Array
    weights: Array
    repeated: Array


def distinct_rows(codes: Array, weights: Array) -> Distinct | None:
    """Return the distinct rows in order of first appearance; None if most rows differ."""
    keys = _keys(codes)
    ordered, first, of = np.unique(keys, return_index=True, return_inverse=True)
    if len(ordered) > WORTH_MERGING_ROWS * len(keys):
        return None
    if any((row != row[first[of]]).any() for row in codes):  # two different rows have one key
        return None
    rank = np.empty(len(first), np.int64)
    order = np.argsort(first)
    rank[order] = np.arange(len(first))
    of = rank[of]
    some = (np.bincount(of, w, len(first)) for w in (weights, (weights > 0).astype(float), weights**2))
    total, count, squares = some
    return Distinct(codes[:, first[order]], total, np.stack([count, squares]))


def _keys(codes: Array) -> Array:
    """Return a number for each row, identical for equal rows.

    It is the sum of products with random odd numbers, modulo 2^64.
    """
    factors = np.random.default_rng(0).integers(0, 2**63, len(codes), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = np.zeros(codes.shape[1], np.uint64)
    for row, factor in zip(codes, factors, strict=True):
        keys += row.astype(np.uint64) * factor
    return keys
