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


def agreement(states: np.ndarray, k: Block) -> np.ndarray:
    """Whether two configurations agree outside K."""
    rest = [c for c in range(states.shape[1]) if c not in k]
    same = np.ones((len(states), len(states)), bool)
    for c in rest:
        same &= states[:, c][:, None] == states[:, c][None, :]
    return same


def redraw(weight: np.ndarray, states: np.ndarray, k: Block) -> np.ndarray:
    """P[x, y] of drawing x_K from the weights, given the rest; where the rest is impossible x stays."""
    total = log_sum(weight, tuple(sorted(k)))
    possible = np.broadcast_to(total > -np.inf, weight.shape).ravel()
    with np.errstate(invalid="ignore"):
        drawn = np.exp(weight - total).ravel()
    return np.where(possible[:, None], np.where(agreement(states, k), drawn[None, :], 0.0), np.eye(len(states)))


def redraw_independently(weight: np.ndarray, states: np.ndarray, k: Block) -> np.ndarray:
    """P[x, y] of drawing every x_i, i in K, from p(x_i | x_-i) at the old x (Definition 11)."""
    out = agreement(states, k).astype(float)
    for i in sorted(k):
        alone = redraw(weight, states, frozenset({i}))
        values = states[:, i]
        law = np.stack([alone[:, values == v].sum(axis=1) for v in range(weight.shape[i])], axis=1)  # p(x_i = v | x_-i)
        out = out * law[:, values]
    return out
