"""Conditionals from a table of log weights with one axis per position."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

MISSING = -1  # the code of a cell that is not observed: it is summed out
Block = frozenset[int]


def log_sum(values: np.ndarray, axis: tuple[int, ...] | None = None) -> np.ndarray:
    """The log of the sum of exp(values), the axes kept; -inf where every value is."""
    top = np.max(values, axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(values - shift), axis=axis, keepdims=True)) + shift


def agreeing(weight: np.ndarray, row: np.ndarray, k: Iterable[int] = ()) -> np.ndarray:
    """The weights of the configurations that have the row's codes wherever it is observed outside K."""
    inside = frozenset(k)
    return weight[tuple(slice(None) if c in inside or code == MISSING else int(code) for c, code in enumerate(row))]


def log_conditional(weight: np.ndarray, row: np.ndarray, k: Block) -> np.ndarray:
    """The table of log p(x_K | x_rest), one axis per member of K, ascending; nan where the rest is impossible."""
    left = [c for c in range(len(row)) if c in k or row[c] == MISSING]  # the cells that have an axis yet
    hidden = tuple(axis for axis, c in enumerate(left) if c not in k)
    joint = log_sum(agreeing(weight, row, k), hidden).squeeze(hidden)
    with np.errstate(invalid="ignore"):
        return joint - log_sum(joint)


def surprise(weight: np.ndarray, row: np.ndarray, k: Block) -> float:
    """-log p(observed x_K | observed x_rest), missing cells summed out of both; infinite where the row is impossible."""
    if all(row[c] == MISSING for c in k):
        return 0.0
    seen = log_sum(agreeing(weight, row)).item()
    return np.inf if seen == -np.inf else log_sum(agreeing(weight, row, k)).item() - seen


def surprises(weight: np.ndarray, rows: np.ndarray, k: Block) -> np.ndarray:
    """`surprise` of every row: of those that lack nothing at once, from the table of sums over x_K."""
    whole = (rows != MISSING).all(axis=1) & bool(k)
    found = np.array([0.0 if at_once else surprise(weight, row, k) for at_once, row in zip(whole, rows, strict=True)])
    at = tuple(rows[whole].T)
    seen, total = weight[at], np.broadcast_to(log_sum(weight, tuple(k)), weight.shape)[at]
    found[whole] = np.where(seen > -np.inf, total - np.where(seen > -np.inf, seen, 0.0), np.inf)
    return found


def redraw(before: np.ndarray, weight: np.ndarray, k: Block) -> np.ndarray:
    """The matrix `before`, then x_K drawn from the weights given the rest; where the rest is impossible x stays.

    after[x, y] = (sum of before[x, z] over the z that agree with y outside K) * p(y_K | y_rest)
    """
    total = log_sum(weight, tuple(k))
    with np.errstate(invalid="ignore"):
        drawn = np.exp(weight - total)
    table = before.reshape(-1, *weight.shape)
    gathered = table.sum(axis=tuple(cell + 1 for cell in k), keepdims=True)
    return np.where(total > -np.inf, gathered * drawn, table).reshape(before.shape)


def redraw_independently(before: np.ndarray, weight: np.ndarray, k: Block) -> np.ndarray:
    """The matrix `before`, then every x_i, i in K, drawn from p(x_i | x_-i) at the old x (Definition 11)."""
    n, shape = len(before), (len(before), *weight.shape)
    agree = np.eye(n).reshape(shape).sum(axis=tuple(cell + 1 for cell in k), keepdims=True)
    step = np.broadcast_to(agree, shape)
    for i in k:
        alone = redraw(np.eye(n), weight, frozenset({i})).reshape(shape)
        others = tuple(cell + 1 for cell in range(weight.ndim) if cell != i)
        step = step * alone.sum(axis=others, keepdims=True)  # p(x_i = y_i | x_-i)
    return before @ step.reshape(n, n)
