"""The `mlp`: a perceptron on one-hot cells, whose one-hot vectors are never formed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._diagnostics import fail
from ._layers import normal, wide
from ._network import AbstractLengthHead, AbstractNetwork, Attention


class Dense(eqx.Module):
    """The layer x @ weight + bias."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, inputs: int, outputs: int, gain: float, *, key: PRNGKeyArray):
        self.weight, self.bias = normal(key, (inputs, outputs), gain / math.sqrt(inputs)), jnp.zeros(outputs)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return x @ self.weight + self.bias


def _one_hot_sum(table: Float[Array, "n values width"], codes: Int[Array, " n"], length: Int[Array, ""]) -> Float[Array, " width"]:
    """Return one-hot rows times a matrix: the sum of the matrix's row of each real cell.

    Padding adds 0.
    """
    n, q = codes.shape[0], table.shape[1]
    places = jnp.arange(n, dtype=codes.dtype)
    rows = table[places, jnp.clip(codes, 0, q - 1)]
    shown = (places < length.astype(codes.dtype)) & (codes >= 0) & (codes < q)
    return jnp.where(shown[:, None], rows, 0).sum(axis=0)


class MLP(AbstractNetwork):
    """ReLU layers on one-hot cells, one-hot given codes and given real numbers.

    A hidden cell has a column of its own, and padding is all zeros. Without layers the network is
    linear in the one-hot cells. It is then a multinomial logistic regression for each cell, which
    contains every conditional of a pairwise model.

    Attributes:
        cells: the first matrix, by cell and code.
        given: the first matrix for each given variable; for a real one, by entry.
        layers: the layers after the first. The last gives the logits of every cell.
    """

    cells: Float[Array, "n codes width"]
    given: tuple[Float[Array, "m codes width"], ...]
    bias: Float[Array, " width"]
    layers: tuple[Dense, ...]
    n_cells: int = eqx.field(static=True)
    n_values: int = eqx.field(static=True)
    length_head: AbstractLengthHead | None
    length_weight: float = eqx.field(static=True)

    def __init__(self, n_cells: int, n_values: int, given: Sequence[tuple[int, int]], layers: int, width: int, *, key: PRNGKeyArray):
        first, *keys = jax.random.split(key, layers + 1)
        outputs = n_cells * n_values
        widths = [width] * layers + [outputs]
        inputs = n_cells + sum(n for n, _ in given)  # This is the number of columns that are not 0.
        sd = (math.sqrt(2.0) if layers else 1.0) / math.sqrt(inputs)
        of_cells, *of_given = jax.random.split(first, len(given) + 1)
        self.cells = normal(of_cells, (n_cells, n_values + 1, widths[0]), sd)
        self.given = tuple(normal(k, (n, max(q, 1), widths[0]), sd) for (n, q), k in zip(given, of_given, strict=True))
        self.bias = jnp.zeros(widths[0])
        gains = ([math.sqrt(2.0)] * (layers - 1) + [1.0])[:layers]
        self.layers = tuple(Dense(*ends, gain, key=k) for ends, gain, k in zip(pairwise(widths), gains, keys, strict=True))
        self.n_cells, self.n_values, self.length_head, self.length_weight = n_cells, n_values, None, 0.0

    def encode(
        self, given: tuple[Array, ...], lengths: tuple[Int[Array, ""], ...], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, " width"]:
        """Return the contribution of the given arrays to the first layer."""
        total = self.bias
        for table, values, length in zip(self.given, given, lengths, strict=True):
            if jnp.issubdtype(values.dtype, jnp.floating):
                shown = jnp.arange(values.shape[0], dtype=length.dtype) < length
                total = total + jnp.where(shown, values, 0).astype(table.dtype) @ table[: values.shape[0], 0]
            else:
                total = total + _one_hot_sum(table, values, length)
        return total

    def prepare(self, encoded: Float[Array, " width"], length: Int[Array, ""], n: int) -> None:
        """Return None, because nothing depends on the length alone."""

    def logits(
        self,
        encoded: Float[Array, " width"],
        prepared: None,
        seen: Int[Array, " n"],
        length: Int[Array, ""],
        *,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "n values"]:
        """Return the last layer, by cell and value."""
        x = encoded + _one_hot_sum(self.cells, seen, length)
        for layer in self.layers:
            x = layer(jax.nn.relu(x))
        return x.reshape(self.n_cells, self.n_values)[: seen.shape[0]].astype(wide(x.dtype))

    def attention(self, encoded: Float[Array, " width"], prepared: None, seen: Int[Array, " n"], length: Int[Array, ""]) -> Attention:
        """Raise E738, because the network has no attention."""
        raise fail("E738", "an mlp has no attention", help="a `transformer` or an `encoder_decoder` has")
