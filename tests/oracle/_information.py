"""Fisher information, Hessians, score covariances and asymptotic covariances by numerical differentiation of log p and of losses.

Only the log weights are evaluated at moved parameters; losses and log p are formed from them there, and differentiated as they
stand. No identity between Hessian and score covariance is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gmlmdsl.program import ir

from ._conditionals import log_sum
from ._expressions import Scope, evaluate
from ._theory import seen, visible, visible_log_weights

if TYPE_CHECKING:
    from ._oracle import Oracle, Params

STEPS = np.arange(-5, 6)
# Central differences of tenth order: of the first derivative (odd) and of the second (even).
FIRST = np.array([-1 / 1260, 5 / 504, -5 / 84, 5 / 21, -5 / 6, 0, 5 / 6, -5 / 21, 5 / 84, -5 / 504, 1 / 1260])
SECOND = np.array([1 / 3150, -5 / 1008, 5 / 126, -5 / 21, 5 / 3, -5269 / 1800, 5 / 3, -5 / 21, 5 / 126, -5 / 1008, 1 / 3150])
STEP = 0.02
NEAR = 0.05  # of the way to a bound of a parameter, at most
NULL = 1e-8  # an eigenvalue below this share of the largest is zero


def tangent(oracle: Oracle) -> np.ndarray:
    """An orthonormal basis of the flat directions that gauges and simplexes leave free: (parameters, dimensions).

    The projection of one array takes the mean along every axis whose sums are fixed; its eigenvectors of eigenvalue 1 are the basis.
    """
    columns, at = [], 0
    shapes = {n: oracle.parameter_shape(n) for n in oracle.model.parameters}
    total = sum(int(np.prod(s)) for s in shapes.values())
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        projection = np.eye(size).reshape(size, *shape)
        for axis in _fixed_axes(oracle, name):
            projection = projection - projection.mean(axis=axis + 1, keepdims=True)
        values, vectors = np.linalg.eigh(projection.reshape(size, size))
        free = np.zeros((total, int((values > 0.5).sum())))
        free[at : at + size] = vectors[:, values > 0.5]
        columns.append(free)
        at += size
    return np.concatenate(columns, axis=1) if columns else np.zeros((0, 0))


def _fixed_axes(oracle: Oracle, name: str) -> list[int]:
    axes = oracle.bound.parameters[name]
    if oracle.model.parameters[name].type.kind == "simplex":
        return [len(axes) - 1]
    if name not in [g for g, _ in oracle.model.gauges]:
        return []
    return [k for k, a in enumerate(axes) if a.over is not None and a.over.kind == "domain"]


def _room(oracle: Oracle, params: Params) -> np.ndarray:
    """How far every flat entry is from a bound of its type."""
    room = []
    for name, p in oracle.model.parameters.items():
        value = np.ravel(np.asarray(params[name], dtype=float))
        low = 0.0 if p.type.kind in ("positive", "simplex") else -np.inf
        low, high = (b if e is None else float(evaluate(e, Scope(oracle.bound))) for e, b in ((p.type.lower, low), (p.type.upper, np.inf)))
        room.append(np.minimum(value - low, high - value))
    return np.concatenate(room)


class Moved:
    """The log weights of every configuration of the support, at parameters moved along lines through `params`.

    The lines are those of the tangent basis and of the sums of two of its directions: enough for all second derivatives.
    """

    def __init__(self, oracle: Oracle, params: Params, near: float = NEAR):
        self.oracle, self.params, self.near = oracle, params, near
        self.basis = tangent(oracle)
        self.dimensions = self.basis.shape[1]
        self.pairs = list(itertools.combinations(range(self.dimensions), 2))
        here = visible(oracle, params)
        self.numbers, self.p = here.numbers, here.p

    def _line(self, direction: np.ndarray) -> tuple[float, np.ndarray]:
        """The step and the log weights at its multiples."""
        rate = np.max(np.abs(direction) / _room(self.oracle, self.params))
        step = STEP if rate == 0 else min(STEP, self.near / rate)
        flat = np.concatenate([np.ravel(np.asarray(self.params[n], dtype=float)) for n in self.oracle.model.parameters])
        return step, np.array([self._weights(flat + t * step * direction)[self.numbers] for t in STEPS])

    def _weights(self, flat: np.ndarray) -> np.ndarray:
        out, at = {}, 0
        for name in self.oracle.model.parameters:
            shape = self.oracle.parameter_shape(name)
            size = int(np.prod(shape))
            out[name] = flat[at : at + size].reshape(shape)
            at += size
        return visible_log_weights(self.oracle, out)

    @cached_property
    def along(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps (directions,) and log weights (directions, nodes, configurations) of the basis."""
        lines = [self._line(v) for v in self.basis.T]
        return np.array([h for h, _ in lines]), np.array([w for _, w in lines]).reshape(-1, len(STEPS), len(self.p))

    @cached_property
    def across(self) -> tuple[np.ndarray, np.ndarray]:
        """The same for the sums of two directions."""
        lines = [self._line(self.basis[:, a] + self.basis[:, b]) for a, b in self.pairs]
        return np.array([h for h, _ in lines]), np.array([w for _, w in lines]).reshape(-1, len(STEPS), len(self.p))

    def slopes(self, values: np.ndarray) -> np.ndarray:
        """First derivatives of values at (directions, nodes, ..)."""
        return np.einsum("t,dt...->d...", FIRST, values) / self.along[0].reshape(-1, *[1] * (values.ndim - 2))

    def curvatures(self, along: np.ndarray, across: np.ndarray) -> np.ndarray:
        """Second derivatives (dimensions, dimensions) of numbers at (lines, nodes), by polarisation."""
        once = along @ SECOND / self.along[0] ** 2
        out = np.diag(once)
        for (a, b), both in zip(self.pairs, across @ SECOND / self.across[0] ** 2, strict=True):
            out[a, b] = out[b, a] = (both - once[a] - once[b]) / 2
        return out

    def fisher(self) -> np.ndarray:
        """Cov of the gradient of log p, in the basis."""
        weights = self.along[1]
        u = self.slopes(weights - log_sum(weights, (2,)))
        return _covariance(u.T, self.p)


@dataclass(frozen=True)
class Estimation:
    """Hessian and score covariances of a mask's loss in the tangent basis, and Fisher information; the mean over rows of given data."""

    basis: np.ndarray
    fisher: np.ndarray
    hessian: np.ndarray
    score: np.ndarray

    def flat(self, matrix: np.ndarray) -> np.ndarray:
        """In the flat parameters."""
        return self.basis @ matrix @ self.basis.T

    def covariance(self) -> np.ndarray:
        """H^+ S H^+ where the law moves; inf and nan for parameters with a part in a direction that moves p and not the loss."""
        _, moves = _split(self.fisher, np.trace(self.fisher))
        hessian = moves.T @ self.hessian @ moves
        blind, sees = _split(hessian, np.trace(self.fisher))
        inverse = sees @ np.linalg.inv(sees.T @ hessian @ sees) @ sees.T
        out = self.flat(moves @ inverse @ moves.T @ self.score @ moves @ inverse @ moves.T)
        lost = np.linalg.norm(self.basis @ moves @ blind, axis=1) > 1e-6
        out[lost] = out[:, lost] = np.nan
        out[lost, lost] = np.inf
        return out


def _split(matrix: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvectors of eigenvalue 0 and the others."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors[:, values <= NULL * scale], vectors[:, values > NULL * scale]


def _covariance(u: np.ndarray, p: np.ndarray) -> np.ndarray:
    mean = p @ u
    return (u - mean).T @ (p[:, None] * (u - mean))


def estimation(rows: Sequence[Moved], mask: str | ir.Mask, n_masks: int | None) -> Estimation:
    """For one model, or for as many rows of given data as there are, each as likely as the others.

    Args:
        rows: the model at its parameters, with each row's given data.
        mask: the mask; its p(K | x) does not move with the parameters.
        n_masks: how many masks are drawn for a row; None: the mean over all of them.
    """
    parts = [(m.fisher(), hessian(m, mask), score_covariance(m, mask, n_masks)) for m in rows]
    fisher, curvature, score = (np.mean([p[k] for p in parts], axis=0) for k in range(3))
    return Estimation(rows[0].basis, fisher, curvature, score)


def _losses(weights: np.ndarray, members: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """-log p(x_K | x_-K, K) of the members of one list, at moved log weights (.., configurations)."""
    own = weights[..., members] + np.log(probabilities)
    return log_sum(own, (own.ndim - 1,)) - own


def hessian(m: Moved, mask: str | ir.Mask) -> np.ndarray:
    """E of the second derivatives of the loss."""
    along, across = np.zeros((m.dimensions, len(STEPS))), np.zeros((len(m.pairs), len(STEPS)))
    for s in seen(m.oracle, m.params, mask):
        mass = m.p[s.members] * s.weights
        along += _losses(m.along[1], s.members, s.weights) @ mass
        across += _losses(m.across[1], s.members, s.weights) @ mass
    return m.curvatures(along, across)


def gradients(m: Moved, mask: str | ir.Mask) -> list[list[tuple[float, np.ndarray]]]:
    """For every configuration, p(K | x) and the gradient of the loss for every K."""
    out: list[list[tuple[float, np.ndarray]]] = [[] for _ in m.p]
    for s in seen(m.oracle, m.params, mask):
        slope = m.slopes(_losses(m.along[1], s.members, s.weights))
        for x, probability, g in zip(s.members, s.weights, slope.T, strict=True):
            out[x].append((float(probability), g))
    return out


def score_covariance(m: Moved, mask: str | ir.Mask, n_masks: int | None) -> np.ndarray:
    """Cov of the gradient of a row's loss: the mean over all masks, or over `n_masks` that are drawn (every choice of them listed)."""
    scores, chances = [], []
    for p_x, own in zip(m.p, gradients(m, mask), strict=True):
        probability, g = np.array([q for q, _ in own]), np.array([v for _, v in own])
        if n_masks is None:
            scores.append((probability @ g)[None])
            chances.append(np.array([p_x]))
            continue
        choices = np.array(list(itertools.product(range(len(own)), repeat=n_masks)))
        scores.append(g[choices].mean(axis=1))
        chances.append(p_x * probability[choices].prod(axis=1))
    return _covariance(np.concatenate(scores), np.concatenate(chances))
