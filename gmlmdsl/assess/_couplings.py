"""The couplings of a fit by pair: scores in the zero-sum gauge, with errors by the delta method."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._diagnostics import fail, is_one_of, is_whole_number
from .._progress import shows_progress, waiting
from ..evaluate import interaction_slopes, pair_interactions, verified_quantile
from ..fit import without_interval
from ..plan import PairTables, plan_pair_tables
from ._wald import PART

if TYPE_CHECKING:
    from ..fit import FitRecord
    from ._pair_table import PairTable

Array = np.ndarray
SCORES = ("norm", "apc", "value")
GAUGE = "zero_sum"


def couplings(fit: FitRecord, top: int | None, gauge: str, score: str, probability: float, progress: bool | None) -> PairTable:
    """Return one row for each pair of cells, the largest score first; see `Fit.couplings`.

    Args:
        fit: the fit.
        top: the number of rows, or None.
        gauge: "zero_sum".
        score: "norm", "apc" or "value".
        probability: the probability of the intervals.
        progress: whether a progress bar is shown.
    """
    from ._pair_table import PairTable

    z = _verified(top, gauge, score, probability)
    graph = fit.graph
    plan = plan_pair_tables(graph)
    tables = pair_interactions(graph, plan, fit.params)
    value, directions = scored(plan, tables, score)
    mix = np.eye(0)
    if score == "apc":
        value, mix = apc(plan.pairs, value)
    shown = np.abs(value) if score == "value" else value
    order = np.argsort(-shown, kind="stable")[:top]
    names = [graph.cell_name(i) for i in range(graph.n_random)]
    columns: dict[str, object] = {"first": [names[i] for i in plan.pairs[order, 0]], "second": [names[j] for j in plan.pairs[order, 1]]}
    columns["value"] = value[order]
    with waiting("errors of couplings", shows_progress(progress)):
        error = None
        if fit.full_covariance is not None:
            slopes = interaction_slopes(graph, plan, fit.params, directions)
            error = _errors(fit, mix[order] @ slopes if score == "apc" else slopes[order])
    if error is not None:
        tail = 100 * (1 - probability) / 2
        low = value[order] - z * error
        columns["std_error"] = error
        columns[f"{tail:.3g}%"] = np.maximum(low, 0.0) if score == "norm" else low
        columns[f"{100 - tail:.3g}%"] = value[order] + z * error
    columns["score"] = shown[order]
    frame = PairTable(columns)
    frame.attrs = {"cells": names, "score": score, "gauge": gauge, "probability": probability}
    return frame


def apc(pairs: Array, scores: Array) -> tuple[Array, Array]:
    """Return the scores with the average product correction, and its Jacobian.

    The corrected score is S_ij - S_i S_j / S. S_i is the mean of a cell's scores with the L - 1
    other cells, and S is the mean of all L (L - 1) / 2 scores. L counts the cells that have a
    coupling; pairs without one score 0.

    Reference: Dunn, Wahl and Gloor 2008, equation 7.
    """
    cells, places = np.unique(pairs, return_inverse=True)
    places, count = places.reshape(pairs.shape), len(cells)
    of = np.zeros((count, len(pairs)))
    of[places[:, 0], np.arange(len(pairs))] = of[places[:, 1], np.arange(len(pairs))] = 1 / (count - 1)
    mean, each = scores.sum() / (count * (count - 1) / 2), of @ scores
    i, j = places.T
    if mean == 0:
        return scores, np.eye(len(pairs))
    product = each[i] * each[j] / mean
    slope = np.eye(len(pairs)) - (of[i] * each[j, None] + of[j] * each[i, None]) / mean
    return scores - product, slope + product[:, None] / mean / (count * (count - 1) / 2)


def scored(plan: PairTables, tables: Array, score: str) -> tuple[Array, Array]:
    """Return the uncorrected score of each pair, and its derivative with respect to the tables."""
    return _signed(plan, tables) if score == "value" else _norms(tables)


def _norms(tables: Array) -> tuple[Array, Array]:
    """Return Frobenius norms, and their derivatives with respect to the tables.

    A derivative is nan if the table is 0, because a norm is not differentiable there.
    """
    norm = np.sqrt((tables**2).sum(axis=(1, 2)))
    with np.errstate(invalid="ignore"):
        return norm, tables / norm[:, None, None]


def _signed(plan: PairTables, tables: Array) -> tuple[Array, Array]:
    """Return T(last, last) of cells with two values, and its derivative.

    It is J for a factor J s t of two spins.
    """
    if plan.width > 2:
        message = 'score="value" is for cells with two values, whose coupling is one number; here some have '
        raise fail("E507", f"{message}{plan.width}", help='`score="norm"` or `score="apc"`')
    direction = np.array([[1.0, -1.0], [-1.0, 1.0]]) / 4
    return tables[:, 1, 1], np.broadcast_to(direction, tables.shape)


def _errors(fit: FitRecord, slopes: Array) -> Array:
    """Return sqrt(g' V g) of each row g.

    It is inf if g has a part in a direction without estimate or error, and nan if a laplace prior
    holds an entry of g.
    """
    covariance = fit.determined_covariance("sandwich")
    error = np.sqrt(np.maximum(np.einsum("pi,ij,pj->p", slopes, covariance, slopes, optimize=True), 0.0))
    open_ = np.linalg.norm(slopes @ fit.status.open_directions.T, axis=1) > PART * np.linalg.norm(slopes, axis=1)
    unsure = open_ | ((slopes != 0) & fit.status.without_error).any(axis=1)
    held = without_interval(fit.graph, fit.meta["fixed"], fit.params)
    none = ((slopes != 0) & held).any(axis=1) | np.isnan(slopes).any(axis=1)
    return np.where(none, np.nan, np.where(unsure, np.inf, error))


def _verified(top: int | None, gauge: str, score: str, probability: float) -> float:
    if not is_one_of(score, SCORES):
        raise fail("E507", f"score must be {', '.join(map(repr, SCORES))}, got {score!r}")
    if not is_one_of(gauge, (GAUGE,)):
        raise fail("E507", f"gauge must be {GAUGE!r}, got {gauge!r}", help="scores are compared in the gauge in which norms are smallest")
    if top is not None and (not is_whole_number(top) or top < 1):
        raise fail("E507", f"top is how many pairs are shown, 1 or more, got {top!r}")
    return verified_quantile(probability)
