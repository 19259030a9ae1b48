"""How far the stationary distribution of a small chain is from p."""

from __future__ import annotations

import numpy as np
import scipy  # its parts load when they are used

from ..graph import FactorGraph
from ._arrays import graph_arrays, on_device
from ._energy import Params
from ._transitions import all_states
from .compiled import log_potential

Array = np.ndarray
MOST_STATES = 2048  # a linear system of that size is solved


def verify_small(graph: FactorGraph) -> None:
    """Refuse a model whose stationary distribution would take long.

    Raises:
        GmlmError: E601 with the number of configurations.
    """
    all_states(graph, MOST_STATES, "the exact bias of a sampler")


def stationary_law(matrix: Array) -> Array | None:
    """The distribution pi with pi P = pi of a stochastic matrix; None where it has several, one for each closed class of states."""
    from scipy.sparse.csgraph import connected_components

    _, classes = connected_components(scipy.sparse.csr_matrix(matrix), connection="strong")
    leaves = np.unique(classes[np.nonzero((matrix > 0) & (classes[:, None] != classes[None, :]))[0]])
    closed = np.setdiff1d(classes, leaves)
    if len(closed) > 1:
        return None
    inside = np.flatnonzero(classes == closed[0])
    system = matrix[np.ix_(inside, inside)].T - np.eye(len(inside))
    system[-1] = 1.0  # one equation follows from the others; the law sums to 1 instead
    law = np.zeros(len(matrix))
    law[inside] = np.linalg.solve(system, np.eye(len(inside))[-1])
    return law


def total_variation(graph: FactorGraph, params: Params, matrix: Array) -> float:
    """1/2 sum over x of |pi(x) - p(x)|, pi the stationary distribution of `matrix`; nan where there is no single one."""
    law = stationary_law(matrix)
    if law is None:
        return float("nan")
    scores = np.asarray(log_potential(graph_arrays(graph), params, on_device(all_states(graph))), np.float64)
    p = np.exp(scores - scores.max())
    return float(np.abs(law - p / p.sum()).sum() / 2)
