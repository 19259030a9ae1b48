"""Networks whose matrices have fewer bits: int8 or bfloat16, for decodes that take less time.

The residual stream, norms, attention weights and logits stay in float32. Only the products of
activations with matrices are computed in fewer bits. An int8 matrix has one scale for each output;
an activation has one for each row, from its largest entry, so that nothing is calibrated:

    x W  is about  s_x s_W (round(x / s_x) round(W / s_W)),  s = largest absolute value / 127

with sums in int32. Reference: Bhandare et al. 2019 (8-bit translation), Dettmers et al. 2022,
Section 2 (scales of rows and columns).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._diagnostics import fail, is_one_of
from ._causal import CausalEncoderDecoder
from ._encoder_decoder import AbstractEncoderDecoder
from ._layers import FeedForward, MultiHeadAttention, tied_logits
from ._network import AbstractNetwork
from ._transformer import PositionalAttention
from .limits import LEAST_REDUCED, LEAST_SCALE, MOST_SHARE, TRIED_COLUMNS, TRIED_ROWS, TRIED_RUNS

FLOAT32, AUTO = "float32", "auto"
PRECISIONS = (FLOAT32, "bfloat16", "int8")
LARGEST_INT8 = 127  # the largest absolute value of an int8 entry
N = TypeVar("N", bound=AbstractNetwork)


def scaled(x: Float[Array, "*shape"], axis: int) -> tuple[Array, Float[Array, "*scales"]]:
    """Return int8 entries and their scales, x = entries * scales up to rounding.

    Args:
        x: the numbers.
        axis: the axis whose entries share a scale; the scales keep it with length 1.
    """
    scale = jnp.maximum(jnp.abs(x).max(axis=axis, keepdims=True), LEAST_SCALE) / LARGEST_INT8
    return jnp.round(x / scale).astype(jnp.int8), scale


class ReducedMatrix(eqx.Module):
    """A matrix of int8 or bfloat16, by which activations are multiplied: `x @ matrix`.

    Attributes:
        entries: the entries.
        scale: the scale of each output of an int8 matrix; None for bfloat16.
        inputs: the axis of inputs; the other one is that of outputs.
    """

    entries: Array
    scale: Float[Array, "1 outputs"] | None
    inputs: int = eqx.field(static=True)

    def __init__(self, matrix: Float[Array, "a b"], precision: str, inputs: int = 0):
        self.inputs, self.scale = inputs, None
        if precision == "int8":
            self.entries, scale = scaled(matrix, inputs)
            self.scale = scale.reshape(1, -1)
        else:
            self.entries = matrix.astype(jnp.bfloat16)

    def __rmatmul__(self, x: Float[Array, "n inputs"]) -> Float[Array, "n outputs"]:
        return _product(self.inputs)(x, self.entries, self.scale).astype(x.dtype)


def _product(inputs: int) -> Callable[..., Array]:
    """Return the product of rows with a matrix whose inputs lie along an axis.

    Rows that are mapped over are rows of one product. On a CPU, XLA takes several times as long for
    a product of one row as for two rows, so a second row is added and dropped.
    """

    @jax.custom_batching.custom_vmap
    def product(x: Array, entries: Array, scale: Array | None) -> Array:
        n = x.shape[0]
        sums = (((1,), (inputs,)), ((), ()))
        if scale is None:
            return jax.lax.dot_general(_paired(x.astype(entries.dtype)), entries, sums, preferred_element_type=jnp.float32)[:n]
        rows, own = scaled(x.astype(jnp.float32), 1)
        found = jax.lax.dot_general(_paired(rows), entries, sums, preferred_element_type=jnp.int32)[:n]
        return found.astype(jnp.float32) * own * scale.astype(jnp.float32)

    @product.def_vmap
    def of_many(size: int, mapped: Any, x: Array, entries: Array, scale: Array | None) -> tuple[Array, bool]:
        assert mapped[0]
        assert not any(jax.tree.leaves(mapped[1:]))  # a network is never mapped over
        found = product(x.reshape(size * x.shape[1], x.shape[2]), entries, scale)
        return found.reshape(size, x.shape[1], -1), True

    return product


def _paired(rows: Array) -> Array:
    return jnp.concatenate([rows, jnp.zeros_like(rows)]) if rows.shape[0] == 1 else rows


class ReducedTable(eqx.Module):
    """A tied table of embeddings: rows are looked up in full precision, and logits are reduced.

    Attributes:
        rows: the embeddings.
        matrix: the same, as the matrix of logits.
    """

    rows: Float[Array, "values width"]
    matrix: ReducedMatrix

    def __init__(self, rows: Float[Array, "values width"], precision: str):
        self.rows, self.matrix = rows, ReducedMatrix(rows, precision, 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of values and of features."""
        return self.rows.shape

    @property
    def dtype(self) -> jnp.dtype:
        """The type of the embeddings."""
        return self.rows.dtype

    def of(self, codes: Int[Array, " n"]) -> ReducedTable:
        """Return the table of some values."""
        scale = self.matrix.scale
        few = self.rows[codes], self.matrix.entries[codes], None if scale is None else scale[:, codes]
        return eqx.tree_at(lambda t: (t.rows, t.matrix.entries, t.matrix.scale), self, few, is_leaf=lambda x: x is None)

    def __getitem__(self, codes: Int[Array, " n"]) -> Float[Array, "n width"]:
        return self.rows[codes]

    def __rmatmul__(self, x: Float[Array, "n width"]) -> Float[Array, "n values"]:
        return x @ self.matrix


def reduced(network: N, precision: str) -> N:
    """Return the network with matrices of a precision: "float32", "bfloat16" or "int8".

    The matrices of self- and cross-attention, of feed-forward layers and of logits are reduced. With
    "int8", those of layers with fewer than 32,768 entries are not, because they would be multiplied
    more slowly.
    Lookups of embeddings, the weights of positional attention and the length head are not.

    Args:
        network: the network; with "float32" it is returned as it is.
        precision: the precision.

    Raises:
        GmlmError: E507 for another word, or for a network that is not an `encoder_decoder`.
    """
    verify_precision(precision, network)
    if precision == FLOAT32:
        return network

    def of(part: Any) -> Any:
        names = {MultiHeadAttention: ("query", "key", "value", "output"), FeedForward: ("inner", "outer")}.get(type(part), ())
        if isinstance(part, PositionalAttention):  # its weights are a function of length alone
            return eqx.tree_at(lambda p: p.attention, part, _with(part.attention, ("value", "output"), precision))
        return _with(part, names, precision)

    layers = jax.tree.map(of, network, is_leaf=lambda part: isinstance(part, MultiHeadAttention | FeedForward | PositionalAttention))
    return eqx.tree_at(lambda n: n.embeddings[0], layers, ReducedTable(network.embeddings[0], precision))  # pyright: ignore[reportAttributeAccessIssue]


def _with(part: Any, names: tuple[str, ...], precision: str) -> Any:
    every = lambda p: [getattr(p, name) for name in names]  # noqa: E731
    few = LEAST_REDUCED if precision == "int8" else 0
    return eqx.tree_at(every, part, [m if m.size < few else ReducedMatrix(m, precision) for m in every(part)]) if names else part


def verify_precision(precision: object, network: AbstractNetwork) -> None:
    """Raise E507 unless a precision is known and, if it is not float32, the network can have it.

    Raises:
        GmlmError: E507.
    """
    if not is_one_of(precision, (*PRECISIONS, AUTO)):
        raise fail("E507", f"precision must be one of {', '.join(PRECISIONS)} or {AUTO}, got {precision!r:.60}")
    if precision not in (FLOAT32, AUTO) and not isinstance(network, AbstractEncoderDecoder):
        message = f"precision {precision!r} reduces the matrices of an `encoder_decoder`, and this network is `{type(network).__name__}`"
        raise fail("E507", message, help="translate in `float32`")


def fastest(network: AbstractNetwork) -> str:
    """Return the precision in which this processor multiplies a network's matrices fastest.

    A feed-forward layer and logits are timed on random numbers in each precision. The numbers have
    one row for a network that decodes cell by cell, and 32 rows for other networks. A precision
    other than float32 must be a tenth faster. A network that has only one precision gives
    "float32".
    """
    if not isinstance(network, AbstractEncoderDecoder):
        return FLOAT32
    ffn, columns = network.decoder.layers[0].ffn, min(network.n_values, TRIED_COLUMNS)
    width = ffn.inner.shape[0]
    table = jnp.asarray(np.random.default_rng(0).normal(size=(columns, width)), ffn.inner.dtype)
    x = jnp.resize(table, (1 if isinstance(network, CausalEncoderDecoder) else TRIED_ROWS, width))
    layer, logits = jax.jit(lambda part, x: part(x)), jax.jit(lambda part, x: tied_logits(x, part))
    every = {FLOAT32: (ffn, table)} | {p: (_with(ffn, ("inner", "outer"), p), ReducedTable(table, p)) for p in PRECISIONS[1:]}
    # The attention of a block has about as many products as its feed-forward layer.
    shares = 2 * len(network.decoder.layers), network.n_values / columns
    times: dict[str, list[tuple[float, ...]]] = {p: [] for p in PRECISIONS}
    for _ in range(TRIED_RUNS + 1):
        for p, parts in every.items():
            times[p].append(tuple(_seconds(f, part, x) for f, part in zip((layer, logits), parts, strict=True)))
    # The first run compiles.
    total = {p: float(np.min(times[p][1:], axis=0) @ shares) for p in PRECISIONS}
    best = min(PRECISIONS, key=lambda p: total[p])
    return best if total[best] < MOST_SHARE * total[FLOAT32] else FLOAT32


def _seconds(call: Callable[..., Any], *arguments: Any) -> float:
    started = time.perf_counter()
    jax.block_until_ready(call(*arguments))
    return time.perf_counter() - started
