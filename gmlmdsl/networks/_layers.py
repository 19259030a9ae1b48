"""The layers of T5.1.0, without bias vectors.

They are RMS norms, multi-head attention with relative position biases, and feed-forward layers with
ReLU. Initialisers are those of T5 (Raffel et al. 2020; the published code): normal, with standard
deviation 1 for embeddings, 1 / sqrt(inputs) for matrices, and 1 / sqrt(inputs * width of a head)
for queries. The latter replaces a scale of the attention logits.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .limits import EPSILON, MOST_DISTANCE, N_BUCKETS

# It is added to an attention logit of a hidden place. Its exponential is 0 beside any other, and
# gradients stay finite even if all places are hidden.
NEVER = -1e10


def normal(key: PRNGKeyArray, shape: tuple[int, ...], sd: float) -> Float[Array, "*shape"]:
    """Return random weights of the working type.

    They are drawn in 32 bits, so a seed gives the same weights in both types.
    """
    return sd * jax.random.normal(key, shape, jnp.float32).astype(jax.dtypes.canonicalize_dtype(float))


def wide(dtype: jnp.dtype) -> jnp.dtype:
    """Return the type of sums: float32, or float64 for float64 weights."""
    return dtype if jnp.finfo(dtype).bits > 32 else jnp.dtype(jnp.float32)


# A dropout keeps these features, at all positions alike; None means all features.
Kept = Bool[Array, "1 width"] | None


def features_kept(key: PRNGKeyArray | None, rate: float, n: int, width: int) -> tuple[Kept, ...]:
    """Return the features that each of n dropouts keeps: a share `1 - rate`, or all without a key.

    All are drawn at once, because each draw is a loop to compile. They are drawn in 32 bits
    whatever the working type, so a seed keeps the same features in both types.

    Args:
        key: the key, or None.
        rate: the rate of dropout.
        n: the number of dropouts.
        width: the number of features.
    """
    if key is None or rate == 0:
        return (None,) * n
    return tuple(jax.random.bernoulli(key, jnp.float32(1 - rate), (n, 1, width)))


def dropout(x: Float[Array, "n width"], rate: float, kept: Kept) -> Float[Array, "n width"]:
    """Return the kept features divided by `1 - rate`, and 0 for the others."""
    return x if kept is None else jnp.where(kept, x / (1 - rate), 0)


def embedded(table: Float[Array, "values width"], codes: Int[Array, " n"], shown: Bool[Array, " n"]) -> Float[Array, "n width"]:
    """Return rows of a table, or zero vectors for hidden cells and codes outside the domain."""
    q = table.shape[0]
    inside = shown & (codes >= 0) & (codes < q)
    return jnp.where(inside[:, None], table[jnp.clip(codes, 0, q - 1)], 0)


class RMSNorm(eqx.Module):
    """The norm x / sqrt(mean of x^2 + epsilon), times a learned scale.

    Reference: Zhang and Sennrich 2019.
    """

    scale: Float[Array, " width"]

    def __init__(self, width: int):
        self.scale = jnp.ones(width)

    def __call__(self, x: Float[Array, "n width"]) -> Float[Array, "n width"]:
        y = x.astype(wide(x.dtype))
        y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + EPSILON)
        return (y * self.scale.astype(y.dtype)[None, :]).astype(x.dtype)


def _distance_buckets(n: int) -> np.ndarray:
    """Return the bucket of each distance 0..128 to one side.

    The first half of the buckets has one distance each. The widths of the other buckets grow
    geometrically.
    """
    exact = n // 2
    distance = np.arange(1, MOST_DISTANCE + 1)
    far = exact + np.floor(np.log2(distance / exact) / math.log2(MOST_DISTANCE / exact) * exact)
    return np.append(0, np.where(distance < exact, distance, np.minimum(far, n - 1))).astype(np.int32)


def relative_buckets(distance: Int[Array, "*shape"], causal: bool = False) -> Int[Array, "*shape"]:
    """Return the bucket of key position minus query position.

    Keys before the query have the buckets 0..15, keys after it 16..31. With `causal`, keys after
    the query are hidden, and keys before it have the buckets 0..31.
    """
    side = jnp.asarray(_distance_buckets(N_BUCKETS if causal else N_BUCKETS // 2))[jnp.minimum(jnp.abs(distance), MOST_DISTANCE)]
    return jnp.where(distance > 0, 0 if causal else side + N_BUCKETS // 2, side)


class RelativeBias(eqx.Module):
    """A bias of the attention logits for each head and bucket of distances.

    All layers of a stack share it.

    Reference: Raffel et al. 2020, Section 2.1.
    """

    table: Float[Array, "buckets heads"]
    causal: bool = eqx.field(static=True)

    def __init__(self, width: int, heads: int, causal: bool = False, *, key: PRNGKeyArray):
        self.table, self.causal = normal(key, (N_BUCKETS, heads), 1 / math.sqrt(width)), causal

    def __call__(self, positions: Int[Array, " n"]) -> Float[Array, "heads n n"]:
        """Return the bias from each position (second axis) to each position (third axis)."""
        buckets = relative_buckets(positions[None, :] - positions[:, None], self.causal)
        return jnp.moveaxis(self.table.astype(wide(self.table.dtype))[buckets], -1, 0)


# These are keys and values in the layout of products with queries and weights, so that those of
# given arrays and of earlier cells are transposed once, and not at every pass or cell.
KeysValues = tuple[Float[Array, "heads size n"], Float[Array, "heads n size"]]


class MultiHeadAttention(eqx.Module):
    """Attention with separately computed queries, keys and values, so that results are reused.

    Attributes:
        heads: the number of heads; each is `width // heads` wide.
    """

    query: Float[Array, "width inner"]
    key: Float[Array, "width inner"]
    value: Float[Array, "width inner"]
    output: Float[Array, "inner width"]
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, *, key: PRNGKeyArray):
        q, k, v, o = jax.random.split(key, 4)
        sd = 1 / math.sqrt(width)
        self.query = normal(q, (width, width), sd / math.sqrt(width // heads))
        self.key = normal(k, (width, width), sd)
        self.value = normal(v, (width, width), sd)
        self.output = normal(o, (width, width), sd)
        self.heads = heads

    def _by_head(self, x: Float[Array, "n inner"]) -> Float[Array, "n heads size"]:
        return x.reshape(x.shape[0], self.heads, -1)

    def keys(self, x: Float[Array, "m width"]) -> Float[Array, "heads size m"]:
        return jnp.moveaxis(self._by_head(x @ self.key), 0, 2)

    def values(self, x: Float[Array, "m width"]) -> Float[Array, "heads m size"]:
        return jnp.moveaxis(self._by_head(x @ self.value), 0, 1)

    def weights(
        self, x: Float[Array, "n width"], keys: Float[Array, "heads size m"], bias: Float[Array, "#heads #n m"]
    ) -> Float[Array, "heads n m"]:
        """Return softmax over the keys of query . key + bias, in float32 at least."""
        queries = jnp.moveaxis(self._by_head(x @ self.query), 0, 1)
        logits = jnp.einsum("hqd,hdk->hqk", queries, keys, preferred_element_type=wide(x.dtype))
        return jax.nn.softmax(logits + bias, axis=-1)

    def mixed(self, weights: Float[Array, "heads n m"], values: Float[Array, "heads m size"]) -> Float[Array, "n width"]:
        """Return the weighted values of all heads, times the output matrix."""
        found = jnp.moveaxis(jnp.einsum("hqk,hkd->hqd", weights.astype(values.dtype), values), 1, 0)
        return found.reshape(found.shape[0], -1) @ self.output


def with_cells(attention: MultiHeadAttention, seen: KeysValues, x: Float[Array, "m width"], t: Int[Array, ""]) -> KeysValues:
    """Return cached keys and values, with those of cells t .. t + m - 1 overwritten.

    Args:
        attention: the attention layer.
        seen: the cached keys and values.
        x: the input at these cells.
        t: the first of the cells.
    """
    keys, values = seen
    return (
        jax.lax.dynamic_update_slice_in_dim(keys, attention.keys(x), t, 2),
        jax.lax.dynamic_update_slice_in_dim(values, attention.values(x), t, 1),
    )


class FeedForward(eqx.Module):
    """Two matrices with ReLU between them."""

    inner: Float[Array, "width ffn"]
    outer: Float[Array, "ffn width"]

    def __init__(self, width: int, ffn: int, *, key: PRNGKeyArray):
        i, o = jax.random.split(key)
        self.inner = normal(i, (width, ffn), 1 / math.sqrt(width))
        self.outer = normal(o, (ffn, width), 1 / math.sqrt(ffn))

    def __call__(self, x: Float[Array, "n width"]) -> Float[Array, "n width"]:
        return jax.nn.relu(x @ self.inner) @ self.outer


def unseen(shown: Bool[Array, " m"], dtype: jnp.dtype) -> Float[Array, "1 1 m"]:
    """Return the bias that hides padding from attention."""
    return jnp.where(shown, 0, jnp.asarray(NEVER, wide(dtype)))[None, None, :]


def tied_logits(x: Float[Array, "n width"], table: Any) -> Float[Array, "n values"]:
    """Return products with the embeddings, divided by sqrt(width), in float32 at least.

    Args:
        x: the states.
        table: the embeddings, shape (values, width); a table that is no array has its own product.
    """
    scaled = x * (1 / math.sqrt(table.shape[1]))  # This scales n numbers instead of n * values.
    if not eqx.is_array(table):
        return scaled @ table
    # With the table on the left this is a third faster on a CPU than with its transpose on the
    # right.
    return jnp.einsum("vw,nw->vn", table, scaled, preferred_element_type=wide(table.dtype)).T
