"""The `encoder_decoder`: an encoder of given arrays, a decoder of all cells, and a length head."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ._layers import NEVER, dropout, embedded, features_kept, normal, tied_logits, unseen, wide
from ._network import AbstractLengthHead, AbstractNetwork, Attention, Encoding
from ._transformer import Decoder, Encoder, Weights, with_positions
from .limits import LEAST_FERTILITY, MOST_FERTILITY


class Prepared(eqx.Module):
    """The arrays that all passes over rows of one length share.

    Attributes:
        bias: the relative position biases of self-attention, which include its mask.
        positional: the weights of positional attention in every layer; empty without positional
            attention.
    """

    bias: Float[Array, "heads n n"]
    positional: tuple[Float[Array, "heads n n"], ...]


class AbstractEncoderDecoder(AbstractNetwork):
    """An encoder of the given arrays and a stack of decoder blocks: T5.1.0 with tied embeddings.

    Several given arrays are concatenated, without the padding between them.

    Reference: Raffel et al. 2020, Section 2.1.

    Attributes:
        embeddings: one table for each distinct number of values. The first is that of the cells.
        encoder: the encoder.
        decoder: the decoder.
        sources: the number of the table of each given array.
    """

    embeddings: eqx.AbstractVar[tuple[Float[Array, "values width"], ...]]
    encoder: eqx.AbstractVar[Encoder]
    decoder: eqx.AbstractVar[Decoder]
    sources: eqx.AbstractVar[tuple[int, ...]]

    @property
    def n_values(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - a field of other networks
        """The number of values of a cell."""
        return self.embeddings[0].shape[0]

    def encode(self, given: tuple[Array, ...], lengths: tuple[Int[Array, ""], ...], *, key: PRNGKeyArray | None = None) -> Encoding:
        """Return encoder states, with keys and values for every layer of the decoder."""
        x, positions, shown = self._sources(given, lengths)
        with_place = self.length_head is not None and self.length_head.needs_place
        if with_place:
            x = jnp.concatenate([jnp.zeros_like(x[:1]), x])
            positions = jnp.concatenate([jnp.full_like(positions[:1], -1), positions])
            shown = jnp.concatenate([jnp.ones_like(shown[:1]), shown])
        bias = self.encoder.bias(positions) + unseen(shown, x.dtype)
        # No given entry attends to the place, so the place does not change their states.
        if with_place:
            bias = bias.at[:, 1:, 0].set(NEVER)
        states, _ = self.encoder(x, bias, key)
        place = states[0] if with_place else None
        states, shown = (states[1:], shown[1:]) if with_place else (states, shown)
        across = [layer.cross_attention for layer in self.decoder.layers]
        keys, values = tuple(a.keys(states) for a in across), tuple(a.values(states) for a in across)
        return Encoding(states, shown, sum(lengths[1:], lengths[0]), place, keys, values)

    def _sources(
        self, given: tuple[Array, ...], lengths: tuple[Int[Array, ""], ...]
    ) -> tuple[Float[Array, "m width"], Int[Array, " m"], Bool[Array, " m"]]:
        """Return the embedded entries of all given arrays, their positions, and a mask.

        The mask excludes padding, and positions are counted without it.
        """
        rows, positions, shown, start = [], [], [], None
        for codes, length, source in zip(given, lengths, self.sources, strict=True):
            place = jnp.arange(codes.shape[0], dtype=length.dtype)
            shown.append(place < length)
            rows.append(embedded(self.embeddings[source], codes, shown[-1]))
            positions.append(place if start is None else place + start)
            start = length if start is None else start + length
        places = jnp.concatenate(positions)
        return self._add_positions(jnp.concatenate(rows), places), places, jnp.concatenate(shown)

    def _add_positions(self, x: Float[Array, "m width"], positions: Int[Array, " m"]) -> Float[Array, "m width"]:
        """Return embedded entries of given arrays, with position embeddings if there are any."""
        return x

    def _through(
        self, x: Float[Array, "n width"], encoded: Encoding, prepared: Prepared, key: PRNGKeyArray | None
    ) -> tuple[Float[Array, "n width"], list[tuple[Weights, Weights]]]:
        """Return the decoder's normalised states, and the attention weights of each layer.

        The weights are those of self- and cross-attention.
        """
        decoder = self.decoder
        first, last, *kept = features_kept(key, decoder.dropout, 3 * len(decoder.layers) + 2, x.shape[1])
        x = dropout(x, decoder.dropout, first)
        across, found = unseen(encoded.shown, x.dtype), []
        positional = prepared.positional or (None,) * len(decoder.layers)
        # These are the dropouts of each layer.
        own = zip(kept[::3], kept[1::3], kept[2::3], strict=True)
        for layer, k, v, p, drops in zip(decoder.layers, encoded.keys, encoded.values, positional, own, strict=True):
            x, here, there = layer(x, prepared.bias, p, (k, v, across), drops)
            found.append((here, there))
        return dropout(decoder.norm(x), decoder.dropout, last), found

    @abc.abstractmethod
    def states(
        self, encoded: Encoding, prepared: Prepared, seen: Int[Array, " n"], length: Int[Array, ""], key: PRNGKeyArray | None
    ) -> tuple[Float[Array, "n width"], list[tuple[Weights, Weights]]]:
        """Return the decoder's normalised states, and the attention weights of each layer.

        The weights are those of self- and cross-attention.

        Args:
            encoded: the result of `encode`.
            prepared: the result of `prepare`.
            seen: the codes of the cells.
            length: the number of cells that are not padding.
            key: the key of dropout; None for no dropout.
        """

    def logits(
        self, encoded: Encoding, prepared: Prepared, seen: Int[Array, " n"], length: Int[Array, ""], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "n values"]:
        """Return the products of the states with the tied embedding of the cells' values."""
        return tied_logits(self.states(encoded, prepared, seen, length, key)[0], self.embeddings[0])

    def attention(self, encoded: Encoding, prepared: Prepared, seen: Int[Array, " n"], length: Int[Array, ""]) -> Attention:
        """Return the self-, cross- and positional attention of every layer."""
        here, there = zip(*self.states(encoded, prepared, seen, length, None)[1], strict=True)
        return Attention(jnp.stack(here), jnp.stack(there), jnp.stack(prepared.positional) if prepared.positional else None)


def shortlisted(network: AbstractNetwork, codes: Int[Array, " few"]) -> AbstractEncoderDecoder:
    """Return the network over some values of its cells: code k of a cell is the value `codes[k]`.

    Given arrays cannot be encoded by it. Their encodings are those of the whole network.

    Args:
        network: the network.
        codes: the values.
    """
    assert isinstance(network, AbstractEncoderDecoder)
    table: Any = network.embeddings[0]
    return eqx.tree_at(lambda n: n.embeddings[0], network, table[codes] if eqx.is_array(table) else table.of(codes))


def tables(values: Sequence[int], width: int, key: PRNGKeyArray) -> tuple[tuple[Float[Array, "values width"], ...], tuple[int, ...]]:
    """Return an embedding table for each distinct number of values.

    The number of the table of each given array is returned too. The first table is that of the
    cells.
    """
    kinds = list(dict.fromkeys(values))
    made = tuple(normal(k, (q, width), 1.0) for q, k in zip(kinds, jax.random.split(key, len(kinds)), strict=True))
    return made, tuple(kinds.index(q) for q in values[1:])


class EncoderDecoder(AbstractEncoderDecoder):
    """p(x_i | x_rest, K, given) of all cells at once: there is no causal mask.

    A hidden cell enters as its row of the table of positions. If all hidden cells entered as one
    vector, the cells of a fully hidden row could not be distinguished.

    Reference: Li et al. 2024, Section 3.2.

    Attributes:
        positions: the table of positions, for hidden cells and for positional attention.
        position_embeddings: whether its rows are added to the embeddings of other cells and of
            given arrays (Gehring et al. 2017, Section 3.1).
    """

    embeddings: tuple[Float[Array, "values width"], ...]
    encoder: Encoder
    decoder: Decoder
    positions: Float[Array, "positions width"]
    length_head: AbstractLengthHead | None
    sources: tuple[int, ...] = eqx.field(static=True)
    length_weight: float = eqx.field(static=True)
    position_embeddings: bool = eqx.field(static=True)

    def __init__(
        self,
        values: Sequence[int],
        stacks: tuple[Encoder, Decoder],
        n_positions: int,
        length: tuple[AbstractLengthHead | None, float],
        *,
        width: int,
        position_embeddings: bool,
        key: PRNGKeyArray,
    ):
        """Initialise the network.

        `values` are the numbers of values of the cells and of each given array.
        """
        e, p = jax.random.split(key)
        self.embeddings, self.sources = tables(values, width, e)
        self.encoder, self.decoder = stacks
        self.positions, self.position_embeddings = normal(p, (n_positions, width), 1.0), position_embeddings
        self.length_head, self.length_weight = length

    def _add_positions(self, x: Float[Array, "m width"], positions: Int[Array, " m"]) -> Float[Array, "m width"]:
        return x + self.positions[positions] if self.position_embeddings else x

    def prepare(self, encoded: Encoding, length: Int[Array, ""], n: int) -> Prepared:
        """Return the biases, and positional attention folded into its weights."""
        places = jnp.arange(n, dtype=length.dtype)
        bias = self.decoder.bias(places) + unseen(places < length, self.embeddings[0].dtype)
        table = self.positions[:n]
        return Prepared(bias, tuple(b.positional.folded(table, bias) for b in self.decoder.layers if b.positional is not None))

    def states(
        self, encoded: Encoding, prepared: Prepared, seen: Int[Array, " n"], length: Int[Array, ""], key: PRNGKeyArray | None
    ) -> tuple[Float[Array, "n width"], list[tuple[Weights, Weights]]]:
        """Return the states and attention weights of all cells."""
        shown = jnp.arange(seen.shape[0], dtype=length.dtype) < length
        x = with_positions(embedded(self.embeddings[0], seen, shown), seen, shown, self.n_values, self.positions, self.position_embeddings)
        return self._through(x, encoded, prepared, key)


class LengthClassifier(AbstractLengthHead):
    """A classifier with a class for each length.

    Its logits are the encoder state at an additional place before all given entries, which enters
    as zero, times a vector for each length. The loss is -log p(length). Its gradient flows into the
    encoder.

    Reference: Ghazvininejad et al. 2019, Section 3.2; Li et al. 2024, Section 3.2.
    """

    needs_place: bool = eqx.field(static=True)
    table: Float[Array, "lengths width"]

    def __init__(self, n_cells: int, width: int, *, key: PRNGKeyArray):
        self.table, self.needs_place = normal(key, (n_cells, width), 1 / math.sqrt(width)), True

    def scores(self, encoded: Encoding) -> Float[Array, " lengths"]:
        """Return log p of every length."""
        assert encoded.place is not None
        return jax.nn.log_softmax(jnp.einsum("lw,w->l", self.table, encoded.place, preferred_element_type=wide(self.table.dtype)))

    def loss(self, encoded: Encoding, length: Int[Array, ""]) -> Float[Array, ""]:
        return -self.scores(encoded)[jnp.clip(length - 1, 0, self.table.shape[0] - 1)]


class AffineLength(AbstractLengthHead):
    """The prediction slope * (given length) + intercept, fitted by squared error."""

    needs_place: bool = eqx.field(static=True)
    slope: Float[Array, ""]
    intercept: Float[Array, ""]
    n_cells: int = eqx.field(static=True)

    def __init__(self, n_cells: int):
        self.slope, self.intercept = jnp.ones(()), jnp.zeros(())
        self.n_cells, self.needs_place = n_cells, False

    def _predicted(self, encoded: Encoding) -> Float[Array, ""]:
        kind = wide(self.slope.dtype)
        return self.slope.astype(kind) * encoded.length.astype(kind) + self.intercept.astype(kind)

    def scores(self, encoded: Encoding) -> Float[Array, " lengths"]:
        """Return minus the squared distance of every length from the prediction."""
        return _nearness(self._predicted(encoded), self.n_cells)

    def loss(self, encoded: Encoding, length: Int[Array, ""]) -> Float[Array, ""]:
        return _squared_error(self._predicted(encoded), length)


class FertilityLength(AbstractLengthHead):
    """The prediction (given length) + sum over given entries of a mean fertility in -3..2.

    The probabilities of an entry's fertilities are a function of its encoder state. The loss is the
    squared error. No gradient flows into the encoder.

    Reference: Gu et al. 2018, Section 3.2 (fertilities).
    """

    needs_place: bool = eqx.field(static=True)
    inner: Float[Array, "width width"]
    outer: Float[Array, "width fertilities"]
    n_cells: int = eqx.field(static=True)

    def __init__(self, n_cells: int, width: int, *, key: PRNGKeyArray):
        i, o = jax.random.split(key)
        self.inner = normal(i, (width, width), 1 / math.sqrt(width))
        self.outer = normal(o, (width, MOST_FERTILITY - LEAST_FERTILITY + 1), 1 / math.sqrt(width))
        self.n_cells, self.needs_place = n_cells, False

    def _predicted(self, encoded: Encoding) -> Float[Array, ""]:
        kind = wide(self.inner.dtype)
        hidden = jax.nn.relu(jax.lax.stop_gradient(encoded.states) @ self.inner)
        law = jax.nn.softmax((hidden @ self.outer).astype(kind), axis=-1)
        means = law @ jnp.arange(LEAST_FERTILITY, MOST_FERTILITY + 1, dtype=kind)
        return encoded.length.astype(kind) + jnp.where(encoded.shown, means, 0).sum()

    def scores(self, encoded: Encoding) -> Float[Array, " lengths"]:
        """Return minus the squared distance of every length from the prediction."""
        return _nearness(self._predicted(encoded), self.n_cells)

    def loss(self, encoded: Encoding, length: Int[Array, ""]) -> Float[Array, ""]:
        return _squared_error(self._predicted(encoded), length)


def _nearness(predicted: Float[Array, ""], n_cells: int) -> Float[Array, " lengths"]:
    return -((jnp.arange(1, n_cells + 1, dtype=predicted.dtype) - predicted) ** 2)


def _squared_error(predicted: Float[Array, ""], length: Int[Array, ""]) -> Float[Array, ""]:
    return (predicted - length.astype(predicted.dtype)) ** 2
