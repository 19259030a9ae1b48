"""The causal `encoder_decoder`: each cell is predicted from those before it, so that a row is drawn cell by cell from a joint law."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ._decoder import Decoder, KeysValues, Weights
from ._encoder_decoder import AbstractEncoderDecoder, Prepared, tables
from ._encoding import Encoding
from ._layers import NEVER, embedded, normal, tied_logits, unseen, wide
from ._network import AbstractCausalNetwork, AbstractLengthHead
from ._transformer import Encoder

Cache = tuple[KeysValues, ...]


class CausalEncoderDecoder(AbstractEncoderDecoder, AbstractCausalNetwork):
    """p(x_i | x_1 .. x_(i-1), given): T5.1.0 with the causal mask. A hidden cell before i enters as the zero vector.

    Reference: Raffel et al. 2020, Section 2.1; Vaswani et al. 2017, Section 3.1.

    Attributes:
        start: what enters at the first cell, which none stands before.
    """

    embeddings: tuple[Float[Array, "values width"], ...]
    encoder: Encoder
    decoder: Decoder
    start: Float[Array, " width"]
    length_head: AbstractLengthHead | None
    n_values: int = eqx.field(static=True)
    sources: tuple[int, ...] = eqx.field(static=True)
    length_weight: float = eqx.field(static=True)

    def __init__(self, values: Sequence[int], stacks: tuple[Encoder, Decoder], *, width: int, key: PRNGKeyArray):
        """`values` are the numbers of values of the cells and of each given array."""
        e, s = jax.random.split(key)
        self.embeddings, self.sources = tables(values, width, e)
        self.encoder, self.decoder = stacks
        self.start = normal(s, (width,), 1.0)
        self.length_head, self.length_weight, self.n_values = None, 0.0, values[0]

    def prepare(self, encoded: Encoding, length: Int[Array, ""], n: int) -> Prepared:
        """Biases, with what stands behind a cell out of its sight."""
        places = jnp.arange(n, dtype=length.dtype)
        behind = jnp.where(places[None, :] > places[:, None], jnp.asarray(NEVER, wide(self.start.dtype)), 0)
        return Prepared(self.decoder.bias(places) + behind[None], ())

    def states(
        self, encoded: Encoding, prepared: Prepared, seen: Int[Array, " n"], length: Int[Array, ""], key: PRNGKeyArray | None
    ) -> tuple[Float[Array, "n width"], list[tuple[Weights, Weights]]]:
        """Of every cell, from those before it."""
        shown = jnp.arange(seen.shape[0], dtype=length.dtype) < length
        x = embedded(self.embeddings[0], seen, shown)
        return self._through(jnp.concatenate([self.start[None], x[:-1]]), encoded, prepared, key)

    def begin(self, n: int) -> Cache:
        """Keys and values of no cell yet, in every layer."""
        heads, width = self.decoder.layers[0].self_attention.heads, self.start.shape[0]
        empty = jnp.zeros((n, heads, width // heads), self.start.dtype)
        return ((empty, empty),) * len(self.decoder.layers)

    def advance(
        self, encoded: Encoding, prepared: Prepared, cache: Cache, previous: Int[Array, ""], t: Int[Array, ""]
    ) -> tuple[Float[Array, " values"], Cache]:
        """One cell through the stack, with the keys and values of those before it."""
        x = jnp.where(t == 0, self.start[None], embedded(self.embeddings[0], previous[None], jnp.ones(1, bool)))
        bias, across = jax.lax.dynamic_slice_in_dim(prepared.bias, t, 1, axis=1), unseen(encoded.shown, x.dtype)
        after = []
        for layer, seen, k, v in zip(self.decoder.layers, cache, encoded.keys, encoded.values, strict=True):
            x, seen = layer.advance(x, t, seen, bias, (k, v, across))
            after.append(seen)
        return tied_logits(self.decoder.norm(x), self.embeddings[0])[0], tuple(after)
