"""Standard errors of what was optimised, and the directions that data and prior leave open."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._objective import Objective, finite
from ._parameters import flatten, log_prior, tangent, unflatten
from ._statistics import Colouring, second_order

Array = np.ndarray
SINGULAR = 1e-9  # of the largest eigenvalue: below, a direction is undetermined


@dataclass(frozen=True)
class Curvature:
    """The objective's second-order picture at an estimate, on the tangent space.

    Attributes:
        basis: orthonormal directions, shape (parameters, dimensions).
        hessian: of the objective in those directions.
        score: the covariance of the rows' contributions to its gradient, summed over rows.
        one_mask: the same if each row had one mask drawn, where it can be computed.
    """

    basis: Array
    hessian: Array
    score: Array
    one_mask: Array | None

    def covariance(self, score: Array | None = None) -> tuple[Array, Array]:
        """The sandwich H^+ S H^+ in parameter space, and an orthonormal basis of the undetermined directions."""
        values, vectors = np.linalg.eigh(self.hessian)
        determined = values > SINGULAR * max(values.max(initial=0.0), 1e-300)
        inverse = (vectors[:, determined] / values[determined]) @ vectors[:, determined].T
        spread = self.basis @ inverse
        return spread @ (self.score if score is None else score) @ spread.T, self.basis @ vectors[:, ~determined]


def curvature(objective: Objective, params: dict[str, jax.Array], colours: Colouring | None) -> Curvature:
    """Hessian and score covariance at an estimate.

    The sandwich (Godambe) covariance of the minimiser of sum_r c w_r loss_r - log prior is H^-1 S H^-1 with H its Hessian and
    S = sum_r (u_r - mean u)(u_r - mean u)', u_r = c w_r grad loss_r.

    Args:
        objective: what was minimised.
        params: where.
        colours: of an exponential family under all masks: local statistics then give the sums; None: automatic differentiation.

    Reference: Li et al. 2024, Lemmas 1 and 2; White 1982.
    """
    host = objective.frame.host
    basis = tangent(host, frozenset(objective.frame.fixed))
    vector, n = flatten(host, params), max(float((objective.weights > 0).sum()), 1.0)
    one_mask = None
    if colours is None:
        hessian = np.asarray(_hessian(objective, vector, jnp.asarray(basis))) * float(objective.scale)
        second, first = (np.asarray(a) for a in _scores(objective, vector, jnp.asarray(basis)))
    else:
        c, sums = float(objective.factor), second_order(objective, vector, colours)
        hessian = basis.T @ (c * sums.hessian - np.asarray(_prior_hessian(objective, vector))) @ basis
        second, first = c**2 * basis.T @ sums.second @ basis, c * basis.T @ sums.first
        if sums.one_mask is not None:
            one_mask = c**2 * basis.T @ sums.one_mask @ basis - np.outer(first, first) / n
    score = second - np.outer(first, first) / n
    return Curvature(basis, 0.5 * (hessian + hessian.T), score, one_mask)


@eqx.filter_jit
def _prior_hessian(objective: Objective, vector: jax.Array) -> jax.Array:
    host = objective.frame.host
    return jax.hessian(lambda v: log_prior(host, unflatten(host, v)))(vector)


@eqx.filter_jit
def _hessian(objective: Objective, vector: jax.Array, basis: jax.Array) -> jax.Array:
    """basis' H basis, one Hessian-vector product at a time: side by side they leave the cache and are slower."""
    gradient = jax.grad(lambda v: objective.at(unflatten(objective.frame.host, v)))
    return jax.lax.map(lambda d: basis.T @ jax.jvp(gradient, (vector,), (d,))[1], basis.T)


@eqx.filter_jit
def _scores(objective: Objective, vector: jax.Array, basis: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sums over rows of u u' and of u, in the directions of `basis`."""
    host = objective.frame.host

    def row(codes: jax.Array, weight: jax.Array, masks: jax.Array | None) -> jax.Array:
        def loss(v: jax.Array) -> jax.Array:
            m = None if masks is None else masks[..., None]
            return finite(objective.rows(unflatten(host, v), codes[:, None], m), weight[None])[0]

        return objective.factor * weight * (basis.T @ jax.grad(loss)(vector))

    def chunk(codes: jax.Array, weights: jax.Array, masks: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        axes = (1, 0, None if masks is None else 2)
        u = jax.vmap(row, in_axes=axes)(codes, weights, masks)
        return u.T @ u, u.sum(axis=0)

    return objective.sum_rows(chunk)
