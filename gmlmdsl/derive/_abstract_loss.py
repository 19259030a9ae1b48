"""What every loss answers: the losses of rows, what they cost, and its blocks where it lists them."""

from __future__ import annotations

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._arrays import Graph
from ._energy import Codes, Params

Masks = Int[Array, "masks members rows"]


class AbstractLoss(eqx.Module):
    """The mean over masks K of -log p(x_K | x_rest[, K]) of rows, of code -1 where a row lacks a cell and a loss takes such rows.

    Attributes:
        graph: the factor graph on the device.
        gapped: whether gaps, of code -1, are left out of the losses of their rows.
        is_eliminated: whether a second derivative of complete rows takes a pass of elimination for
            each parameter.
    """

    graph: eqx.AbstractVar[Graph]
    gapped = False
    is_eliminated: ClassVar[bool] = False

    @abc.abstractmethod
    def rows(self, params: Params, codes: Codes, masks: Masks | None = None) -> Float[Array, " rows"]:
        """One loss for each row; `masks` are those drawn for it. Losses over all masks do without."""

    @abc.abstractmethod
    def row_terms(self, masks: int, members: int) -> float:
        """Factor evaluations of the loss of one row under so many drawn masks with so many members each.

        Of losses by elimination the table entries of one pass, and of losses over all masks all of
        them, whatever is drawn.
        """

    def rows_and_reach(self, params: Params, codes: Codes, masks: Masks | None) -> tuple[Float[Array, " rows"], Bool[Array, " rows"]]:
        """The losses, and whether K may hold a cell of the row."""
        some = jnp.ones(codes.shape[1], bool) if masks is None else (masks < self.graph.n_cells).any(axis=(0, 1))
        return self.rows(params, codes, masks), some
