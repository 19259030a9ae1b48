"""Rows with missing cells: their loss, summed out in the planned way, and redraws of the cells."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ._arrays import Graph, drawn_blocks, float_type, put_value
from ._energy import Codes, Params, local_scores
from ._listed import ListedRows, second_order_cost
from ._picks import levels_of, pick_value
from ._random import fold, words
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


def redraw_gaps(
    graph: Graph, params: Params, codes: Codes, cells: Int[Array, "steps members rows"], values: int, sweeps: int, key: Array
) -> Codes:
    """Redraw each row's missing cells from p(. | the rest), block by block.

    Rows may have different blocks.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: (cells, rows).
        cells: the blocks of each row in turn, padded with the number of cells.
        values: the maximum number of joint values of a block.
        sweeps: how often all of them are redrawn.
        key: the key of all draws.
    """
    steps = cells.shape[0]

    def step(state: Codes, number: Array) -> tuple[Codes, None]:
        blocks = drawn_blocks(graph, cells[number % steps][None], values)
        # the words of one key serve all rows
        drawn = words(fold(key[None], number), state.shape[1:], levels_of(values)).transposed
        value, possible = pick_value(local_scores(graph, params, state, blocks), drawn)
        return put_value(blocks, state, value, ~possible), None

    return jax.lax.scan(step, codes, jnp.arange(sweeps * steps))[0]
