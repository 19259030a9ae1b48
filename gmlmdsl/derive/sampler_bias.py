"""Distance between the stationary distribution of a small chain and p."""

from __future__ import annotations

import numpy as np
import scipy  # SciPy loads its subpackages on first use

from ..graph import FactorGraph
from ._arrays import graph_arrays, on_device
from ._energy import Params
from ._transitions import all_states
from .compiled import log_potential
from .limits import MOST_BIAS_STATES

Array = np.ndarray


def verify_small(graph: FactorGraph) -> None:
    """Raise unless the model is small enough for its stationary distribution to be solved for.

    Raises:
        GmlmError: E601, with the number of configurations.
    """
    all_states(graph, MOST_BIAS_STATES, "the exact bias of a sampler")


def stationary_law(matrix: Array) -> Array | None:
    """Return the distribution pi with pi P = pi of the stochastic matrix P.

    Returns:
        pi, or None if P has several: one for each closed class of states.
    """
    from scipy.sparse.csgraph import connected_components

    _, classes = connected_components(scipy.sparse.csr_matrix(matrix), connection="strong")
    leaves = np.unique(classes[np.nonzero((matrix > 0) & (classes[:, None] != classes[None, :]))[0]])
    closed = np.setdiff1d(classes, leaves)
    if len(closed) > 1:
        return None
    inside = np.flatnonzero(classes == closed[0])
    system = matrix[np.ix_(inside, inside)].T - np.eye(len(inside))
    # one equation follows from the others; instead of it the probabilities sum to 1
    system[-1] = 1.0
    law = np.zeros(len(matrix))
    law[inside] = np.linalg.solve(system, np.eye(len(inside))[-1])
    return law


def total_variation(graph: FactorGraph, params: Params, matrix: Array) -> float:
    """Return 1/2 sum over x of |pi(x) - p(x)|, pi being the stationary distribution of `matrix`.

    The result is nan if there is no unique pi.
    """
    law = stationary_law(matrix)
    if law is None:
        return float("nan")
    scores = np.asarray(log_potential(graph_arrays(graph), params, on_device(all_states(graph))), np.float64)
    p = np.exp(scores - scores.max())
    return float(np.abs(law - p / p.sum()).sum() / 2)
