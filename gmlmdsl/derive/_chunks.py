"""Chunks of rows, which are evaluated one after another so that memory stays bounded."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array


class Chunks(NamedTuple):
    """How an array of rows is split into chunks.

    Rows that are spread over devices lie on them one after another. A chunk then has rows of every
    device, so that all of them work at the same time.

    Attributes:
        rows: the number of rows of a chunk, a multiple of `devices`.
        devices: the number of devices over which rows are spread.
    """

    rows: int
    devices: int = 1

    def count(self, rows: int) -> int:
        """Return the number of chunks of some rows."""
        return rows // self.rows

    def split(self, a: Array) -> Array:
        """Return the chunks of an array whose last axis is rows, along a new first axis."""
        n = self.count(a.shape[-1])
        apart = a.reshape(*a.shape[:-1], self.devices, n, self.rows // self.devices)
        return jnp.moveaxis(apart, -2, 0).reshape(n, *a.shape[:-1], self.rows)

    def joined(self, a: Array) -> Array:
        """Return rows of shape (rows, ..) from chunks of shape (chunks, rows of a chunk, ..)."""
        apart = a.reshape(a.shape[0], self.devices, self.rows // self.devices, *a.shape[2:])
        return jnp.moveaxis(apart, 1, 0).reshape(-1, *a.shape[2:])
