"""Second-order sums of losses from tables over rows, from which a minimiser's metric is built."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._block_tables import Chunks, TabledBlocks, Weights, by_chunks
from ._energy import Codes


class TableCurvature(NamedTuple):
    """Sums over rows of second-order terms.

    w is the weight of a row times a block's share, p the probabilities of a block's values, and z
    the indicators.

    Attributes:
        spread: the sum of w (1{v = u} p_v - p_v p_u), shape (blocks, values, values).
        beside: for each kind of contexts the sum of w p_v (1 - p_v) z_k, for all k but the first,
            shape (blocks, values, columns, width but one).
        seen: for each kind of contexts the sum of row weight times z, shape (contexts, width but
            one).
    """

    spread: Array
    beside: tuple[Array, ...]
    seen: tuple[Array, ...]


def table_curvature(
    weights: Weights,
    tabled: TabledBlocks,
    codes: Codes,
    shares: Float[Array, " blocks"],
    row_weights: Float[Array, " rows"],
    chunks: Chunks,
) -> TableCurvature:
    """Return the sums of `TableCurvature` over rows, in the float type of `weights`.

    Args:
        weights: the constants and matrices of the blocks.
        tabled: the blocks.
        codes: the rows, shape (cells, rows).
        shares: the share of each block.
        row_weights: the weight of each row.
        chunks: the rows that are evaluated at a time.
    """
    dtype = weights.constant.dtype

    def some(codes: Array, row_weights: Array) -> TableCurvature:
        seen = tabled.indicators(codes, dtype)
        scores = tabled.scores(weights, seen)
        each = jnp.pad(scores, ((0, 0), (1, 0), (0, 0)))  # the score of the first value
        each = jnp.exp(each - each.max(axis=1, keepdims=True))
        p = each / each.sum(axis=1, keepdims=True)
        p = jnp.broadcast_to(p, (*p.shape[:2], codes.shape[1]))
        weighted = p * tabled.counted(shares[:, None] * row_weights[None], codes).astype(dtype)[:, None]
        spread = weighted.sum(axis=2)[:, :, None] * jnp.eye(p.shape[1], dtype=dtype) - weighted @ jnp.swapaxes(p, 1, 2)
        by, beside = weighted * (1 - p), []
        for context, z, w in zip(tabled.contexts, seen, weights.matrices, strict=True):
            shape = (w.shape[0], p.shape[1], *w.shape[2:])
            beside.append(context.outer(by, z, shape))
        return TableCurvature(spread, tuple(beside), tuple((z * row_weights.astype(dtype)).sum(axis=2) for z in seen))

    return by_chunks(some, codes, row_weights, chunks)


def mean_indicators(curvature: TableCurvature, tabled: TabledBlocks, total: float) -> list[np.ndarray]:
    """Return the means of all indicators next to each block, including the first value's.

    The shape is (blocks or 1, columns, width).
    """
    out = []
    for context, seen in zip(tabled.contexts, curvature.seen, strict=True):
        mean = np.asarray(seen, float) / total
        whole = np.concatenate([1 - mean.sum(axis=1, keepdims=True), mean], axis=1)
        out.append(whole[None] if context.of is None else whole[np.asarray(context.of)])
    return out
