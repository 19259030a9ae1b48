"""Redraws of the missing cells of rows, each row with its own blocks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from ._arrays import Graph, drawn_blocks, put_value
from ._energy import Codes, Params, local_scores
from ._picks import levels_of, pick_value
from ._random import fold, words


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
