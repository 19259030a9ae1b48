"""Replica exchange on the product of the replicas' configurations, state by state."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from gmlmdsl.program import ir

from ._expressions import Scope, evaluate
from ._kernels import run_all

if TYPE_CHECKING:
    from ._oracle import Oracle, Params


def replica_matrix(oracle: Oracle, params: Params, temper: ir.Temper, turn: int) -> tuple[np.ndarray, np.ndarray]:
    """The product of the laws p^beta, and one step: the body on every replica, then exchanges of the pairs whose turn it is."""
    betas = sorted(float(evaluate(b, Scope(oracle.bound))) for b in temper.betas)
    every = [oracle.at_beta(b) for b in betas]
    laws = [hot.probabilities_at(params) for hot in every]
    n = len(oracle.states)
    law, body = np.ones(1), np.ones((1, 1))
    for hot, one in zip(every, laws, strict=True):
        law = np.multiply.outer(law, one).ravel()
        body = np.kron(body, run_all(hot, params, temper.body, np.eye(n), True))
    for pair in _pairs(len(betas) - 1, turn):
        body = body @ _exchange(laws, pair, n)
    return law, body


def _pairs(count: int, turn: int) -> list[int]:
    """Even pairs and odd pairs in turn; a single pair at every step."""
    return [0] if count == 1 else [k for k in range(count) if k % 2 == turn % 2]


def _exchange(laws: list[np.ndarray], pair: int, n: int) -> np.ndarray:
    """The Metropolis move that swaps two neighbours: accepted with the ratio of the joint law after and before."""
    joint = np.zeros((n ** len(laws),) * 2)
    for row, state in enumerate(itertools.product(range(n), repeat=len(laws))):
        a, b = state[pair], state[pair + 1]
        before, after = laws[pair][a] * laws[pair + 1][b], laws[pair][b] * laws[pair + 1][a]
        accept = 0.0 if before == 0 or after == 0 else min(1.0, after / before)
        swapped = [*state]
        swapped[pair], swapped[pair + 1] = b, a
        joint[row, np.ravel_multi_index(swapped, (n,) * len(laws))] += accept
        joint[row, row] += 1 - accept
    return joint
