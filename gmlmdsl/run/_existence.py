"""Whether a convex pseudolikelihood has a minimiser: a linear programme for a direction along which it falls for ever.

With log p affine in the parameters, a row's loss for a mask is log sum_a exp(s_a . theta) - s_x . theta. It falls without
end along v, or stays, exactly if (s_x - s_a) . v >= 0 for every value a of the block. Such a v with one strict inequality
is a recession direction: the data separate, and there is no minimiser (Albert and Anderson 1984; Geyer 2009).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
import scipy.sparse
from scipy.optimize import linprog

from ..derive import ExactLoss
from ._objective import Objective
from ._parameters import flatten, free_basis, has_proper_prior, tangent
from ._statistics import Colouring, differences

Array = np.ndarray
MOST_ENTRIES = 2e9  # statistics that are compared
FIRST_ROWS = 4000
MOST_ROUNDS = 30


@dataclass(frozen=True)
class Recession:
    """What the data leave open of parameters without a prior.

    Attributes:
        checked: whether the comparison was affordable.
        direction: a recession direction in parameter space, None if there is none.
        flat: an orthonormal basis of the directions along which no loss changes at all, shape (parameters, directions).
    """

    checked: bool
    direction: Array | None
    flat: Array | None = None


def find_recession(objective: Objective, params: dict[str, jax.Array], colours: Colouring) -> Recession:
    """Directions without end, and flat ones. Parameters with a prior do not take part: it pulls them back."""
    host = objective.frame.host
    held = frozenset(objective.frame.fixed) | {p.name for p in host.parameters if has_proper_prior(p)}
    basis = tangent(host, held)
    if not basis.shape[1]:
        return Recession(True, None, basis)
    assert isinstance(objective.loss, ExactLoss)
    entries = sum(b.cells.shape[0] * b.n_values for b in objective.loss.blocks) * float(objective.codes.shape[1])
    if entries * len(colours.directions) > MOST_ENTRIES:
        return Recession(False, None)
    rows = _differences(objective, flatten(host, params), colours, basis)
    if rows.shape[0] == 0:  # pyright: ignore[reportOptionalSubscript]
        return Recession(True, None, basis)
    values, vectors = np.linalg.eigh((rows.T @ rows).toarray())
    flat = vectors[:, values < 1e-9 * max(values.max(), 1e-300)]
    direction = _programme(rows, _bounds(objective, held))
    return Recession(True, None if direction is None else basis @ (direction - flat @ (flat.T @ direction)), basis @ flat)


def _differences(objective: Objective, vector: jax.Array, colours: Colouring, basis: Array) -> scipy.sparse.csr_matrix:
    """Distinct rows (phi(x) - phi(a)) . basis over data rows, blocks and values."""
    found = [scipy.sparse.csr_matrix((0, basis.shape[0]))]
    for parameters, rows in differences(objective, vector, colours):
        place = (np.repeat(np.arange(len(rows)), len(parameters)), np.tile(parameters, len(rows)))
        found.append(scipy.sparse.csr_matrix((rows.ravel(), place), shape=(len(rows), basis.shape[0])))
    moved = scipy.sparse.csr_matrix(scipy.sparse.vstack(found) @ scipy.sparse.csr_matrix(basis))
    moved.eliminate_zeros()
    return moved[np.diff(moved.indptr) > 0]


def _bounds(objective: Objective, held: frozenset[str]) -> list[tuple[float, float]]:
    """Directions are scaled to [-1, 1]; a parameter bounded on one side cannot run that way without end."""
    bounds: list[tuple[float, float]] = []
    for p in objective.frame.host.parameters:
        if p.name in held:
            continue
        low, high = (0.0 if np.isfinite(p.lower) else -1.0), (0.0 if np.isfinite(p.upper) else 1.0)
        plain = p.kind in ("real", "positive", "bounded") and not p.gauge
        size = free_basis(p).shape[1]
        bounds += [(low, high) if plain else (-1.0, 1.0)] * size
    return bounds


def _programme(rows: scipy.sparse.csr_matrix, bounds: list[tuple[float, float]]) -> Array | None:
    """max sum(rows v) with rows v >= 0 and v in a box, by adding violated rows until none is left."""
    scale = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    rows = scipy.sparse.csr_matrix(scipy.sparse.diags(1 / scale) @ rows)
    objective = -np.asarray(rows.sum(axis=0)).ravel()
    chosen = np.unique(np.linspace(0, rows.shape[0] - 1, FIRST_ROWS).astype(int))  # pyright: ignore[reportOptionalSubscript]
    for _ in range(MOST_ROUNDS):
        solved = linprog(objective, A_ub=-rows[chosen], b_ub=np.zeros(len(chosen)), bounds=bounds, method="highs")
        if solved.x is None:
            return None
        gains = rows @ solved.x
        violated = np.flatnonzero(gains < -1e-7)
        violated = np.setdiff1d(violated, chosen)
        if len(violated) == 0:
            return solved.x if gains.max(initial=0.0) > 1e-6 else None
        worst = violated[np.argsort(gains[violated])[:FIRST_ROWS]]
        chosen = np.concatenate([chosen, worst])
    return None
