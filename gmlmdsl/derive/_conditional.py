"""Conditionals of blocks given the rest: tables of log p(x_K | x_rest), and draws from them."""

from __future__ import annotations

from functools import reduce

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._arrays import Blocks, Graph, put_value
from ._energy import Codes, Params, local_scores, log_potential
from ._picks import LISTED, pick_along, pick_of_weights
from ._random import Words

MOST_WRITTEN_OUT = 4  # up to this number of values their sum is written out


def normalise(scores: Float[Array, "blocks values rows"]) -> Float[Array, "blocks values rows"]:
    """Return log probabilities over the values; nan if all are -inf: the rest is impossible."""
    return scores - logsumexp(scores)[:, None]


def logsumexp(scores: Float[Array, "blocks values rows"]) -> Float[Array, "blocks rows"]:
    """Return the log sum of exponentials over the values, -inf if all of them are -inf.

    The gradient is finite if at least one value is finite. The result is nan where a value is +inf
    or nan: a factor is undefined there, which happens only for traced parameters.
    """
    top = jax.lax.stop_gradient(scores.max(axis=1, keepdims=True))
    safe = jnp.where(jnp.isfinite(top), top, 0.0)
    total = jnp.exp(scores - safe).sum(axis=1)
    positive = total > 0
    found = jnp.where(positive, jnp.log(jnp.where(positive, total, 1.0)) + safe[:, 0], -jnp.inf)
    return jnp.where(top[:, 0] < jnp.inf, found, jnp.nan)


def total(scores: Float[Array, "width values *rest"]) -> Array:
    """Return the log sum of exponentials over the values; nan as in `logsumexp`.

    All other axes are flattened into one, because a loop with a short innermost axis is not
    vectorised. For the same reason a sum over few values is written out.
    """
    flat = scores.reshape(*scores.shape[:2], -1)
    if flat.shape[1] > MOST_WRITTEN_OUT:
        return logsumexp(flat).reshape(scores.shape[0], *scores.shape[2:])
    values = [flat[:, v] for v in range(flat.shape[1])]
    top = jax.lax.stop_gradient(reduce(jnp.maximum, values))
    safe = jnp.where(jnp.isfinite(top), top, 0.0)
    weight = sum((jnp.exp(v - safe) for v in values[1:]), jnp.exp(values[0] - safe))
    some = weight > 0
    found = jnp.where(some, jnp.log(jnp.where(some, weight, 1.0)) + safe, -jnp.inf)
    found = jnp.where(top < jnp.inf, found, jnp.nan)
    return found.reshape(scores.shape[0], *scores.shape[2:])


def maximum(scores: Float[Array, "width values *rest"]) -> Array:
    """Return the maximum over the values."""
    return scores.max(axis=1)


def tempered(scores: Float[Array, "*shape rows"], beta: Float[Array, " rows"]) -> Float[Array, "*shape rows"]:
    """Return the scores of p to the power beta, which multiplies every factor by beta.

    Impossible values keep the score -inf, even at beta 0.
    """
    return jnp.where(scores == -jnp.inf, -jnp.inf, beta.reshape((1,) * (scores.ndim - 1) + (-1,)) * scores)


def log_conditional(
    graph: Graph, params: Params, codes: Codes, blocks: Blocks, correction: Float[Array, "blocks values rows"] | None = None
) -> Float[Array, "blocks values rows"]:
    """Return the table log p(x_K | x_rest) of each block.

    Given `correction` = log p(K | x'), return log p(x_K | x_rest, K).

    Reference: Li et al. 2024, Definitions 2 and 7.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: the configurations, shape (cells, rows).
        blocks: the blocks K.
        correction: a number to add to each score, or None.
    """
    scores = local_scores(graph, params, codes, blocks)
    return normalise(scores if correction is None else scores + correction)


def rest_possible(
    graph: Graph, params: Params, codes: Codes, blocks: Blocks, scores: Float[Array, "1 values rows"]
) -> Bool[Array, " rows"]:
    """Return whether some value of the block has positive probability with the rest of `codes`.

    `scores` covers only the factors that touch the block, but a zero of another factor makes the
    rest itself impossible.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: the configurations, shape (cells, rows).
        blocks: exactly one block.
        scores: the scores of its values.
    """
    best = put_value(blocks, codes, jnp.argmax(scores, axis=1).astype(jnp.int32), jnp.zeros((1, codes.shape[1]), bool))
    return jnp.isfinite(scores.max(axis=1)[0]) & (log_potential(graph, params, best) > -jnp.inf)


def pick_value(scores: Float[Array, "blocks values rows"], words: Words) -> tuple[Int[Array, "blocks rows"], Array]:
    """Draw one value per block in proportion to exp(scores), and return whether any is possible.

    `words` are random words of shape (blocks, rows).
    """
    if scores.shape[1] <= LISTED:
        return pick_of_few([scores[:, v] for v in range(scores.shape[1])], words)
    top = scores.max(axis=1)
    possible = jnp.isfinite(top)
    return pick_along(scores - jnp.where(possible, top, 0.0)[:, None], words, 1, jnp.exp), possible


def pick_of_few(scores: list[Float[Array, "blocks rows"]], words: Words) -> tuple[Int[Array, "blocks rows"], Array]:
    """Do the same as `pick_value`, written out value by value.

    This is one loop over blocks and rows, whereas sums along an axis would take several loops.
    """
    top = reduce(jnp.maximum, scores)
    possible = jnp.isfinite(top)
    safe = jnp.where(possible, top, 0.0)
    return pick_of_weights([jnp.exp(s - safe) for s in scores], words), possible
