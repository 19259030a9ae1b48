"""The loss of rows with missing cells, each summed out in the planned way."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ._arrays import float_type
from ._energy import Params
from ._listed import ListedRows
from ._listed_moments import second_order_cost
from ._summed_loss import HiddenRows


class SummedRows(eqx.Module):
    """Rows that are enumerated, rows that are eliminated, and rows without observed cells.

    A row without observed cells has the loss 0.

    Attributes:
        count: the number of rows.
        listed: the loss of the rows whose joint values are enumerated, or None.
        eliminated: the loss of the eliminated rows, or None.
        places: the numbers of the rows of both kinds, ascending.
    """

    count: int = eqx.field(static=True)
    listed: ListedRows | None
    eliminated: HiddenRows | None
    places: tuple[Int[Array, " listed"], Int[Array, " eliminated"]]

    def rows(self, params: Params) -> Float[Array, " rows"]:
        """Return the loss of each row."""
        total = jnp.zeros(self.count, float_type())
        for loss, places in zip((self.listed, self.eliminated), self.places, strict=True):
            if loss is not None:
                total = total.at[places].set(loss.rows(params))
        return total

    @property
    def row_cost(self) -> float:
        """Average number of factor evaluations and table entries in the loss of one row."""
        listed = 0.0 if self.listed is None else float(self.listed.cost)
        eliminated = 0.0 if self.eliminated is None else self.eliminated.row_cost * self.eliminated.codes.shape[1]
        return (listed + eliminated) / self.count

    def second_order_cost(self, count: int) -> float:
        """Return the number of evaluations and table entries of second derivatives and scores.

        They are taken in `count` directions.
        """
        listed = 0.0 if self.listed is None else second_order_cost(self.listed, count)
        return listed + (0.0 if self.eliminated is None else count * self.eliminated.row_cost * self.eliminated.codes.shape[1])

    def some(self, chosen: Int[Array, " rows"]) -> SummedRows:
        """Return the loss with some of the eliminated rows, and all the others.

        `chosen` numbers the eliminated rows.
        """
        assert self.eliminated is not None
        kept = jnp.concatenate([self.places[0], self.places[1][chosen]])
        split = len(self.places[0])
        places = jnp.arange(len(kept), dtype=jnp.int32)
        return SummedRows(len(kept), self.listed, self.eliminated.take(chosen), (places[:split], places[split:]))
