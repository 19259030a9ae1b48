"""Derived functions, each compiled as one program.

Evaluated operation by operation, each function would compile dozens of small programs.
"""

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
from ._summed_loss import EnumeratedLoss, HiddenRows, SummedRows
from ._sums import evidence, log_sum

all_values = bounded_jit(_all_values)
local_scores = bounded_jit(_local_scores)
log_potential = bounded_jit(_log_potential)
rest_possible = bounded_jit(_rest_possible)
log_marginal = bounded_jit(_log_marginal)


@bounded_jit
def block_levels(graph: Graph, params: Params, codes: Codes, blocks: Blocks) -> jax.Array:
    """Return the log normaliser of each block, which `log_conditional` subtracts.

    It is log sum over x_K of exp(the sum of the factors that touch K), shape (blocks, rows).

    Args:
        graph: the factor graph.
        params: parameters.
        codes: codes of the rows, shape (cells, rows).
        blocks: the blocks.
    """
    return logsumexp(_local_scores(graph, params, codes, blocks))


@bounded_jit
def complete_rows(loss: AbstractLoss, params: Params, codes: Codes, masks: jax.Array | None) -> jax.Array:
    """Return the loss of rows without missing values.

    The loss is inf for an impossible row. It is 0 for a row whose K is empty, even an impossible
    one.

    Args:
        loss: the loss of a mask.
        params: parameters.
        codes: codes of the rows, shape (cells, rows).
        masks: drawn masks of the rows, for losses that take them; else None.
    """
    found, some = loss.rows_and_reach(params, codes, masks)
    return jnp.where((_log_potential(loss.graph, params, codes) == -jnp.inf) & some, jnp.inf, found)


@bounded_jit
def drawn_masks(law: AbstractMaskLaw, params: Params, codes: Codes, rows: jax.Array, key: jax.Array, count: int) -> jax.Array:
    """Draw `count` masks for every row, shape (masks, members, rows).

    The masks of a row depend only on the key and on the number of the row in `rows`.

    Args:
        law: the distribution of the mask.
        params: parameters.
        codes: codes of the rows, shape (cells, rows).
        rows: the number of each row, shape (rows,).
        key: the key of all draws.
        count: the number of masks for each row.
    """

    def once(k: jax.Array) -> jax.Array:
        return law.draw(params, codes, fold(jnp.broadcast_to(k, rows.shape), rows))

    return jax.vmap(once)(jax.random.split(key, count))


@bounded_jit
def hidden_losses(loss: AbstractLoss, params: Params, codes: Codes, masks: jax.Array | None) -> jax.Array:
    """Return the loss of each row, with its missing cells summed out by elimination.

    Args:
        loss: the loss of a mask.
        params: parameters.
        codes: codes of the rows, -1 for a missing cell, shape (cells, rows).
        masks: drawn masks of the rows, for losses that take them; else None.
    """
    return HiddenRows(loss, codes, masks, codes.shape[1], 0.0).rows(params)


@bounded_jit
def gap_rows(gaps: SummedRows, params: Params) -> jax.Array:
    """Return the loss of rows with missing cells."""
    return gaps.rows(params)


@bounded_jit
def block_table(loss: EnumeratedLoss, params: Params, codes: Codes, cells: jax.Array) -> jax.Array:
    """Return log p(x_K | observed[, K]) of one block for every row, shape (values, rows).

    Entries are nan where the observed values of a row are impossible.

    Args:
        loss: the loss whose scores are normalised; K is conditioned on if it has a `law`.
        params: parameters.
        codes: codes of the rows, -1 for a missing cell, shape (cells, rows).
        cells: the block K, as an array with an entry for each cell.
    """
    mask = jnp.broadcast_to(cells[:, None], (cells.shape[0], codes.shape[1]))
    scores = loss.scores(params, codes, mask)
    if loss.law is not None:
        scores = scores + loss.log_law(params, codes, mask)[0]
    top = logsumexp(scores[None])[0]
    return jnp.where(jnp.isfinite(top), scores - top[None], jnp.nan)


@bounded_jit
def log_observed(graph: Graph, params: Params, codes: Codes, c: Contraction) -> jax.Array:
    """Return the log sum of exp(log_potential) over the missing cells of each row, shape (rows,).

    A missing cell has the code -1.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: codes of the rows, shape (cells, rows).
        c: the contraction over the cells that may be missing.
    """
    return log_sum(graph, params, jnp.maximum(codes, 0), c, evidence(graph, codes, c))


@bounded_jit
def conditional_table(graph: Graph, params: Params, codes: Codes, block: Blocks, law: AbstractMaskLaw | None, adaptive: bool) -> jax.Array:
    """Return log p(x_K | x_rest[, K]) of one block, shape (values, rows).

    Entries are nan where the rest x_rest is impossible.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: codes of the rows, shape (cells, rows).
        block: the block K.
        law: the distribution of the mask, or None.
        adaptive: whether the mask is data-dependent; only then does `law` change the table.
    """
    scores = _local_scores(graph, params, codes, block)
    if law is not None and adaptive:
        correction = jnp.broadcast_to(law.log_probability(params, codes, block, iter(block.touch[len(graph.groups) :])), scores.shape)
        scores = scores + correction
    possible = _rest_possible(graph, params, codes, block, scores)
    return jnp.where(possible, scores - logsumexp(scores)[:, None], jnp.nan)[0]
