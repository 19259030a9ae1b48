"""Transition matrices over every configuration, and what is asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from gmlmdsl.program import ir

from ._conditionals import Block, redraw, redraw_independently
from ._expressions import Scope, block, evaluate, turns

if TYPE_CHECKING:
    from ._oracle import Oracle, Params


def kernel_matrix(oracle: Oracle, params: Params, kernel: ir.Kernel, by_colours: bool) -> np.ndarray:
    """P[x, y] of one run of the kernel."""

    def body(kernels: Sequence[ir.Kernel]) -> np.ndarray:
        return in_order([kernel_matrix(oracle, params, k, by_colours) for k in kernels], len(oracle.states))

    match kernel:
        case ir.Sweep():
            return _sweep(oracle, params, kernel, by_colours)
        case ir.RandomUpdate():
            return _random_update(oracle, params, kernel)
        case ir.Cycle():
            return body(kernel.body)
        case ir.Repeat():
            return np.linalg.matrix_power(body(kernel.body), oracle.bound.size(kernel.count))
        case ir.KernelMixture():
            weights = [float(evaluate(w, Scope(oracle.bound))) for w, _ in kernel.rows]
            return sum((w / sum(weights) * body([k]) for w, (_, k) in zip(weights, kernel.rows, strict=True)), np.zeros(()))
    raise NotImplementedError(type(kernel).__name__)


def in_order(matrices: Sequence[np.ndarray], n: int) -> np.ndarray:
    """The first kernel, then the second, and so on, on n configurations."""
    return reduce(np.matmul, matrices, np.eye(n))


def _random_update(oracle: Oracle, params: Params, kernel: ir.RandomUpdate) -> np.ndarray:
    """The sum over K of p(K | x) times the redraw of x_K, which is conditional on K as well (Definition 8)."""
    log_p = oracle.log_table(params)
    step = redraw_independently if kernel.independently else redraw
    out = np.zeros((len(oracle.states), len(oracle.states)))
    for k, p in oracle.mask_table(params, kernel.mask).items():
        with np.errstate(divide="ignore"):
            weight = log_p + np.log(p).reshape(log_p.shape)
        out += p[:, None] * step(weight, oracle.states, k)
    return out


def _sweep(oracle: Oracle, params: Params, kernel: ir.Sweep, by_colours: bool) -> np.ndarray:
    """Every block once, one after the other: those of a colour commute, so that at once or in turn is the same."""
    step = redraw_independently if kernel.independently else redraw
    log_p = oracle.log_table(params)
    blocks = sweep_blocks(oracle, kernel.blocks)
    if by_colours:
        blocks = [k for colour in colours(blocks, oracle.touched(params)) for k in colour]
    return in_order([step(log_p, oracle.states, k) for k in blocks], len(oracle.states))


def sweep_blocks(oracle: Oracle, term: ir.BlockTerm) -> list[Block]:
    """The blocks in the order of the text, each once."""
    scope = Scope(oracle.bound)
    return list(dict.fromkeys(block(term.cells, scope.at(names)) for names in turns(term.clauses, scope)))


def colours(blocks: Sequence[Block], terms: Sequence[frozenset[int]]) -> list[list[Block]]:
    """Greedy colours: in position order each block takes the least colour that no earlier neighbour has.

    Neighbours share a cell, or a term of log p that reads cells of both.
    """
    found: list[list[Block]] = []
    for k in sorted(blocks, key=sorted):
        near = k.union(*(t for t in terms if t & k))
        free = next((c for c in found if not any(near & other for other in c)), None)
        if free is None:
            found.append([k])
        else:
            free.append(k)
    return found


def stationary(matrix: np.ndarray) -> np.ndarray:
    """The only law pi with pi P = pi; an error where there are several."""
    n = len(matrix)
    equations = np.vstack([matrix.T - np.eye(n), np.ones((1, n))])
    law, _, rank, _ = np.linalg.lstsq(equations, np.append(np.zeros(n), 1.0), rcond=1e-12)
    if rank < n:
        raise ValueError("several laws are stationary")
    return law


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    """Half the sum of |p - q|."""
    return float(np.abs(np.asarray(p) - np.asarray(q)).sum() / 2)
