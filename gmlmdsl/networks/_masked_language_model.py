"""The architectures of published masked language models: BERT, RoBERTa, ALBERT and ESM-2, as one network.

References: Devlin et al. 2019 (BERT); Liu et al. 2019 (RoBERTa); Lan et al. 2020 (ALBERT, whose
layers share weights); Lin et al. 2023 (ESM-2, with norms before the sublayers and rotated queries
and keys, Su et al. 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ._layers import NEVER, wide
from ._network import AbstractLengthHead, AbstractNetwork, Attention

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_new": lambda x: jax.nn.gelu(x, approximate=True),
    "gelu_pytorch_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
}
# the share of cells that was hidden while ESM was trained, of those that were selected (Lin et al. 2023)
ESM_HIDDEN = 0.15 * 0.8


@dataclass(frozen=True)
class Architecture:
    """What a configuration says of a masked language model.

    Attributes:
        vocabulary: the number of tokens.
        width, heads, ffn: of the layers.
        embedding: the width of the embeddings, which ALBERT maps to `width`.
        order: of each layer the place of its weights among the distinct layers.
        positions: rows of the table of positions; 0 for rotated queries and keys.
        offset: the row of the table that the first token takes.
        norm_first: whether norms stand before the sublayers and not after them.
        norm_embeddings: whether the sum of the embeddings is normed.
        norm_last: whether the output of the last layer is normed.
        projected: whether embeddings are mapped to `width`.
        types: whether the embedding of the first token type is added.
        token_dropout: whether embeddings of hidden tokens are 0 and the others are scaled (ESM-2).
        tied: whether the table of embeddings is the last matrix of the head too.
        activation, head_activation: keys of `ACTIVATIONS`, for the layers and for the head.
        epsilon: of the norms.
    """

    vocabulary: int
    width: int
    heads: int
    ffn: int
    embedding: int
    order: tuple[int, ...]
    positions: int
    offset: int
    norm_first: bool
    norm_embeddings: bool
    norm_last: bool
    projected: bool
    types: bool
    token_dropout: bool
    tied: bool
    activation: str
    head_activation: str
    epsilon: float


class Linear(eqx.Module):
    """x W + b."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, inputs: int, outputs: int):
        self.weight, self.bias = jnp.zeros((inputs, outputs)), jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "n inputs"]) -> Float[Array, "n outputs"]:
        return x @ self.weight + self.bias


class LayerNorm(eqx.Module):
    """(x - mean of x) / sqrt(variance of x + epsilon), times a scale, plus a bias (Ba et al. 2016)."""

    scale: Float[Array, " width"]
    bias: Float[Array, " width"]
    epsilon: float = eqx.field(static=True)

    def __init__(self, width: int, epsilon: float):
        self.scale, self.bias, self.epsilon = jnp.ones(width), jnp.zeros(width), epsilon

    def __call__(self, x: Float[Array, "n width"]) -> Float[Array, "n width"]:
        y = x.astype(wide(x.dtype))
        y = y - y.mean(axis=-1, keepdims=True)
        y = y * jax.lax.rsqrt((y * y).mean(axis=-1, keepdims=True) + self.epsilon)
        return (y * self.scale.astype(y.dtype) + self.bias.astype(y.dtype)).astype(x.dtype)


class MaskedLayer(eqx.Module):
    """Self-attention and feed-forward, each added to its input, with norms before or after."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    attention_norm: LayerNorm
    inner: Linear
    outer: Linear
    ffn_norm: LayerNorm
    heads: int = eqx.field(static=True)
    norm_first: bool = eqx.field(static=True)
    rotary: bool = eqx.field(static=True)
    activation: str = eqx.field(static=True)

    def __init__(self, a: Architecture):
        self.query, self.key, self.value, self.output = (Linear(a.width, a.width) for _ in range(4))
        self.inner, self.outer = Linear(a.width, a.ffn), Linear(a.ffn, a.width)
        self.attention_norm, self.ffn_norm = LayerNorm(a.width, a.epsilon), LayerNorm(a.width, a.epsilon)
        self.heads, self.norm_first, self.rotary, self.activation = a.heads, a.norm_first, not a.positions, a.activation

    def __call__(self, x: Float[Array, "n width"], bias: Float[Array, " n"]) -> tuple[Float[Array, "n width"], Float[Array, "heads n n"]]:
        """Return the output of the layer and its attention; `bias` is added to the logits by key."""
        y = self.attention_norm(x) if self.norm_first else x
        queries, keys, values = (f(y).reshape(x.shape[0], self.heads, -1) for f in (self.query, self.key, self.value))
        queries = queries / jnp.sqrt(jnp.asarray(queries.shape[-1], queries.dtype))
        if self.rotary:
            queries, keys = _rotated(queries), _rotated(keys)
        logits = jnp.einsum("qhd,khd->hqk", queries, keys, preferred_element_type=wide(x.dtype))
        weights = jax.nn.softmax(logits + bias.astype(logits.dtype), axis=-1)
        taken = jnp.einsum("hqk,khd->qhd", weights.astype(values.dtype), values).reshape(x.shape)
        x = x + self.output(taken)
        x = x if self.norm_first else self.attention_norm(x)
        y = self.ffn_norm(x) if self.norm_first else x
        x = x + self.outer(ACTIVATIONS[self.activation](self.inner(y)))
        return x if self.norm_first else self.ffn_norm(x), weights


def _rotated(x: Float[Array, "n heads size"]) -> Float[Array, "n heads size"]:
    """Rotate each pair of features k and k + size / 2 by the position times 10000^(-2 k / size)."""
    n, _, size = x.shape
    dtype = wide(x.dtype)  # Positions and angles lose their digits in 16 bits.
    rates = 10000.0 ** (-jnp.arange(0, size, 2, dtype=dtype) / size)
    angles = jnp.arange(n, dtype=dtype)[:, None] * rates[None, :]
    cos, sin = (f(angles)[:, None, :].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    a, b = x[..., : size // 2], x[..., size // 2 :]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


class MaskedLanguageModel(AbstractNetwork):
    """A published masked language model, whose tokens are the values of the cells.

    The row is framed by the tokens `begin` and `end`, as the model was trained. A hidden cell is
    the token `mask`. Logits of tokens that are not values of the cells are left out. The
    probabilities are thus conditional on a cell having one of its values.

    Attributes:
        tokens: the id of each value; None if the values are the ids.
        mask: the id of hidden cells. begin, end: the ids around a row, None without such tokens.
    """

    words: Float[Array, "vocabulary embedding"]
    positions: Float[Array, "positions embedding"] | None
    type: Float[Array, " embedding"] | None
    embedding_norm: LayerNorm | None
    projection: Linear | None
    layers: tuple[MaskedLayer, ...]
    last_norm: LayerNorm | None
    head: Linear
    head_norm: LayerNorm
    decoder: Float[Array, "vocabulary embedding"] | None
    head_bias: Float[Array, " vocabulary"]
    length_head: AbstractLengthHead | None
    architecture: Architecture = eqx.field(static=True)
    n_values: int = eqx.field(static=True)
    tokens: tuple[int, ...] | None = eqx.field(static=True)
    mask: int = eqx.field(static=True)
    begin: int | None = eqx.field(static=True)
    end: int | None = eqx.field(static=True)
    length_weight: float = eqx.field(static=True)

    def __init__(self, a: Architecture, tokens: tuple[int, ...] | None, mask: int, begin: int | None, end: int | None):
        self.words = jnp.zeros((a.vocabulary, a.embedding))
        self.positions = jnp.zeros((a.positions, a.embedding)) if a.positions else None
        self.type = jnp.zeros(a.embedding) if a.types else None
        self.embedding_norm = LayerNorm(a.embedding, a.epsilon) if a.norm_embeddings else None
        self.projection = Linear(a.embedding, a.width) if a.projected else None
        self.layers = tuple(MaskedLayer(a) for _ in range(max(a.order) + 1))
        self.last_norm = LayerNorm(a.width, a.epsilon) if a.norm_last else None
        self.head, self.head_norm = Linear(a.width, a.embedding), LayerNorm(a.embedding, a.epsilon)
        self.decoder = None if a.tied else jnp.zeros((a.vocabulary, a.embedding))
        self.head_bias = jnp.zeros(a.vocabulary)
        self.length_head, self.length_weight = None, 0.0
        self.architecture, self.tokens, self.mask, self.begin, self.end = a, tokens, mask, begin, end
        self.n_values = a.vocabulary if tokens is None else len(tokens)

    def encode(self, given: tuple[Array, ...], lengths: tuple[Int[Array, ""], ...], *, key: PRNGKeyArray | None = None) -> None:
        """Return None: the network takes no given arrays."""

    def prepare(self, encoded: None, length: Int[Array, ""], n: int) -> Float[Array, " tokens"]:
        """Return the bias of each token's attention logits, which hides padding."""
        places = jnp.arange(self._framed(n), dtype=length.dtype)
        return jnp.where(places < self._framed(length), 0.0, NEVER)

    def logits(
        self,
        encoded: None,
        prepared: Float[Array, " tokens"],
        seen: Int[Array, " n"],
        length: Int[Array, ""],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "n values"]:
        """Return the logits of the masked head at the cells, of their values alone."""
        states, _ = self._states(prepared, seen, length)
        first = 0 if self.begin is None else 1
        y = self.head_norm(ACTIVATIONS[self.architecture.head_activation](self.head(states[first : first + seen.shape[0]])))
        words, bias = self.words if self.decoder is None else self.decoder, self.head_bias
        if self.tokens is not None:
            words, bias = words[jnp.asarray(self.tokens)], bias[jnp.asarray(self.tokens)]
        return (y @ words.T + bias).astype(wide(y.dtype))

    def attention(self, encoded: None, prepared: Float[Array, " tokens"], seen: Int[Array, " n"], length: Int[Array, ""]) -> Attention:
        """Return the self-attention of all layers between cells; rows sum to at most 1."""
        first, n = 0 if self.begin is None else 1, seen.shape[0]
        return Attention(jnp.stack(self._states(prepared, seen, length)[1])[:, :, first : first + n, first : first + n])

    def _framed(self, n: Array | int) -> Array | int:
        """The number of tokens of a row of n cells."""
        return n + (self.begin is not None) + (self.end is not None)

    def _states(
        self, bias: Float[Array, " tokens"], seen: Int[Array, " n"], length: Int[Array, ""]
    ) -> tuple[Float[Array, "tokens width"], list[Float[Array, "heads tokens tokens"]]]:
        """The states of the last layer, and the attention weights of each layer."""
        x = self._embedded(self._ids(seen, length), length)
        weights = []
        for k in self.architecture.order:
            x, found = self.layers[k](x, bias)
            weights.append(found)
        return (x if self.last_norm is None else self.last_norm(x)), weights

    def _ids(self, seen: Int[Array, " n"], length: Int[Array, ""]) -> Int[Array, " tokens"]:
        """The token ids of a row with those around it; a hidden cell is the token `mask`."""
        q = self.n_values
        hidden = (seen < 0) | (seen >= q)
        codes = jnp.clip(seen, 0, q - 1)
        ids = codes if self.tokens is None else jnp.asarray(self.tokens, codes.dtype)[codes]
        ids = jnp.where(hidden, jnp.asarray(self.mask, ids.dtype), ids)
        before, after = int(self.begin is not None), int(self.end is not None)
        ids = jnp.pad(ids, (before, after))
        if self.begin is not None:
            ids = ids.at[0].set(self.begin)
        if self.end is not None:
            at_end = jnp.arange(ids.shape[0], dtype=length.dtype) == length + before
            ids = jnp.where(at_end, jnp.asarray(self.end, ids.dtype), ids)
        return ids

    def _embedded(self, ids: Int[Array, " tokens"], length: Int[Array, ""]) -> Float[Array, "tokens width"]:
        x, a = self.words[ids], self.architecture
        if a.token_dropout:
            count = self._framed(length)
            hidden = (ids == self.mask) & (jnp.arange(ids.shape[0], dtype=length.dtype) < count)
            share = hidden.sum().astype(wide(x.dtype)) / jnp.asarray(count, wide(x.dtype))
            x = jnp.where(hidden[:, None], 0, x) * ((1 - ESM_HIDDEN) / (1 - share)).astype(x.dtype)
        if self.type is not None:
            x = x + self.type
        if self.positions is not None:
            x = x + self.positions[a.offset : a.offset + ids.shape[0]]
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        return x if self.projection is None else self.projection(x)
