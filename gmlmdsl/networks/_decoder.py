"""Decoder blocks of T5.1.0, and positional attention, whose weights depend on no token."""

from __future__ import annotations

import equinox as eqx
import jax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ._layers import FeedForward, Kept, KeysValues, MultiHeadAttention, RelativeBias, RMSNorm, dropout, with_cells

Weights = Float[Array, "heads n m"]
# These are keys, values and bias of cross-attention; the bias hides padding.
Given = tuple[Float[Array, "heads size m"], Float[Array, "heads m size"], Float[Array, "1 1 m"]]


class PositionalAttention(eqx.Module):
    """Attention whose weights depend only on positions.

    Queries and keys are normalised rows of a table of positions; values are the residual stream
    without a norm.

    Reference: Gu et al. 2018, Section 3.2 (positional attention); Li et al. 2024, Section 3.2.
    """

    norm: RMSNorm
    attention: MultiHeadAttention

    def __init__(self, width: int, heads: int, *, key: PRNGKeyArray):
        self.norm, self.attention = RMSNorm(width), MultiHeadAttention(width, heads, key=key)

    def folded(self, positions: Float[Array, "n width"], bias: Float[Array, "heads n n"]) -> Float[Array, "heads n n"]:
        """Return the attention weights, which are equal in all passes over rows of one length."""
        y = self.norm(positions)
        return self.attention.weights(y, self.attention.keys(y), bias).astype(y.dtype)

    def __call__(self, weights: Float[Array, "heads n n"], x: Float[Array, "n width"]) -> Float[Array, "n width"]:
        return self.attention.mixed(weights, self.attention.values(x))


class DecoderBlock(eqx.Module):
    """Self-attention, optional positional attention, cross-attention and feed-forward layers.

    The output of each is added to the residual stream.
    """

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
        """Return the stream after the block, and the weights of self- and cross-attention.

        Args:
            x: the stream.
            bias: the bias of self-attention, which includes its mask.
            positional: the folded weights of positional attention.
            given: the keys, values and bias of cross-attention.
            kept: the features that dropout keeps in self-attention, cross-attention and
                feed-forward. Positional attention has no dropout.
        """
        y = self.self_norm(x)
        here = self.self_attention.weights(y, self.self_attention.keys(y), bias)
        x, there = self._onward(x, self.self_attention.mixed(here, self.self_attention.values(y)), positional, given, kept)
        return x, here, there

    def advance(
        self, x: Float[Array, "m width"], t: Int[Array, ""], seen: KeysValues, bias: Float[Array, "heads m n"], given: Given
    ) -> tuple[Float[Array, "m width"], KeysValues]:
        """Return the stream of cells t .. t + m - 1 after the block, and updated keys and values.

        Args:
            x: the stream of these cells.
            t: the first of the cells.
            seen: the keys and values of self-attention so far.
            bias: the bias of self-attention.
            given: the keys, values and bias of cross-attention.
        """
        y = self.self_norm(x)
        seen = with_cells(self.self_attention, seen, y, t)
        here = self.self_attention.weights(y, seen[0], bias)
        return self._onward(x, self.self_attention.mixed(here, seen[1]), None, given, (None, None, None))[0], seen

    def _onward(
        self,
        x: Float[Array, "n width"],
        taken: Float[Array, "n width"],
        positional: Float[Array, "heads n n"] | None,
        given: Given,
        kept: tuple[Kept, Kept, Kept],
    ) -> tuple[Float[Array, "n width"], Weights]:
        """Run the rest of the block, from the stream and the output of self-attention.

        The weights of cross-attention are returned with the stream.
        """
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
    """A stack of blocks with one table of relative position biases, followed by a norm."""

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
