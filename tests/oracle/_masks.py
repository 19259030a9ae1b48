"""p(K | x) by listing: every block a mask can give, with its probability at every configuration."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gmlmdsl.program import ir

from ._conditionals import Block
from ._expressions import Scope, block, evaluate, turns

Table = dict[Block, np.ndarray]  # block -> its probability at each configuration
NOTHING: Block = frozenset()


def mask_table(mask: ir.Mask, scope: Scope) -> Table:
    """p(K | x) for every block K of positive probability somewhere and every configuration of the scope."""
    return {k: p for k, p in _table(mask.body, scope).items() if (p > 0).any()}


def _table(body: ir.MaskBody, scope: Scope) -> Table:
    match body:
        case ir.Listed():
            return _listed(body, scope)
        case ir.Independent():
            return _independent(body, scope)
        case ir.FormMask():
            return _form(body, scope)
        case ir.MaskMixture():
            return _mixture(body, scope)


def _numbers(e: ir.Expression, scope: Scope) -> np.ndarray:
    """One number per configuration."""
    assert scope.rows is not None
    return np.array(np.broadcast_to(evaluate(e, scope), len(scope.rows)))


def _ones(scope: Scope) -> np.ndarray:
    assert scope.rows is not None
    return np.ones(len(scope.rows))


def _add(table: Table, k: Block, p: np.ndarray) -> None:
    table[k] = table[k] + p if k in table else p


def _listed(body: ir.Listed, scope: Scope) -> Table:
    """w_K(x) / sum of weights; equal blocks are one block, and where no weight is positive K is empty."""
    weights: Table = {}
    for term, weight in body.terms:
        for names in turns(term.clauses, scope):
            k = block(term.cells, scope.at(names))
            if body.uniform:
                weights[k] = _ones(scope)
            else:
                assert weight is not None
                _add(weights, k, _numbers(weight, scope.at(names)))
    total = sum(weights.values(), 0 * _ones(scope))
    table = {k: np.divide(w, total, out=np.zeros(len(w)), where=total > 0) for k, w in weights.items()}
    _add(table, NOTHING, np.where(total > 0, 0.0, 1.0))
    return table


def _independent(body: ir.Independent, scope: Scope) -> Table:
    """Every cell on its own: the product of r_i(x) over K and 1 - r_i(x) over the other cells listed."""
    rates: dict[int, np.ndarray] = {}
    for term, rate in body.terms:
        for cell, r in _rates(term, rate, scope):
            if cell in rates:
                raise ValueError(f"cell {cell} is listed twice")
            rates[cell] = r
    table: Table = {NOTHING: _ones(scope)}
    for cell, r in rates.items():
        table = {**{k: p * (1 - r) for k, p in table.items()}, **{k | {cell}: p * r for k, p in table.items()}}
    return table


def _rates(term: ir.BlockTerm, rate: ir.Expression, scope: Scope) -> list[tuple[int, np.ndarray]]:
    here = [scope.at(names) for names in turns(term.clauses, scope)]
    return [(cell, _numbers(rate, s)) for s in here for cell in sorted(block(term.cells, s))]


def _form(body: ir.FormMask, scope: Scope) -> Table:
    """`subsets`, `stripes`, `everything`, `bernoulli` over the cells of the variables named, or of every `var`."""
    variables = scope.bound.variables
    named = body.variables or tuple(name for name, v in variables.items() if v.role == "var")
    cells = [variables[name].start + k for name in named for k in range(int(np.prod(variables[name].shape)))]
    given: dict[str, Any] = body.call.arguments
    one = _ones(scope)
    match body.call.form.name:
        case "everything":
            return {frozenset(cells): one}
        case "subsets":
            blocks = list(itertools.combinations(cells, scope.bound.size(given["size"])))
            return {frozenset(k): one / len(blocks) for k in blocks}
        case "stripes":
            width, ordered = scope.bound.size(given["width"]), sorted(cells)
            starts = range(len(cells) - width + 1)
            return {frozenset(ordered[s : s + width]): one / len(starts) for s in starts}
        case "bernoulli":
            ends = given["rate"] if isinstance(given["rate"], tuple) else (given["rate"],) * 2
            a, b = (float(evaluate(e, scope)) for e in ends)
            of_size = [size_probability(len(cells), k, a, b) for k in range(len(cells) + 1)]
            return {frozenset(k): one * of_size[len(k)] for k in subsets(cells)}
    raise NotImplementedError(f"{body.call.form.name} has no law of its own")


def subsets(cells: Sequence[int]) -> list[tuple[int, ...]]:
    """Every subset, the empty one first."""
    return [k for size in range(len(cells) + 1) for k in itertools.combinations(cells, size)]


def size_probability(n: int, k: int, a: float, b: float) -> float:
    """The mean of r^k (1 - r)^(n - k) for r uniform on [a, b].

    The integrand is a polynomial of degree n, which Gauss and Legendre's n // 2 + 1 points integrate exactly.
    """
    nodes, weights = np.polynomial.legendre.leggauss(n // 2 + 1)
    r = (a + b) / 2 + (b - a) / 2 * nodes
    return float(np.sum(weights / 2 * r**k * (1 - r) ** (n - k)))


def _mixture(body: ir.MaskMixture, scope: Scope) -> Table:
    """The sum of v p_m(K | x), the v normalised."""
    values = [float(evaluate(v, scope)) for v, _ in body.rows]
    table: Table = {}
    for v, (_, part) in zip(values, body.rows, strict=True):
        for k, p in _table(part, scope).items():
            _add(table, k, v / sum(values) * p)
    return table
