"""What p(K | x) of a lowered mask depends on."""

from __future__ import annotations

import numpy as np

from ._factor_graph import FactorGroup
from ._lower_masks import IndependentMask, ListedMask, LoweredMask, MixtureMask, PercolationMask

Array = np.ndarray


def is_adaptive(mask: LoweredMask) -> bool:
    """Whether p(K | x) varies with x."""
    match mask:
        case ListedMask():
            return any(g.scope.shape[1] for g in mask.weights)
        case IndependentMask():
            return any(g.scope.shape[1] for g in mask.rates)
        case MixtureMask():
            return any(is_adaptive(p) for p in mask.parts)
        case PercolationMask():
            return True
    return False


def varies(mask: LoweredMask) -> bool:
    """Whether p(K | x) varies from row to row: with x, or with what is given."""
    match mask:
        case ListedMask():
            return is_adaptive(mask) or any(g.given is not None for g in mask.weights)
        case IndependentMask():
            return is_adaptive(mask) or any(g.given is not None for g in mask.rates)
        case MixtureMask():
            return any(varies(p) for p in mask.parts)
        case PercolationMask():
            return True
    return False


def mentions_parameter(mask: LoweredMask) -> bool:
    """Whether p(K | x) depends on a parameter."""
    match mask:
        case ListedMask():
            return any(g.parameters for g in mask.weights)
        case IndependentMask():
            return any(g.parameters for g in mask.rates)
        case MixtureMask():
            return any(mentions_parameter(p) for p in mask.parts)
        case PercolationMask():
            return True
    return False


def looked_at(mask: LoweredMask, n_cells: int) -> Array:
    """The cells that p(K | x) depends on, ascending."""
    match mask:
        case ListedMask():
            groups: tuple[FactorGroup, ...] = mask.weights
        case IndependentMask():
            groups = mask.rates
        case MixtureMask():
            return np.unique(np.concatenate([looked_at(p, n_cells) for p in mask.parts]))
        case PercolationMask():
            return mask.cells
        case _:
            groups = ()
    cells = np.unique(np.concatenate([np.zeros(0, np.int64), *(g.cells.ravel() for g in groups)])).astype(np.int64)
    return cells[cells < n_cells]
