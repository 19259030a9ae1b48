"""A network for Sudokus that passes messages along rows, columns and boxes; cells and numbers are treated alike."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Units(eqx.Module):
    """Features of each cell and number, which rounds of means over units update.

    A round adds a function of five vectors: the features of a cell and number, and their means over the row, the column and the box for
    the same number, and over the numbers of the cell. All rounds have the same weights. After Palm et al. 2018, "Recurrent relational
    networks".

    Attributes:
        tall, wide: rows and columns of a box.
        rounds: the number of rounds.
    """

    first: eqx.nn.Linear
    inner: eqx.nn.Linear
    outer: eqx.nn.Linear
    last: eqx.nn.Linear
    tall: int = eqx.field(static=True)
    wide: int = eqx.field(static=True)
    rounds: int = eqx.field(static=True)

    def __init__(self, n_cells: int, n_values: int, tall: int, wide: int, width: int, rounds: int, *, key: Array, given: tuple):
        del n_cells, n_values, given
        keys = jax.random.split(key, 4)
        sizes = ((3, width), (5 * width, 2 * width), (2 * width, width), (width, 1))
        self.first, self.inner, self.outer, self.last = (eqx.nn.Linear(a, b, key=k) for (a, b), k in zip(sizes, keys, strict=True))
        self.tall, self.wide, self.rounds = tall, wide, rounds

    def __call__(self, seen: Int[Array, " cells"]) -> Float[Array, "cells values"]:
        """Return the logits of every number in every cell; `seen` has the number of values for a hidden cell."""
        n = self.tall * self.wide
        own, hidden = seen[:, None] == jnp.arange(n), jnp.broadcast_to(seen[:, None] >= n, (n * n, n))
        begun = linear(self.first, jnp.stack([own, ~own & ~hidden, hidden], axis=-1).astype(self.first.weight.dtype))

        def one(h: Array, _: None) -> tuple[Array, None]:
            units = [self.mean(h, (n, n), 1), self.mean(h, (n, n), 0), self.mean(h, (self.wide, self.tall, self.tall, self.wide), (1, 3))]
            cell = jnp.broadcast_to(h.mean(axis=1, keepdims=True), h.shape)
            h = h + linear(self.outer, jax.nn.gelu(linear(self.inner, jnp.concatenate([h, *units, cell], axis=-1))))
            away = h - h.mean(axis=-1, keepdims=True)
            return away / jnp.sqrt((away**2).mean(axis=-1, keepdims=True) + 1e-5), None

        return linear(self.last, jax.lax.scan(one, begun, None, length=self.rounds)[0])[..., 0]

    @staticmethod
    def mean(h: Array, shape: tuple[int, ...], over: int | tuple[int, ...]) -> Array:
        """Return the means over units, at each of their cells; `shape` is that of the axes of cells."""
        by_place = h.reshape(*shape, *h.shape[1:])
        return jnp.broadcast_to(by_place.mean(axis=over, keepdims=True), by_place.shape).reshape(h.shape)


def linear(layer: eqx.nn.Linear, x: Array) -> Array:
    """Apply a layer to the last axis."""
    return x @ layer.weight.T + layer.bias
