"""The couplings of a fit by pair: scores of their tables, with errors by the delta method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail, is_one_of, is_whole_number
from .._progress import shows_progress, waiting
from ..evaluate import interaction_slopes, pair_interactions, pair_sums, verified_quantile
from ..fit import without_interval
from ..plan import PairTables, plan_pair_tables
from .limits import OPEN_PART

if TYPE_CHECKING:
    from ..fit import FitRecord
    from ..graph import FactorGraph
    from ._pair_table import PairTable

Array = np.ndarray
SCORES = ("norm", "apc", "value")
GAUGE = "zero_sum"


def couplings(fit: FitRecord, top: int | None, gauge: str | None, score: str, probability: float, progress: bool | None) -> PairTable:
    """Return one row for each pair of cells, the largest score first; see `Fit.couplings`.

    Args:
        fit: the fit.
        top: the number of rows, or None.
        gauge: "zero_sum", or None for tables as the factors state them.
        score: "norm", "apc" or "value".
        probability: the probability of the intervals.
        progress: whether a progress bar is shown.
    """
    from ._pair_table import PairTable

    z = _verified(top, gauge, score, probability)
    graph = fit.graph
    plan = plan_pair_tables(graph)
    tables = gauged(graph, plan, fit.params, gauge)
    value, directions = scored(graph, plan, tables, score, gauge)
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


def pairs_of(graph: FactorGraph, params: Mapping[str, Any], score: str, gauge: str | None) -> PairTable:
    """Return the pairs of cells whose score is not 0 at some parameters, the strongest first.

    Args:
        graph: the factor graph.
        params: the parameters.
        score: "norm", "apc" or "value".
        gauge: "zero_sum" or None.
    """
    from ._pair_table import PairTable

    _verified(None, gauge, score, 0.5)
    plan = plan_pair_tables(graph)
    value = scored(graph, plan, gauged(graph, plan, params, gauge), score, gauge)[0]
    there = np.abs(value) > 0
    value = apc(plan.pairs, value)[0] if score == "apc" else value
    shown = np.abs(value) if score == "value" else value
    order = np.argsort(-shown, kind="stable")
    order = order[there[order]]
    names = [graph.cell_name(i) for i in range(graph.n_random)]
    ends = {end: [names[c] for c in plan.pairs[order, k]] for k, end in enumerate(("first", "second"))}
    frame = PairTable(ends | {"value": value[order], "score": shown[order]})
    frame.attrs = {"cells": names, "score": score, "gauge": gauge}
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


def gauged(graph: FactorGraph, plan: PairTables, params: Mapping[str, Any], gauge: str | None) -> Array:
    """Return the tables of all pairs in the zero-sum gauge, or as the factors state them."""
    return pair_sums(graph, plan, params) if gauge is None else pair_interactions(graph, plan, params)


def scored(graph: FactorGraph, plan: PairTables, tables: Array, score: str, gauge: str | None = "zero_sum") -> tuple[Array, Array]:
    """Return the uncorrected score of each pair, and its derivative with respect to the tables.

    Args:
        graph: the factor graph.
        plan: the plan of the pairs' tables.
        tables: shape (pairs, width, width).
        score: "norm", "apc" or "value".
        gauge: the gauge of the tables.
    """
    if score != "value":
        return _norms(tables)
    directions = _value_directions(graph, plan, gauge)
    return (directions * tables).sum(axis=(1, 2)), directions


def _norms(tables: Array) -> tuple[Array, Array]:
    """Return Frobenius norms, and their derivatives with respect to the tables.

    A derivative is nan if the table is 0, because a norm is not differentiable there.
    """
    norm = np.sqrt((tables**2).sum(axis=(1, 2)))
    with np.errstate(invalid="ignore"):
        return norm, tables / norm[:, None, None]


def _value_directions(graph: FactorGraph, plan: PairTables, gauge: str | None) -> Array:
    """Return the directions D of all pairs: a pair's value is the sum of D(a, b) T(a, b).

    s and t are the values of both cells minus their means. D is s(a) t(b) / (q r sd(s) sd(t)) for
    cells of q and r values, with the standard deviations over these values. In the raw gauge it is
    s(a) t(b) / (sum of s^2 times sum of t^2): the slope of T in s(a) t(b) by least squares.

    Returns:
        Array of shape (pairs, width, width), with sums 0 over a and over b.

    Raises:
        GmlmError: E507 if a cell of more than two values has no order.
    """
    scores = centred_values(graph, plan.width)
    # Two labels have one direction, from the first to the last; their numbers are 0 and 1.
    bare = np.flatnonzero(np.isnan(scores).any(axis=1) & (graph.sizes == 2))
    scores[bare, :2] = -0.5, 0.5
    lost = next((int(c) for c in np.ravel(plan.pairs) if np.isnan(scores[c]).any()), None)
    if lost is not None:
        message = f'score="value" is for cells with two values, or whose values are numbers; `{graph.cell_name(lost)}` has '
        cure = '`score="norm"` or `score="apc"`; if its values have an order, declare them as numbers: `range(1, 4)`'
        raise fail("E507", f"{message}{graph.sizes[lost]} values without an order", help=cure)
    with np.errstate(invalid="ignore"):  # cells of one value have no pair
        squares = (scores**2).sum(axis=1, keepdims=True)
        scores = scores / squares if gauge is None else scores / np.sqrt(squares * graph.sizes[:, None])
    first, second = (scores[plan.pairs[:, k]] for k in (0, 1))
    return first[:, :, None] * second[:, None, :]


def centred_values(graph: FactorGraph, width: int) -> Array:
    """Return the values of each cell minus their mean, shape (cells, width).

    Entries beyond a cell's values are 0. A cell whose values are no numbers has nan.
    """
    values = np.where(np.arange(width) < graph.sizes[:, None], np.nan, 0.0)
    for v in graph.variables:
        if v.ordered:
            own = np.asarray(v.numbers, float)
            values[np.ravel(v.positions), : len(own)] = own - own.mean()
    return values


def has_signs(graph: FactorGraph) -> bool:
    """Return whether every cell has two values, or values that are numbers."""
    return all(v.ordered or len(v.labels) <= 2 for v in graph.variables)


def _errors(fit: FitRecord, slopes: Array) -> Array:
    """Return sqrt(g' V g) of each row g.

    It is inf if g has a part in a direction without estimate or error, and nan if a laplace prior
    holds an entry of g.
    """
    covariance = fit.determined_covariance("sandwich")
    error = np.sqrt(np.maximum(np.einsum("pi,ij,pj->p", slopes, covariance, slopes, optimize=True), 0.0))
    open_ = np.linalg.norm(slopes @ fit.status.open_directions.T, axis=1) > OPEN_PART * np.linalg.norm(slopes, axis=1)
    unsure = open_ | ((slopes != 0) & fit.status.without_error).any(axis=1)
    held = without_interval(fit.graph, fit.meta["fixed"], fit.params)
    none = ((slopes != 0) & held).any(axis=1) | np.isnan(slopes).any(axis=1)
    return np.where(none, np.nan, np.where(unsure, np.inf, error))


def _verified(top: int | None, gauge: str | None, score: str, probability: float) -> float:
    if not is_one_of(score, SCORES):
        raise fail("E507", f"score must be {', '.join(map(repr, SCORES))}, got {score!r}")
    verify_gauge(gauge)
    if top is not None and (not is_whole_number(top) or top < 1):
        raise fail("E507", f"top is how many pairs are shown, 1 or more, got {top!r}")
    return verified_quantile(probability)


def verify_gauge(gauge: Any) -> None:
    """Raise E507 unless `gauge` is "zero_sum" or None."""
    if gauge is not None and not is_one_of(gauge, (GAUGE,)):
        help_ = "scores are compared in the gauge in which norms are smallest; None takes the tables as the factors state them"
        raise fail("E507", f"gauge must be {GAUGE!r} or None, got {gauge!r}", help=help_)
