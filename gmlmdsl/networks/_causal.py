"""Causal networks, which predict each cell from the cells before it, and probes of them.

A row is drawn cell by cell from a joint distribution.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ._encoder_decoder import AbstractEncoderDecoder, Prepared, tables
from ._layers import NEVER, KeysValues, RelativeBias, embedded, normal, tied_logits, unseen, wide
from ._network import AbstractCausalNetwork, AbstractLengthHead, Attention, Encoding
from ._transformer import Decoder, Encoder, Weights

Cache = tuple[KeysValues, ...]


def looking_back(bias: RelativeBias, n: int, length: Int[Array, ""]) -> Float[Array, "heads n n"]:
    """Return attention biases that hide from each cell all cells after it."""
    places = jnp.arange(n, dtype=length.dtype)
    behind = jnp.where(places[None, :] > places[:, None], jnp.asarray(NEVER, wide(bias.table.dtype)), 0)
    return bias(places) + behind[None]


def entering(
    start: Float[Array, " width"], table: Float[Array, "values width"], previous: Int[Array, " m"], t: Int[Array, ""]
) -> Float[Array, "m width"]:
    """Return the inputs at cells t .. t + m - 1: the embeddings of the cells before them.

    The first cell of a row has no cell before it, so its input is `start`.

    Args:
        start: the input at the first cell.
        table: the embeddings.
        previous: the codes of cells t - 1 .. t + m - 2.
        t: the first of the cells.
    """
    first = jnp.arange(previous.shape[0], dtype=t.dtype) + t == 0
    return jnp.where(first[:, None], start[None], embedded(table, previous, jnp.ones_like(first)))


def empty_cache(layers: int, n: int, heads: int, start: Float[Array, " width"]) -> Cache:
    """Return the keys and values of no cells, for every layer.

    Args:
        layers: the number of layers.
        n: the largest number of cells.
        heads: the number of heads.
        start: the input at the first cell, whose width and type are used.
    """
    size = start.shape[0] // heads
    empty = jnp.zeros((heads, size, n), start.dtype), jnp.zeros((heads, n, size), start.dtype)
    return (empty,) * layers


class CausalTransformer(AbstractCausalNetwork):
    """p(x_i | x_1 .. x_(i-1)): the encoder of T5.1.0 over the cells, with the causal mask.

    A hidden cell before i enters as a zero vector.

    Reference: Raffel et al. 2020, Section 3.2.1 (the language model); Vaswani et al. 2017, Section
    3.1.

    Attributes:
        start: the input at the first cell, which has no cell before it.
    """

    embedding: Float[Array, "values width"]
    start: Float[Array, " width"]
    encoder: Encoder
    n_values: int = eqx.field(static=True)
    length_head: AbstractLengthHead | None
    length_weight: float = eqx.field(static=True)

    def __init__(self, n_values: int, layers: int, width: int, heads: int, ffn: int, rate: float, *, key: PRNGKeyArray):
        e, s, b = jax.random.split(key, 3)
        self.embedding, self.start = normal(e, (n_values, width), 1.0), normal(s, (width,), 1.0)
        self.encoder = Encoder(layers, width, heads, ffn, rate, causal=True, key=b)
        self.n_values, self.length_head, self.length_weight = n_values, None, 0.0

    def encode(self, given: tuple[Array, ...], lengths: tuple[Int[Array, ""], ...], *, key: PRNGKeyArray | None = None) -> None:
        """Return None, because the network takes no given arrays."""

    def prepare(self, encoded: None, length: Int[Array, ""], n: int) -> Float[Array, "heads n n"]:
        """Return the attention biases.

        They do not depend on the length, because padding comes after every cell.
        """
        return looking_back(self.encoder.bias, n, length)

    def _states(
        self, bias: Float[Array, "heads n n"], seen: Int[Array, " n"], length: Int[Array, ""], key: PRNGKeyArray | None
    ) -> tuple[Float[Array, "n width"], list[Float[Array, "heads n n"]]]:
        x = embedded(self.embedding, seen, jnp.arange(seen.shape[0], dtype=length.dtype) < length)
        return self.encoder(jnp.concatenate([self.start[None], x[:-1]]), bias, key)

    def logits(
        self,
        encoded: None,
        prepared: Float[Array, "heads n n"],
        seen: Int[Array, " n"],
        length: Int[Array, ""],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "n values"]:
        """Return the logits of every cell, from the cells before it."""
        return self.read(self._states(prepared, seen, length, key)[0])

    def attention(self, encoded: None, prepared: Float[Array, "heads n n"], seen: Int[Array, " n"], length: Int[Array, ""]) -> Attention:
        """Return the self-attention of every layer.

        Its weights run from each cell to the start and the cells before it. The start takes the
        first place, so the cells before it are shifted by one place.
        """
        return Attention(jnp.stack(self._states(prepared, seen, length, None)[1]))

    @property
    def n_layers(self) -> int:
        """The number of layers of the stack over the cells."""
        return len(self.encoder.layers)

    def first_layers(self, n: int) -> CausalTransformer:
        """Return the network with its first n layers, followed by its last norm."""
        return eqx.tree_at(lambda net: net.encoder.layers, self, self.encoder.layers[:n])

    def begin(self, n: int) -> Cache:
        """Return the keys and values of no cells, for every layer."""
        return empty_cache(len(self.encoder.layers), n, self.encoder.layers[0].attention.heads, self.start)

    def enter(
        self, encoded: None, prepared: Float[Array, "heads n n"], cache: Cache, previous: Int[Array, " m"], t: Int[Array, ""]
    ) -> tuple[Float[Array, "m width"], Cache]:
        """Run cells through the stack, with the keys and values of the cells before them."""
        x = entering(self.start, self.embedding, previous, t)
        bias = jax.lax.dynamic_slice_in_dim(prepared, t, previous.shape[0], axis=1)
        after = []
        for layer, seen in zip(self.encoder.layers, cache, strict=True):
            x, seen = layer.advance(x, t, seen, bias)
            after.append(seen)
        return self.encoder.norm(x), tuple(after)

    def read(self, states: Float[Array, "m width"]) -> Float[Array, "m values"]:
        """Return the products of the states with the embedding, which is tied."""
        return tied_logits(states, self.embedding)


class CausalEncoderDecoder(AbstractEncoderDecoder, AbstractCausalNetwork):  # pyright: ignore[reportIncompatibleVariableOverride]
    """p(x_i | x_1 .. x_(i-1), given): T5.1.0 with the causal mask.

    A hidden cell before i enters as the zero vector.

    Reference: Raffel et al. 2020, Section 2.1; Vaswani et al. 2017, Section 3.1.

    Attributes:
        start: the input at the first cell, which has no cell before it.
    """

    embeddings: tuple[Float[Array, "values width"], ...]
    encoder: Encoder
    decoder: Decoder
    start: Float[Array, " width"]
    length_head: AbstractLengthHead | None
    sources: tuple[int, ...] = eqx.field(static=True)
    length_weight: float = eqx.field(static=True)

    def __init__(self, values: Sequence[int], stacks: tuple[Encoder, Decoder], *, width: int, key: PRNGKeyArray):
        """Initialise the network.

        `values` are the numbers of values of the cells and of each given array.
        """
        e, s = jax.random.split(key)
        self.embeddings, self.sources = tables(values, width, e)
        self.encoder, self.decoder = stacks
        self.start = normal(s, (width,), 1.0)
        self.length_head, self.length_weight = None, 0.0

    def prepare(self, encoded: Encoding, length: Int[Array, ""], n: int) -> Prepared:
        """Return the biases of self-attention."""
        return Prepared(looking_back(self.decoder.bias, n, length), ())

    def states(
        self, encoded: Encoding, prepared: Prepared, seen: Int[Array, " n"], length: Int[Array, ""], key: PRNGKeyArray | None
    ) -> tuple[Float[Array, "n width"], list[tuple[Weights, Weights]]]:
        """Return the states and attention weights at every cell, from the cells before it."""
        shown = jnp.arange(seen.shape[0], dtype=length.dtype) < length
        x = embedded(self.embeddings[0], seen, shown)
        return self._through(jnp.concatenate([self.start[None], x[:-1]]), encoded, prepared, key)

    @property
    def n_layers(self) -> int:
        """The number of layers of the stack over the cells."""
        return len(self.decoder.layers)

    def first_layers(self, n: int) -> CausalEncoderDecoder:
        """Return the network with its first n layers, followed by its last norm."""
        return eqx.tree_at(lambda net: net.decoder.layers, self, self.decoder.layers[:n])

    def begin(self, n: int) -> Cache:
        """Return the keys and values of no cells, for every layer."""
        return empty_cache(len(self.decoder.layers), n, self.decoder.layers[0].self_attention.heads, self.start)

    def enter(
        self, encoded: Encoding, prepared: Prepared, cache: Cache, previous: Int[Array, " m"], t: Int[Array, ""]
    ) -> tuple[Float[Array, "m width"], Cache]:
        """Run cells through the stack, with the keys and values of the cells before them."""
        x = entering(self.start, self.embeddings[0], previous, t)
        bias = jax.lax.dynamic_slice_in_dim(prepared.bias, t, previous.shape[0], axis=1)
        across, after = unseen(encoded.shown, x.dtype), []
        for layer, seen, k, v in zip(self.decoder.layers, cache, encoded.keys, encoded.values, strict=True):
            x, seen = layer.advance(x, t, seen, bias, (k, v, across))
            after.append(seen)
        return self.decoder.norm(x), tuple(after)

    def read(self, states: Float[Array, "m width"]) -> Float[Array, "m values"]:
        """Return the products of the states with the tied embedding of the cells' values."""
        return tied_logits(states, self.embeddings[0])


class Probe(eqx.Module):
    """The model P(prefix is good) = sigmoid(weight . state + bias).

    Reference: Alain and Bengio 2017 (linear classifiers on frozen layers).
    """

    weight: Float[Array, " width"]
    bias: Float[Array, ""]

    def __call__(self, states: Float[Array, "*rows width"]) -> Float[Array, "*rows"]:
        """Return the probability of each row."""
        return jax.nn.sigmoid(states @ self.weight + self.bias)

    def log(self, states: Float[Array, "*rows width"]) -> Float[Array, "*rows"]:
        """Return the logarithm of the probability, even if the probability itself underflows."""
        return jax.nn.log_sigmoid(states @ self.weight + self.bias)
