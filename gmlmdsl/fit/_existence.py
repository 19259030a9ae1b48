"""Tests whether a convex pseudolikelihood has a minimiser, by linear programming.

If log p is affine in the parameters, a row's loss for a mask is log sum_a exp(s_a . theta) - s_x .
theta. Along a direction v it decreases without end, or stays constant, exactly if (s_x - s_a) . v
>= 0 for every value a of the block. A direction v with one strict inequality is a recession
direction: the data separate, and there is no minimiser (Albert and Anderson 1984; Geyer 2009).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import numpy as np
import scipy  # its modules load at first use

from ..evaluate import Colouring, Objective, differences, flatten, free_basis, has_proper_prior, tangent
from .limits import (
    DIRECTION_PART,
    LEAST_GAIN,
    LEAST_UNIT,
    MOST_PROGRAMMES,
    MOST_SPARSE_ENTRIES,
    MOST_STATISTICS,
    MOST_WITH_PRIORS,
    ROWS_PER_PROGRAMME,
)

Array = np.ndarray


@dataclass(frozen=True)
class Recession:
    """The directions of some parameters in which the data leave the estimate open.

    Attributes:
        direction: a recession direction in parameter space, None if there is none. It is a
            direction along which every loss decreases that can decrease, and among these the one
            with the smallest sum of absolute entries.
        span: an orthonormal basis of all open directions, shape (parameters, directions). No loss
            changes along them, or none of those that are left at the end of the recession. The
            orthogonal complement has a finite estimate.
        checked: whether statistics were compared. If not, `span` contains the directions in which
            the curvature vanishes.
        alone: the open directions if priors are left out. None if there are none, or if they were
            not computed.
    """

    direction: Array | None
    span: Array
    checked: bool = True
    alone: Recession | None = None

    @property
    def flat(self) -> Array:
        """An orthonormal basis of the open directions, without the entries that move.

        The recession moves these entries.
        """
        if self.direction is None:
            return self.span
        left, size, _ = np.linalg.svd(np.where(moves(self.direction)[:, None], 0.0, self.span), full_matrices=False)
        return left[:, size > DIRECTION_PART]


def moves(direction: Array) -> Array:
    """Return the entries that have a part in a direction."""
    return np.abs(direction) > DIRECTION_PART * np.abs(direction).max()


def find_recession(
    objective: Objective, params: dict[str, jax.Array], colours: Colouring, asks_data_alone: bool = True
) -> Recession | None:
    """Return the directions that data and priors leave open, or None if that is not affordable.

    The result concerns the parameters without a prior, because a prior would pull the others back.

    Args:
        objective: the objective.
        params: the parameters at which statistics are evaluated.
        colours: the colouring of the objective.
        asks_data_alone: whether `alone` of the result is computed, which concerns all parameters.
    """
    host, fixed = objective.frame.host, frozenset(objective.frame.fixed)
    held = frozenset(p.name for p in host.parameters if has_proper_prior(host, p)) | fixed
    if held.issuperset(p.name for p in host.parameters) and sum(p.size for p in host.parameters) > MOST_WITH_PRIORS:
        # There is an estimate. The share of the prior in the curvature shows whether the data alone
        # would determine it.
        return None
    if not asks_data_alone:
        return _recession(objective, params, colours, held)
    alone = _recession(objective, params, colours, fixed)
    if held == fixed or alone is None or not alone.span.shape[1]:
        return alone
    found = _recession(objective, params, colours, held)
    return None if found is None else replace(found, alone=alone)


def _recession(objective: Objective, params: dict[str, jax.Array], colours: Colouring, held: frozenset[str]) -> Recession | None:
    host = objective.frame.host
    basis = tangent(host, held)
    if not basis.shape[1]:
        return Recession(None, basis)
    entries = sum(b.cells.shape[0] * b.n_values for b in objective.exact_loss.blocks) * float(objective.codes.shape[1])
    if entries * len(colours.directions) > MOST_STATISTICS:
        return None
    rows = _differences(objective, flatten(host, params), colours, basis)
    if rows.shape[0] == 0:  # pyright: ignore[reportOptionalSubscript]
        return Recession(None, basis)
    # A direction is sought in units in which the statistics of all parameters have the same size,
    # whatever the units of the parameters are.
    unit = scipy.sparse.diags(1 / np.maximum(np.sqrt(np.asarray(rows.multiply(rows).mean(axis=0)).ravel()), LEAST_UNIT))
    direction, alive = _generic(_of_length_one(rows @ unit), _bounds(objective, held))
    direction = None if direction is None else unit @ direction
    # At the end of the recession, only the rows whose loss does not decrease matter (Geyer 2009,
    # limiting conditional model).
    flat = basis @ _null_space(rows[alive])
    if direction is None:
        return Recession(None, flat)
    sparse = _sparsest(rows[~alive], basis.T @ flat, basis, _ends(objective))
    return Recession(sparse if sparse.any() else basis @ direction, flat)


def _null_space(rows: scipy.sparse.csr_matrix) -> Array:
    """Return an orthonormal basis of the directions along which no row changes.

    Each entry is measured in its own unit.
    """
    square = (rows.T @ rows).toarray()
    diagonal = np.diag(square)
    unit = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(unit[:, None] * square * unit)
    return np.linalg.qr(unit[:, None] * vectors[:, values < 1e-9 * max(values.max(), 1e-300)])[0]


def _generic(rows: scipy.sparse.csr_matrix, bounds: list[tuple[float, float]]) -> tuple[Array | None, Array]:
    """Return a sum of recession directions, and the rows that gain along none of them.

    Every row that gains along any recession direction gains along the sum. The first result is None
    if there is no recession direction.
    """
    total, alive = np.zeros(rows.shape[1]), np.ones(rows.shape[0], bool)  # pyright: ignore[reportOptionalSubscript]
    for _ in range(MOST_PROGRAMMES):
        found = _programme(rows, alive, bounds)
        if found is None:
            break
        total = total + found
        alive &= ~(rows @ found > LEAST_GAIN)
    return (total if not alive.all() else None), alive


def _sparsest(strict: scipy.sparse.csr_matrix, span: Array, basis: Array, ends: tuple[Array, Array]) -> Array:
    """Return a sparse recession direction v, which minimises |v|_1.

    v = basis span z satisfies strict v >= 1, and the signs of its entries are those that matter.
    The result is 0 if no such direction is found. `ends` are the smallest and the largest entries
    that v may have.
    """
    whole = basis @ span
    mine = (np.abs(whole) > DIRECTION_PART).any(axis=1)
    open_, low, high = whole[mine], ends[0][mine], ends[1][mine]
    n, k = open_.shape
    if n > MOST_SPARSE_ENTRIES:
        return np.zeros(len(whole))
    rows = np.unique(np.round(strict @ span, 9), axis=0)
    wide = scipy.sparse.csr_matrix(np.hstack([rows, np.zeros((len(rows), n))]))
    none = np.zeros((n, n))
    within = [np.hstack([open_, -np.eye(n)]), np.hstack([-open_, -np.eye(n)])]  # |v_j| <= s_j
    within += [np.hstack([-open_, none])[low == 0], np.hstack([open_, none])[high == 0]]
    found = _cut(np.append(np.zeros(k), np.ones(n)), wide, 1.0, [(None, None)] * k + [(0, None)] * n, np.vstack(within))
    return np.zeros(len(whole)) if found is None else whole @ found[:k]


def _differences(objective: Objective, vector: jax.Array, colours: Colouring, basis: Array) -> scipy.sparse.csr_matrix:
    """Return the distinct rows (phi(x) - phi(a)) . basis over data rows, blocks and values."""
    found = [scipy.sparse.csr_matrix((0, basis.shape[0]))]
    for parameters, rows in differences(objective, vector, colours):
        place = (np.repeat(np.arange(len(rows)), len(parameters)), np.tile(parameters, len(rows)))
        found.append(scipy.sparse.csr_matrix((rows.ravel(), place), shape=(len(rows), basis.shape[0])))
    moved = scipy.sparse.csr_matrix(scipy.sparse.vstack(found) @ scipy.sparse.csr_matrix(basis))
    moved.eliminate_zeros()
    moved = moved[np.diff(moved.indptr) > 0]
    return _of_length_one(moved)


def _of_length_one(rows: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    scale = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return scipy.sparse.csr_matrix(scipy.sparse.diags(1 / scale) @ rows)


def _bounds(objective: Objective, held: frozenset[str]) -> list[tuple[float, float]]:
    """Return the bounds of the entries of a direction.

    Directions are scaled to [-1, 1]. A parameter with one bound cannot go in the direction of that
    bound without end.
    """
    bounds: list[tuple[float, float]] = []
    for p in objective.frame.host.parameters:
        if p.name in held:
            continue
        low, high = (0.0 if np.isfinite(p.lower) else -1.0), (0.0 if np.isfinite(p.upper) else 1.0)
        plain = p.kind in ("real", "positive", "bounded") and not p.gauge
        size = free_basis(p).shape[1]
        bounds += [(low, high) if plain else (-1.0, 1.0)] * size
    return bounds


def _ends(objective: Objective) -> tuple[Array, Array]:
    """Return lower and upper bounds of each entry of a direction in the flat parameter vector.

    A lower bound is 0 if the parameter is bounded below, and an upper bound is 0 if it is bounded
    above; the others are infinite.
    """
    parameters = objective.frame.host.parameters
    low = [np.full(p.size, 0.0 if np.isfinite(p.lower) else -np.inf) for p in parameters]
    high = [np.full(p.size, 0.0 if np.isfinite(p.upper) else np.inf) for p in parameters]
    return np.concatenate(low), np.concatenate(high)


def _programme(rows: scipy.sparse.csr_matrix, wanted: Array, bounds: list[tuple[float, float]]) -> Array | None:
    """Maximise sum(wanted rows v) subject to rows v >= 0 and v in a box.

    The result is None if the maximum is 0.
    """
    if not wanted.any():
        return None
    found = _cut(-np.asarray(rows[wanted].sum(axis=0)).ravel(), rows, 0.0, bounds, np.zeros((0, rows.shape[1])))  # pyright: ignore[reportOptionalSubscript]
    return None if found is None or (rows[wanted] @ found).max(initial=0.0) <= LEAST_GAIN else found


def _cut(cost: Array, rows: scipy.sparse.csr_matrix, floor: float, bounds: list, within: Array) -> Array | None:
    """Minimise cost v subject to rows v >= floor, within v <= 0 and the bounds.

    Violated rows are added until none is left.
    """
    chosen = np.unique(np.linspace(0, rows.shape[0] - 1, ROWS_PER_PROGRAMME).astype(int))  # pyright: ignore[reportOptionalSubscript]
    for _ in range(MOST_PROGRAMMES):
        matrix = scipy.sparse.vstack([-rows[chosen], scipy.sparse.csr_matrix(within)])
        limits = np.append(np.full(len(chosen), -floor), np.zeros(len(within)))
        solved = scipy.optimize.linprog(cost, A_ub=matrix, b_ub=limits, bounds=bounds, method="highs")
        if solved.x is None:
            return None
        gains = rows @ solved.x - floor
        violated = np.setdiff1d(np.flatnonzero(gains < -1e-7), chosen)
        if len(violated) == 0:
            return solved.x
        chosen = np.concatenate([chosen, violated[np.argsort(gains[violated], kind="stable")[:ROWS_PER_PROGRAMME]]])
    return None
