"""Derived functions, each compiled as a whole: called op by op they would compile dozens of small programs."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ._abstract_loss import AbstractLoss
from ._arrays import Blocks, Graph
from ._bounded_jit import bounded_jit
from ._conditional import logsumexp
from ._conditional import rest_possible as _rest_possible
from ._contraction import Contraction
from ._energy import Codes, Params
from ._energy import all_values as _all_values
from ._energy import local_scores as _local_scores
from ._energy import log_potential as _log_potential
from ._listed import log_marginal as _log_marginal
from ._mask_law import AbstractMaskLaw
from ._random import fold
from ._summed_loss import EnumeratedLoss, HiddenRows
from ._summed_rows import SummedRows
from ._sums import evidence, log_sum

all_values = bounded_jit(_all_values)
local_scores = bounded_jit(_local_scores)
log_potential = bounded_jit(_log_potential)
rest_possible = bounded_jit(_rest_possible)
log_marginal = bounded_jit(_log_marginal)


@bounded_jit
def block_levels(graph: Graph, params: Params, codes: Codes, blocks: Blocks) -> jax.Array:
    """The log of the sum over its values of what touches each block, shape (blocks, rows): what `log_conditional` takes off."""
    return logsumexp(_local_scores(graph, params, codes, blocks))


@bounded_jit
def complete_rows(loss: AbstractLoss, params: Params, codes: Codes, masks: jax.Array | None) -> jax.Array:
    """The loss of rows that lack nothing, inf where a row is impossible; 0 of one for which K is empty, whatever it holds."""
    found, some = loss.rows_and_reach(params, codes, masks)
    return jnp.where((_log_potential(loss.graph, params, codes) == -jnp.inf) & some, jnp.inf, found)


@bounded_jit
def drawn_masks(law: AbstractMaskLaw, params: Params, codes: Codes, rows: jax.Array, key: jax.Array, count: int) -> jax.Array:
    """Masks for every row, shape (masks, members, rows); those of a row depend on the key and on its number among `rows` only."""

    def once(k: jax.Array) -> jax.Array:
        return law.draw(params, codes, fold(jnp.broadcast_to(k, rows.shape), rows))

    return jax.vmap(once)(jax.random.split(key, count))


@bounded_jit
def hidden_losses(loss: AbstractLoss, params: Params, codes: Codes, masks: jax.Array | None) -> jax.Array:
    """The loss of rows whose lacking cells are eliminated."""
    return HiddenRows(loss, codes, masks, codes.shape[1], 0.0).rows(params)


@bounded_jit
def gap_rows(gaps: SummedRows, params: Params) -> jax.Array:
    """The loss of rows that lack cells."""
    return gaps.rows(params)


@bounded_jit
def block_table(loss: EnumeratedLoss, params: Params, codes: Codes, cells: jax.Array) -> jax.Array:
    """log p(x_K | observed[, K]) of one block for every row, shape (values, rows); nan where what is observed is impossible."""
    mask = jnp.broadcast_to(cells[:, None], (cells.shape[0], codes.shape[1]))
    scores = loss.scores(params, codes, mask)
    if loss.law is not None:
        scores = scores + loss.log_law(params, codes, mask)[0]
    top = logsumexp(scores[None])[0]
    return jnp.where(jnp.isfinite(top), scores - top[None], jnp.nan)


@bounded_jit
def log_observed(graph: Graph, params: Params, codes: Codes, c: Contraction) -> jax.Array:
    """log of the sum over what rows lack, the code -1, of exp(log_potential); shape (rows,)."""
    return log_sum(graph, params, jnp.maximum(codes, 0), c, evidence(graph, codes, c))


@bounded_jit
def conditional_table(graph: Graph, params: Params, codes: Codes, block: Blocks, law: AbstractMaskLaw | None, adaptive: bool) -> jax.Array:
    """log p(x_K | x_rest[, K]) of one block, shape (values, rows), nan where the rest is impossible.

    `law` is the mask's; only an `adaptive` one changes the table.
    """
    scores = _local_scores(graph, params, codes, block)
    if law is not None and adaptive:
        correction = jnp.broadcast_to(law.log_probability(params, codes, block, iter(block.touch[len(graph.groups) :])), scores.shape)
        scores = scores + correction
    possible = _rest_possible(graph, params, codes, block, scores)
    return jnp.where(possible, scores - logsumexp(scores)[:, None], jnp.nan)[0]
