"""Length heads, which predict the number of cells of a row from its encoded given arrays."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ._encoding import Encoding
from ._layers import normal, wide
from ._network import AbstractLengthHead
from .limits import LEAST_FERTILITY, MOST_FERTILITY


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
