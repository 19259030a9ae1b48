"""Standard errors of what was optimised, and the directions that data and prior leave open."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..derive import log_potential
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
        coupling: what the imputed cells' own dependence on the parameters adds to the derivative of the estimating equation.
    """

    basis: Array
    hessian: Array
    score: Array
    one_mask: Array | None
    coupling: Array | None = None

    def covariance(self, score: Array | None = None) -> tuple[Array, Array]:
        """The sandwich H^+ S H^+' in parameter space, and an orthonormal basis of the undetermined directions."""
        values, vectors = np.linalg.eigh(self.hessian)
        determined = values > SINGULAR * max(values.max(initial=0.0), 1e-300)
        if self.coupling is None:
            inverse = (vectors[:, determined] / values[determined]) @ vectors[:, determined].T
        else:
            seen = vectors[:, determined]
            inverse = seen @ np.linalg.pinv(seen.T @ (self.hessian + self.coupling) @ seen) @ seen.T
        spread = self.basis @ inverse
        return spread @ (self.score if score is None else score) @ spread.T, self.basis @ vectors[:, ~determined]


@dataclass(frozen=True)
class Copies:
    """Imputed rows among an objective's: `rows` of them from column `first` on, `count` completed copies of each side by side.

    `redrawn` are further completions of the same columns, shape (draws, cells, columns), so that more than `count` are seen.
    """

    first: int
    rows: int
    count: int
    redrawn: Array | None = None

    @property
    def columns(self) -> slice:
        """Where the copies stand."""
        return slice(self.first, self.first + self.rows * self.count)


def curvature(
    objective: Objective,
    params: dict[str, jax.Array],
    colours: Colouring | None,
    copies: Copies | None = None,
    rough: bool = False,
) -> Curvature:
    """Hessian and score covariance at an estimate.

    The sandwich (Godambe) covariance of the minimiser of sum_r c w_r loss_r - log prior is H^-1 S H^-1 with H its Hessian and
    S = sum_r (u_r - mean u)(u_r - mean u)', u_r = c w_r grad loss_r. Of an imputed row, u_r is the mean over its copies; the
    imputations follow p(missing | observed) at the estimate, and that adds c w_r Cov(grad loss_r, grad log p) over the copies to H.

    Args:
        objective: what was minimised.
        params: where.
        colours: of an exponential family under all masks: local statistics then give the sums; None: automatic differentiation.
        copies: which rows are imputed.
        rough: leave rows with gaps out, where there are local statistics of others.

    Reference: Li et al. 2024, Lemmas 1 and 2; White 1982; for imputed cells Louis 1982, Robins and Wang 2000.
    """
    host = objective.frame.host
    basis = tangent(host, frozenset(objective.frame.fixed))
    if rough and colours is not None:
        objective, copies = dataclasses.replace(_without(objective, copies), gaps=None, gap_weights=None), None
    vector, n = flatten(host, params), max(float(objective.n_rows), 1.0)
    one_mask = coupling = None
    if copies is not None:
        n -= copies.rows * (copies.count - 1)
    if colours is None:
        hessian = np.asarray(_hessian(objective, vector, jnp.asarray(basis))) * float(objective.scale)
        second, first = (np.asarray(a) for a in _scores(_without(objective, copies), vector, jnp.asarray(basis)))
    else:
        c, sums = float(objective.factor), second_order(objective, vector, colours)
        known = sums if copies is None else second_order(_without(objective, copies), vector, colours)
        hessian = basis.T @ (c * sums.hessian - np.asarray(_prior_hessian(objective, vector))) @ basis
        second, first = c**2 * basis.T @ known.second @ basis, c * basis.T @ known.first
        if sums.one_mask is not None and copies is None:
            one_mask = c**2 * basis.T @ sums.one_mask @ basis - np.outer(first, first) / n
        if objective.gaps is not None:
            hessian = hessian + c * np.asarray(_gap_hessian(objective, vector, jnp.asarray(basis)))
    if copies is not None:
        u, coupling = _imputed(objective, vector, basis, copies)
        second, first = second + u.T @ u, first + u.sum(axis=0)
    if objective.gaps is not None:
        u = np.asarray(_gap_scores(objective, vector, jnp.asarray(basis)))
        second, first, one_mask = second + u.T @ u, first + u.sum(axis=0), None
    score = second - np.outer(first, first) / n
    return Curvature(basis, 0.5 * (hessian + hessian.T), score, one_mask, coupling)


def _without(objective: Objective, copies: Copies | None) -> Objective:
    """The objective without its imputed rows."""
    if copies is None:
        return objective
    weights = objective.weights.at[copies.columns].set(0)
    return eqx.tree_at(lambda o: o.weights, objective, weights)


@eqx.filter_jit
def _gap_hessian(objective: Objective, vector: jax.Array, basis: jax.Array) -> jax.Array:
    gradient = jax.grad(lambda v: objective.gap_total(unflatten(objective.frame.host, v)))
    return jax.lax.map(lambda d: basis.T @ jax.jvp(gradient, (vector,), (d,))[1], basis.T)


@eqx.filter_jit
def _gap_scores(objective: Objective, vector: jax.Array, basis: jax.Array) -> jax.Array:
    """u_r of the rows whose gaps are summed out, in the directions of `basis`, shape (rows, directions)."""
    assert objective.gaps is not None
    assert objective.gap_weights is not None
    gaps, host, weights = objective.gaps, objective.frame.host, objective.gap_weights
    slopes = jax.lax.map(lambda d: jax.jvp(lambda v: gaps.rows(unflatten(host, v)), (vector,), (d,))[1], basis.T)
    return objective.factor * jnp.where(weights > 0, weights, 0.0)[:, None] * slopes.T


def _imputed(objective: Objective, vector: jax.Array, basis: Array, copies: Copies) -> tuple[Array, Array]:
    """u_r of the imputed rows and the coupling, means over the completions."""
    completions = [objective.codes[:, copies.columns]] if copies.redrawn is None else [jnp.asarray(c) for c in copies.redrawn]
    shape = (copies.rows, copies.count)
    found = [_imputed_scores(objective, vector, jnp.asarray(basis), codes, copies.first, shape) for codes in completions]
    return np.mean([np.asarray(u) for u, _ in found], axis=0), np.mean([np.asarray(c) for _, c in found], axis=0)


@eqx.filter_jit
def _imputed_scores(
    objective: Objective, vector: jax.Array, basis: jax.Array, completed: jax.Array, first: int, shape: tuple[int, int]
) -> tuple[jax.Array, jax.Array]:
    """u_r of the imputed rows, and the sum of c w_r Cov(grad loss_r, grad log p); (rows, directions) and (directions, directions)."""
    host = objective.frame.host
    columns = slice(first, first + shape[0] * shape[1])

    def by_row(a: jax.Array) -> jax.Array:
        return jnp.moveaxis(a.reshape(*a.shape[:-1], *shape), -2, 0)

    def row(piece: tuple[jax.Array, jax.Array, jax.Array | None]) -> tuple[jax.Array, jax.Array]:
        codes, weights, masks = piece

        def one(c: jax.Array, m: jax.Array | None) -> tuple[jax.Array, jax.Array]:
            drawn = None if m is None else m[..., None]
            loss = jax.grad(lambda v: objective.rows(unflatten(host, v), c[:, None], drawn)[0])(vector)
            joint = jax.grad(lambda v: log_potential(objective.loss.graph, unflatten(host, v), c[:, None])[0])(vector)
            return basis.T @ loss, basis.T @ joint

        g, s = jax.vmap(one, in_axes=(1, None if masks is None else 2))(codes, masks)
        weight = objective.factor * weights.sum()
        apart = (g - g.mean(axis=0)).T @ (s - s.mean(axis=0)) / (shape[1] - 1)
        return weight * g.mean(axis=0), weight * apart

    masks = None if objective.masks is None else objective.masks[..., columns]
    u, coupling = jax.lax.map(row, jax.tree.map(by_row, (completed, objective.weights[columns], masks)))
    return u, coupling.sum(axis=0)


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
