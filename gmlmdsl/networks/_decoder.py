"""Decoder blocks of T5.1.0, and positional attention, whose weights depend on no token."""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ._layers import FeedForward, Kept, KeysValues, MultiHeadAttention, RelativeBias, RMSNorm, dropout, with_cells

Weights = Float[Array, "heads n m"]
# the last is what may not be seen
Given = tuple[Float[Array, "m heads size"], Float[Array, "m heads size"], Float[Array, "1 1 m"]]


class PositionalAttention(eqx.Module):
    """Queries and keys are normed rows of a table of positions, values the stream as it is.

    Reference: Gu et al. 2018, Section 3.2 (positional attention); Li et al. 2024, Section 3.2.
    """

    norm: RMSNorm
    attention: MultiHeadAttention

    def __init__(self, width: int, heads: int, *, key: PRNGKeyArray):
        self.norm, self.attention = RMSNorm(width), MultiHeadAttention(width, heads, key=key)

    def folded(self, positions: Float[Array, "n width"], bias: Float[Array, "heads n n"]) -> Float[Array, "heads n n"]:
        """The attention weights: the same in every pass over rows of one length."""
        y = self.norm(positions)
        return self.attention.weights(y, self.attention.keys(y), bias).astype(y.dtype)

    def __call__(self, weights: Float[Array, "heads n n"], x: Float[Array, "n width"]) -> Float[Array, "n width"]:
        return self.attention.mixed(weights, self.attention.values(x))


class DecoderBlock(eqx.Module):
    """Self-attention, positional attention where there is one, cross-attention, feed-forward; each added to the stream."""

    self_norm: RMSNorm
    self_attention: MultiHeadAttention
    positional: PositionalAttention | None
    cross_norm: RMSNorm
    cross_attention: MultiHeadAttention
    ffn_norm: RMSNorm
    ffn: FeedForward
    dropout: float = eqx.field(static=True)

    def __init__(self, width: int, heads: int, ffn: int, rate: float, positional: bool, *, key: PRNGKeyArray):
        s, p, c, f = jax.random.split(key, 4)
        self.self_norm, self.cross_norm, self.ffn_norm = RMSNorm(width), RMSNorm(width), RMSNorm(width)
        self.self_attention = MultiHeadAttention(width, heads, key=s)
        self.positional = PositionalAttention(width, heads, key=p) if positional else None
        self.cross_attention = MultiHeadAttention(width, heads, key=c)
        self.ffn = FeedForward(width, ffn, key=f)
        self.dropout = rate

    def __call__(
        self,
        x: Float[Array, "n width"],
        bias: Float[Array, "heads n n"],
        positional: Float[Array, "heads n n"] | None,
        given: Given,
        kept: tuple[Kept, Kept, Kept],
    ) -> tuple[Float[Array, "n width"], Weights, Weights]:
        """The stream behind the block, and the weights of self- and cross-attention.

        Args:
            x: the stream.
            bias: of self-attention, with what may not be seen.
            positional: the folded weights of positional attention.
            given: keys, values and bias of cross-attention.
            kept: by dropout of self-attention, cross-attention and feed-forward. Positional
                attention takes none.
        """
        y = self.self_norm(x)
        here = self.self_attention.weights(y, self.self_attention.keys(y), bias)
        x, there = self._onward(x, self.self_attention.mixed(here, self.self_attention.values(y)), positional, given, kept)
        return x, here, there

    def advance(
        self, x: Float[Array, "m width"], t: Int[Array, ""], seen: KeysValues, bias: Float[Array, "heads m n"], given: Given
    ) -> tuple[Float[Array, "m width"], KeysValues]:
        """The stream of cells t .. t + m - 1 behind the block, and the keys and values `seen` by self-attention with theirs."""
        y = self.self_norm(x)
        seen = with_cells(self.self_attention, seen, y, t)
        return self._onward(x, self.self_attention.taken(y, seen, bias), None, given, (None, None, None))[0], seen

    def _onward(
        self,
        x: Float[Array, "n width"],
        taken: Float[Array, "n width"],
        positional: Float[Array, "heads n n"] | None,
        given: Given,
        kept: tuple[Kept, Kept, Kept],
    ) -> tuple[Float[Array, "n width"], Weights]:
        """The block, from the stream and what self-attention takes from it; with the weights of cross-attention."""
        s, c, f = kept
        keys, values, unseen = given
        x = x + dropout(taken, self.dropout, s)
        if self.positional is not None:
            assert positional is not None
            x = x + self.positional(positional, x)
        there = self.cross_attention.weights(self.cross_norm(x), keys, unseen)
        x = x + dropout(self.cross_attention.mixed(there, values), self.dropout, c)
        return x + dropout(self.ffn(self.ffn_norm(x)), self.dropout, f), there


class Decoder(eqx.Module):
    """A stack of blocks with one table of relative position biases, and a norm behind it."""

    layers: tuple[DecoderBlock, ...]
    bias: RelativeBias
    norm: RMSNorm
    dropout: float = eqx.field(static=True)

    def __init__(
        self, layers: int, width: int, heads: int, ffn: int, rate: float, positional: bool, causal: bool = False, *, key: PRNGKeyArray
    ):
        b, *keys = jax.random.split(key, layers + 1)
        self.layers = tuple(DecoderBlock(width, heads, ffn, rate, positional, key=k) for k in keys)
        self.bias = RelativeBias(width, heads, causal, key=b)
        self.norm = RMSNorm(width)
        self.dropout = rate
