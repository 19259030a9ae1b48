"""Scores and second derivatives of rows whose missing cells are enumerated, as matrix products.

A term's loss is log sum_v exp s(v) - log sum_{v agreeing} exp s(v). Let p and q be the
probabilities of its joint values without and with the observed cells of K, and phi(v) = grad s(v).
Then

    grad = E_p phi - E_q phi,    Hessian = Cov_p phi - Cov_q phi + sum_v (p - q)(v) Hessian s(v).

The scores s are linear in the entries of tables, so the last part is the Hessian of a sum of
entries with constant factors.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._energy import Params
from ._listed import Entries, ListedRows, Listing, Terms

Vector = Float[Array, " parameters"]
Directions = Float[Array, "parameters directions"]
Found = tuple[Float[Array, "directions directions"], Float[Array, "rows directions"]]
# Maximum number of derivatives of scores held at once. As many weighted derivatives are held beside
# them: 1 GiB for both.
MOST_DERIVATIVES = 1 << 26


def listed_second_order(
    gaps: ListedRows, at: Callable[[Vector], Params], vector: Vector, directions: Directions, weights: Float[Array, " rows"], affine: bool
) -> Found:
    """Return the Hessian of the weighted sum of losses, and the weighted score of each row.

    The Hessian is that of the sum of weight * loss over rows. The score of a row is weight * grad
    loss. Both are taken in some directions.

    Args:
        gaps: the rows.
        at: a function that returns parameters from a flat vector.
        vector: the flat vector at which derivatives are taken.
        directions: the directions, as columns.
        weights: the weight of each row.
        affine: whether factors are affine in the flat vector.
    """
    count, rows = directions.shape[1], gaps.codes.shape[1]
    dense, others = (tuple(x for x in gaps.listings if _is_dense(x, count) == d) for d in (True, False))
    found = jnp.zeros((count, count)), jnp.zeros((rows, count))
    found = gaps.over_chunks(lambda t, x, terms: _add(t, gaps, x, terms, at, vector, directions, weights, affine), found, dense)
    if not others:
        return found
    rest, weights = ListedRows(gaps.graph, gaps.codes, others, gaps.cost), jnp.maximum(weights, 0.0)

    def slope(d: Vector) -> tuple[Array, Array]:
        curved = jax.jvp(jax.grad(lambda v: (weights * rest.rows(at(v))).sum()), (vector,), (d,))[1]
        return directions.T @ curved, weights * jax.jvp(lambda v: rest.rows(at(v)), (vector,), (d,))[1]

    hessian, scores = jax.lax.map(slope, directions.T)
    return found[0] + hessian, found[1] + scores.T


def second_order_cost(gaps: ListedRows, count: int) -> float:
    """Return the number of evaluations of `listed_second_order` in `count` directions."""
    values = sum(float(x.values * x.terms.rows.size) for x in gaps.listings)
    return count * (2 * float(gaps.cost) + count * values / 64)


def _is_dense(listing: Listing, count: int) -> bool:
    """Return whether the derivatives of a chunk's scores in `count` directions fit into memory."""
    return listing.values * listing.terms.rows.shape[-1] * count <= MOST_DERIVATIVES


def _add(
    total: Found,
    gaps: ListedRows,
    listing: Listing,
    terms: Terms,
    at: Callable[[Vector], Params],
    vector: Vector,
    directions: Directions,
    row_weights: Array,
    affine: bool,
) -> Found:
    """Return the total with a chunk of terms added."""

    def entries(v: Vector) -> tuple[Entries, Entries | None]:
        return listing.entries(gaps.graph, at(v), terms)

    # The factors are linearised when they are evaluated: each direction then needs only sums of
    # their slopes.
    found, along, bad = jax.linearize(entries, vector, has_aux=True)
    axis = 1 if listing.by_term else 0
    scores = listing.scores(terms, found, bad)
    sums = [listing.log_sums(s) for s in scores]
    alive = (terms.weights > 0) & (sums[1] > -jnp.inf)
    weights = jnp.where(alive, terms.weights * jnp.maximum(row_weights[terms.rows], 0.0), 0.0)
    p, q = (jnp.exp(s - jnp.expand_dims(jnp.where(alive, log_sum, jnp.inf), axis)) for s, log_sum in zip(scores, sums, strict=True))
    phi = jax.lax.map(lambda d: listing.listed(along(d)), directions.T)
    apart = (p - q) * jnp.expand_dims(weights, axis)
    flat = phi.reshape(phi.shape[0], -1)
    means = [(phi * law[None]).sum(axis=1 + axis) for law in (p, q)]
    hessian = (flat * apart.reshape(1, -1)) @ flat.T - (means[0] * weights[None]) @ means[0].T + (means[1] * weights[None]) @ means[1].T
    if not affine:
        factors = jax.vjp(listing.listed, found)[1](apart)[0]
        gradient = jax.grad(lambda v: (entries(v)[0] * factors).sum())
        hessian = hessian + jax.lax.map(lambda d: directions.T @ jax.jvp(gradient, (vector,), (d,))[1], directions.T)
    return total[0] + hessian, total[1].at[terms.rows].add((weights[None] * (means[0] - means[1])).T)
