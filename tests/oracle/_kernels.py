"""Transition matrices over every configuration, and what is asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gmlmdsl.program import ir

from ._conditionals import Block, redraw, redraw_independently
from ._expressions import Scope, block, evaluate, turns

if TYPE_CHECKING:
    from ._oracle import Oracle, Params


def run(oracle: Oracle, params: Params, kernel: ir.Kernel, before: np.ndarray, by_colours: bool) -> np.ndarray:
    """The matrix `before`, then one run of the kernel."""
    match kernel:
        case ir.Sweep():
            return _sweep(oracle, params, kernel, before, by_colours)
        case ir.RandomUpdate():
            return _random_update(oracle, params, kernel, before)
        case ir.Cycle():
            return run_all(oracle, params, kernel.body, before, by_colours)
        case ir.Repeat():
            once = run_all(oracle, params, kernel.body, np.eye(len(before)), by_colours)
            return before @ np.linalg.matrix_power(once, oracle.bound.size(kernel.count))
        case ir.KernelMixture():
            weights = [float(evaluate(w, Scope(oracle.bound))) for w, _ in kernel.rows]
            after = [run(oracle, params, k, before, by_colours) for _, k in kernel.rows]
            return sum((w / sum(weights) * m for w, m in zip(weights, after, strict=True)), np.zeros(()))
    raise NotImplementedError(type(kernel).__name__)


def run_all(oracle: Oracle, params: Params, kernels: Sequence[ir.Kernel], before: np.ndarray, by_colours: bool) -> np.ndarray:
    """The matrix `before`, then the kernels in order."""
    for k in kernels:
        before = run(oracle, params, k, before, by_colours)
    return before


def _random_update(oracle: Oracle, params: Params, kernel: ir.RandomUpdate, before: np.ndarray) -> np.ndarray:
    """The sum over K of p(K | x) times the redraw of x_K, which is conditional on K as well (Definition 8)."""
    log_p = oracle.log_table(params)
    step = redraw_independently if kernel.independently else redraw
    after = np.zeros(before.shape)
    for k, p in oracle.mask_table(params, kernel.mask).items():
        with np.errstate(divide="ignore"):
            weight = log_p + np.log(p).reshape(log_p.shape)
        after += step(before * p, weight, k)
    return after


def _sweep(oracle: Oracle, params: Params, kernel: ir.Sweep, before: np.ndarray, by_colours: bool) -> np.ndarray:
    """Every block once, one after the other: those of a colour commute, so that at once or in turn is the same."""
    step = redraw_independently if kernel.independently else redraw
    log_p = oracle.log_table(params)
    blocks = sweep_blocks(oracle, kernel.blocks)
    if by_colours:
        blocks = [k for colour in colours(blocks, oracle.touched(params)) for k in colour]
    for k in blocks:
        before = step(before, log_p, k)
    return before


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
