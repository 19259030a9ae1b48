"""Scales in which an objective bends alike in all directions: what a minimiser starts with where there are few parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..evaluate import Objective, unconstrained_moves

Array = np.ndarray
FLAT = 1e-6  # of the largest eigenvalue: flatter directions are scaled like this one
LEAST_SLOPE = 1e-6  # of a bounded parameter or a simplex in its unconstrained one, which may run to the edge


def scaling(objective: Objective, free: dict[str, Any], hessian: np.ndarray, basis: np.ndarray) -> Any:
    """A matrix that makes the objective's Hessian at `free` the identity, or nearly: H^(-1/2) in the free directions.

    `hessian` is that of the objective per row in the directions of `basis`; directions in which it vanishes keep a finite scale.
    """
    if not np.isfinite(hessian).all() or not hessian.size:
        return None
    values, vectors = np.linalg.eigh(hessian)
    half = vectors / np.sqrt(np.maximum(values, FLAT * max(values.max(), 1e-300)))
    moved, at, columns = basis @ half, 0, {}
    for p in objective.frame.host.parameters:
        if p.name in free:
            columns[p.name] = unconstrained_moves(p, free[p.name], moved[at : at + p.size], LEAST_SLOPE)
        at += p.size
    return np.concatenate([columns[name] for name in sorted(columns)])  # the order of a flattened dict
