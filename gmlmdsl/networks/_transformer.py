"""Encoder and decoder blocks of T5.1.0, and the `transformer`: a stack of encoder blocks.

The weights of positional attention depend on no token.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ._layers import (
    FeedForward,
    Kept,
    KeysValues,
    MultiHeadAttention,
    RelativeBias,
    RMSNorm,
    dropout,
    embedded,
    features_kept,
    normal,
    tied_logits,
    unseen,
    with_cells,
)
from ._network import AbstractLengthHead, AbstractNetwork, Attention

Weights = Float[Array, "heads n m"]
# These are keys, values and bias of cross-attention; the bias hides padding.
Given = tuple[Float[Array, "heads size m"], Float[Array, "heads m size"], Float[Array, "1 1 m"]]


class EncoderBlock(eqx.Module):
    """Self-attention and a feed-forward layer.

    Each reads the normalised stream, and its output is added to the stream.
    """

    attention_norm: RMSNorm
    attention: MultiHeadAttention
    ffn_norm: RMSNorm
    ffn: FeedForward
    dropout: float = eqx.field(static=True)

    def __init__(self, width: int, heads: int, ffn: int, rate: float, *, key: PRNGKeyArray):
        a, f = jax.random.split(key)
        self.attention_norm, self.ffn_norm = RMSNorm(width), RMSNorm(width)
        self.attention = MultiHeadAttention(width, heads, key=a)
        self.ffn = FeedForward(width, ffn, key=f)
        self.dropout = rate

    def __call__(
        self, x: Float[Array, "n width"], bias: Float[Array, "heads n n"], kept: tuple[Kept, Kept]
    ) -> tuple[Float[Array, "n width"], Float[Array, "heads n n"]]:
        """Return the stream after the block, and the attention weights.

        `kept` are the features that dropout keeps in attention and in the feed-forward layer.
        """
        y = self.attention_norm(x)
        weights = self.attention.weights(y, self.attention.keys(y), bias)
        return self._onward(x, self.attention.mixed(weights, self.attention.values(y)), kept), weights

    def advance(
        self, x: Float[Array, "m width"], t: Int[Array, ""], seen: KeysValues, bias: Float[Array, "heads m n"]
    ) -> tuple[Float[Array, "m width"], KeysValues]:
        """Return the stream of cells t .. t + m - 1 after the block, and updated keys and values.

        Args:
            x: the stream of these cells.
            t: the first of the cells.
            seen: the keys and values so far.
            bias: the bias of attention.
        """
        y = self.attention_norm(x)
        seen = with_cells(self.attention, seen, y, t)
        weights = self.attention.weights(y, seen[0], bias)
        return self._onward(x, self.attention.mixed(weights, seen[1]), (None, None)), seen

    def _onward(self, x: Float[Array, "n width"], taken: Float[Array, "n width"], kept: tuple[Kept, Kept]) -> Float[Array, "n width"]:
        """Run the rest of the block, from the stream and the output of attention."""
        a, f = kept
        x = x + dropout(taken, self.dropout, a)
        return x + dropout(self.ffn(self.ffn_norm(x)), self.dropout, f)


class Encoder(eqx.Module):
    """A stack of blocks with one table of relative position biases, followed by a norm."""

    layers: tuple[EncoderBlock, ...]
    bias: RelativeBias
    norm: RMSNorm
    dropout: float = eqx.field(static=True)

    def __init__(self, layers: int, width: int, heads: int, ffn: int, rate: float, causal: bool = False, *, key: PRNGKeyArray):
        b, *keys = jax.random.split(key, layers + 1)
        self.layers = tuple(EncoderBlock(width, heads, ffn, rate, key=k) for k in keys)
        self.bias = RelativeBias(width, heads, causal, key=b)
        self.norm = RMSNorm(width)
        self.dropout = rate

    def __call__(
        self, x: Float[Array, "n width"], bias: Float[Array, "heads n n"], key: PRNGKeyArray | None
    ) -> tuple[Float[Array, "n width"], list[Float[Array, "heads n n"]]]:
        """Return the normalised states, and the attention weights of each layer.

        `bias` includes the mask.
        """
        first, last, *kept = features_kept(key, self.dropout, 2 * len(self.layers) + 2, x.shape[1])
        x, found = dropout(x, self.dropout, first), []
        for layer, a, f in zip(self.layers, kept[::2], kept[1::2], strict=True):
            x, weights = layer(x, bias, (a, f))
            found.append(weights)
        return dropout(self.norm(x), self.dropout, last), found


def with_positions(
    x: Float[Array, "n width"],
    seen: Int[Array, " n"],
    shown: Bool[Array, " n"],
    n_values: int,
    positions: Float[Array, "positions width"],
    added: bool,
) -> Float[Array, "n width"]:
    """Return embedded cells, in which hidden cells are their rows of the table of positions.

    Args:
        x: the embedded cells.
        seen: the codes of the cells.
        shown: a mask of the cells that are not padding.
        n_values: the number of values; other codes are hidden cells.
        positions: the table of positions.
        added: whether the rows are added to the embeddings of the other cells.
    """
    hidden, own = shown & ((seen < 0) | (seen >= n_values)), positions[: seen.shape[0]]
    return jnp.where(hidden[:, None], own, x + own if added else x)


class Transformer(AbstractNetwork):
    """An encoder over the cells: every cell attends to every other one.

    A hidden cell enters as its row of a table of positions. With one vector for all hidden cells
    and relative positions alone, the cells of a fully hidden row could not be distinguished.

    Reference: Raffel et al. 2020, Section 2.1, its encoder; the masked model of Devlin et al. 2019.

    Attributes:
        position_embeddings: whether the rows of the table are added to the other cells (Gehring et
            al. 2017, Section 3.1).
    """

    embedding: Float[Array, "values width"]
    positions: Float[Array, "cells width"]
    encoder: Encoder
    n_values: int = eqx.field(static=True)
    length_head: AbstractLengthHead | None
    length_weight: float = eqx.field(static=True)
    position_embeddings: bool = eqx.field(static=True)

    def __init__(
        self, n_cells: int, n_values: int, layers: int, width: int, heads: int, ffn: int, rate: float, *, position_embeddings: bool,
        key: PRNGKeyArray,
    ):  # fmt: skip
        e, b, p = jax.random.split(key, 3)
        self.embedding, self.positions = normal(e, (n_values, width), 1.0), normal(p, (n_cells, width), 1.0)
        self.encoder = Encoder(layers, width, heads, ffn, rate, key=b)
        self.n_values, self.length_head, self.length_weight, self.position_embeddings = n_values, None, 0.0, position_embeddings

    def encode(self, given: tuple[Array, ...], lengths: tuple[Int[Array, ""], ...], *, key: PRNGKeyArray | None = None) -> None:
        """Return None, because the network takes no given arrays."""

    def prepare(self, encoded: None, length: Int[Array, ""], n: int) -> Float[Array, "heads n n"]:
        """Return the relative position biases and the bias that hides padding."""
        positions = jnp.arange(n, dtype=length.dtype)
        return self.encoder.bias(positions) + unseen(positions < length, self.embedding.dtype)

    def _states(
        self, bias: Float[Array, "heads n n"], seen: Int[Array, " n"], length: Int[Array, ""], key: PRNGKeyArray | None
    ) -> tuple[Float[Array, "n width"], list[Float[Array, "heads n n"]]]:
        shown = jnp.arange(seen.shape[0], dtype=length.dtype) < length
        x = with_positions(embedded(self.embedding, seen, shown), seen, shown, self.n_values, self.positions, self.position_embeddings)
        return self.encoder(x, bias, key)

    def logits(
        self,
        encoded: None,
        prepared: Float[Array, "heads n n"],
        seen: Int[Array, " n"],
        length: Int[Array, ""],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "n values"]:
        """Return the products of the states with the embedding, which is tied."""
        return tied_logits(self._states(prepared, seen, length, key)[0], self.embedding)

    def attention(self, encoded: None, prepared: Float[Array, "heads n n"], seen: Int[Array, " n"], length: Int[Array, ""]) -> Attention:
        """Return the self-attention of every layer."""
        return Attention(jnp.stack(self._states(prepared, seen, length, None)[1]))


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
