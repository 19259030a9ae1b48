"""The interface of a loss: the losses of rows, their cost, and its capabilities."""

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
    """Mean over masks K of -log p(x_K | x_rest[, K]) for each row.

    A missing cell of a row has the code -1, in losses that accept such rows.

    Attributes:
        graph: the factor graph on the device.
        gapped: whether missing values, of code -1, are left out of the losses of their rows.
        is_eliminated: whether a second derivative of complete rows takes a pass of elimination for
            each parameter.
    """

    graph: eqx.AbstractVar[Graph]
    gapped = False
    is_eliminated: ClassVar[bool] = False

    @abc.abstractmethod
    def rows(self, params: Params, codes: Codes, masks: Masks | None = None) -> Float[Array, " rows"]:
        """Return one loss for each row.

        `masks` are the masks drawn for each row. Losses over all masks do not take them.
        """

    @abc.abstractmethod
    def row_terms(self, masks: int, members: int) -> float:
        """Return the number of factor evaluations in the loss of one row.

        The row has `masks` drawn masks with `members` members each. For a loss by elimination the
        result is the number of table entries of one pass. For a loss over all masks it covers all
        of them, whatever is drawn.
        """

    def rows_and_reach(self, params: Params, codes: Codes, masks: Masks | None) -> tuple[Float[Array, " rows"], Bool[Array, " rows"]]:
        """Return the losses, and whether K may contain a cell of the row."""
        some = jnp.ones(codes.shape[1], bool) if masks is None else (masks < self.graph.n_cells).any(axis=(0, 1))
        return self.rows(params, codes, masks), some
