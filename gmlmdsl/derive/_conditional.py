"""Conditionals of blocks given the rest: tables of log p(x_K | x_rest), and draws from them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._arrays import Blocks, Graph, put_value
from ._energy import Codes, Params, local_scores, log_potential


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
