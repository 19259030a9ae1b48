"""Second derivatives and scores of the rows that lack cells."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..derive import listed_second_order, quickly_compiled
from ._convexity import is_affine
from ._objective import Objective, finite
from ._parameters import unflatten


@quickly_compiled()
def gap_second_order(objective: Objective, vector: jax.Array, basis: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the Hessian and the scores of the rows that lack cells.

    The first is basis' H basis, with the Hessian H of the sum of c w_r loss_r. The second is u_r =
    c w_r grad loss_r along the basis, shape (rows, directions).
    """
    gaps, host = objective.gaps, objective.frame.host
    assert gaps is not None
    assert objective.gap_weights is not None
    hessian, scores = jnp.zeros((basis.shape[1], basis.shape[1])), jnp.zeros((gaps.count, basis.shape[1]))
    if gaps.listed is not None:
        weights = objective.gap_weights[gaps.places[0]]
        hessian, found = listed_second_order(gaps.listed, lambda v: unflatten(host, v), vector, basis, weights, is_affine(host))
        scores = scores.at[gaps.places[0]].set(found)
    if gaps.eliminated is not None:
        weights, rows = objective.gap_weights[gaps.places[1]], gaps.eliminated.rows

        def weighted(v: jax.Array) -> jax.Array:
            return weights * finite(rows(unflatten(host, v)), weights)

        def slope(d: jax.Array) -> tuple[jax.Array, jax.Array]:
            curved = jax.jvp(jax.grad(lambda v: weighted(v).sum()), (vector,), (d,))[1]
            return basis.T @ curved, jax.jvp(weighted, (vector,), (d,))[1]

        more, found = jax.lax.map(slope, basis.T)
        hessian, scores = hessian + more, scores.at[gaps.places[1]].set(found.T)
    return objective.factor * hessian, objective.factor * scores
