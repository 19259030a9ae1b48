"""The exact denoiser of a uniform distribution over listed rows: counts among the rows that agree with what is seen."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


class Listed(eqx.Module):
    """p(x_i = v | what is seen) of a row that is drawn from a list, each alike; uniform where no row agrees.

    Attributes:
        rows: the codes of the list; the constructor has zeros, in whose place `with_rows` puts a list.
    """

    rows: Float[Array, "rows cells"]
    values: int = eqx.field(static=True)

    def __init__(self, n_cells: int, n_values: int, rows: int, *, key: Array, given: tuple):
        del key, given
        self.rows, self.values = jnp.zeros((rows, n_cells)), n_values

    def __call__(self, seen: Int[Array, " cells"]) -> Float[Array, "cells values"]:
        """Return log p of every value of every cell; `seen` has `values` for a hidden cell."""
        agrees = ((seen[None] == self.rows) | (seen[None] >= self.values)).all(axis=1)
        counts = ((self.rows[..., None] == jnp.arange(self.values)) & agrees[:, None, None]).sum(axis=0)
        return jnp.where(agrees.any(), jnp.log(counts / counts.sum(axis=1, keepdims=True)), 0.0)


def with_rows(params: dict, rows: np.ndarray) -> dict:
    """The parameters of a model whose network is a list, with these rows."""
    network = params["list"]
    return {"list": eqx.tree_at(lambda n: n.module.rows, network, jnp.asarray(rows, network.module.rows.dtype))}
