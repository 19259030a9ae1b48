"""Tests of the differences of couplings between two fits of one model.

The tests are Wald tests or permutation tests, corrected for the number of pairs.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import GmlmWarning, counted, fail, is_one_of, is_real_number, tell, whole_number
from .._progress import shows_progress, tracked, waiting
from ..data import generator, verified_seed
from ..evaluate import interaction_slopes, pair_interactions, zero_sum
from ..fit import Reweighted, row_weights
from ..plan import PairTables, plan_pair_tables, verify_held
from ._bootstrap import NO_ESTIMATE, refit_start
from ._couplings import scored
from ._wald import holm, pulls, verify_alike
from .limits import LEAST_VARIANCE, MOST_DIRECTIONS, OPEN_PART

if TYPE_CHECKING:
    import pandas as pd

    from ..fit import Evidence, FitRecord

Array = np.ndarray
CORRECTIONS = ("holm", "bh", "none")


@dataclasses.dataclass(frozen=True)
class Permutations:
    """The number of permutations, their seed, and the maximum run time in seconds."""

    count: int
    seed: int
    max_seconds: float
    progress: bool | None


def differences(a: FitRecord, b: FitRecord, correction: str, level: float, permuted: Permutations) -> pd.DataFrame:
    """Return one row for each pair of cells; see `Fit.differences`.

    Args:
        a: the first fit.
        b: the second fit.
        correction: "holm", "bh" or "none".
        level: the level of the tests.
        permuted: the options of the permutations.
    """
    from .._printed_table import PrintedTable

    graph = verify_alike(a, b)
    verified_seed(permuted.seed)
    if not is_one_of(correction, CORRECTIONS):
        raise fail("E507", f"correction must be {', '.join(map(repr, CORRECTIONS))}, got {correction!r}")
    if not is_real_number(level) or not 0 < level < 1:
        raise fail("E507", f"level must be a number between 0 and 1, got {level!r}")
    seconds = permuted.max_seconds
    if not is_real_number(seconds) or not seconds > 0:
        raise fail("E507", f"max_seconds must be a number above 0, got {seconds!r}")
    verify_held(24 * whole_number("permutations", permuted.count, 0), f"{permuted.count:,} permutations", "fewer `permutations=`")
    if a is b:
        raise fail("E545", "a fit is compared with itself", help="`model.fit(rows)` of the other group's rows")
    plan = plan_pair_tables(a.graph)
    needed = permutations_needed(len(plan.pairs), correction, level)
    tables = [pair_interactions(f.graph, plan, f.params) for f in (a, b)]
    apart = tables[0] - tables[1]
    columns: dict[str, object] = {s: [graph.cell_name(int(c)) for c in plan.pairs[:, k]] for k, s in enumerate(("first", "second"))}
    score = "value" if plan.width == 2 else "norm"
    columns["a"], columns["b"] = (scored(a.graph, plan, t, score)[0] for t in tables)
    columns["value"] = scored(a.graph, plan, apart, score)[0]
    attrs: dict[str, Any] = {"cells": [graph.cell_name(i) for i in range(graph.n_random)], "correction": correction, "level": level}
    if permuted.count:
        if permuted.count < needed:
            each = f"p of {counted(permuted.count, 'permutation')} is 1 / {permuted.count + 1} at least"
            told = f"corrected for {counted(len(plan.pairs), 'pair')}, " if correction == "holm" else ""
            message = f"{each}: {told}no pair can be told apart at {level:g}, only the largest difference and the strength can"
            tell(f"{message}; ask for `permutations={needed}` or more", GmlmWarning)
        columns["p_value"], attrs["p_largest"], attrs["p_strength"] = _by_permutations(a, b, plan, tables, permuted)
    else:
        with waiting("tests of couplings", shows_progress(permuted.progress)):
            columns["statistic"], columns["df"], columns["p_value"] = _by_wald(a, b, plan, apart, needed)
    columns["p_adjusted"] = adjusted(columns["p_value"], correction)
    columns["differs"] = columns["p_adjusted"] <= level
    frame = PrintedTable(columns)
    frame = frame.iloc[np.lexsort((-np.abs(frame["value"]), frame["p_value"]))].reset_index(drop=True)
    frame.attrs = attrs
    return frame


def permutations_needed(pairs: int, correction: str, level: float) -> int:
    """Return the minimum number n of permutations with which a pair can differ significantly.

    n satisfies m / (n + 1) <= level. m is the factor by which the correction multiplies the
    smallest p-value. Under Benjamini and Hochberg's correction all pairs may share the smallest
    p-value, and m is 1.
    """
    factor = max(pairs, 1) if correction == "holm" else 1
    return math.ceil(factor / level * (1 - 1e-12)) - 1


def adjusted(p: Array, correction: str) -> Array:
    """Return p-values corrected for the number of p-values that are not nan."""
    out, known = np.full(p.shape, np.nan), ~np.isnan(p)
    if correction == "none":
        return p
    out[known] = holm(p[known]) if correction == "holm" else benjamini_hochberg(p[known])
    return out


def benjamini_hochberg(p: Array) -> Array:
    """Return for each p-value the minimum level at which the step-up procedure rejects it.

    It is min over k' >= k of m p_(k') / k', at most 1.

    Reference: Benjamini and Hochberg 1995.
    """
    order, m = np.argsort(p, kind="stable"), len(p)
    scaled = np.minimum.accumulate((p[order] * m / np.arange(1, m + 1))[::-1])[::-1]
    out = np.empty(m)
    out[order] = np.minimum(scaled, 1.0)
    return out


def _by_wald(a: FitRecord, b: FitRecord, plan: PairTables, apart: Array, instead: int) -> tuple[Array, Array, Array]:
    """Return the Wald statistic of each pair, its rank, and its p-value.

    The statistic is d' V^- d for the table of differences d. The p-value is that of a chi-square
    distribution, and nan if there is no error.
    """
    from scipy.special import chdtrc

    if (plan.width - 1) ** 2 > MOST_DIRECTIONS:
        message = f"Wald tests of tables of {plan.width} by {plan.width} need {(plan.width - 1) ** 2} directions each"
        help_ = f"ask for `permutations={instead}` or more, two refits each"
        raise fail("E601", f"{message}, more than the limit of {MOST_DIRECTIONS}", help=help_)
    covariance = sum((f.determined_covariance("sandwich") for f in (a, b)), np.zeros(())) + pulls(a, b)
    each = _directions(plan)
    # The slopes have the shape (k, pairs, entries).
    slopes = np.stack([[interaction_slopes(f.graph, plan, f.params, d) for d in each] for f in (a, b)]).mean(axis=0)
    found = np.stack([(d * apart).sum(axis=(1, 2)) for d in each])
    open_ = np.zeros(len(plan.pairs), bool)
    for fit in (a, b):
        part = np.linalg.norm(slopes @ fit.status.open_directions.T, axis=2) > OPEN_PART * np.linalg.norm(slopes, axis=2)
        open_ |= (part | ((slopes != 0) & fit.status.without_error).any(axis=2)).any(axis=0)
    statistic, rank = np.full(len(plan.pairs), np.nan), np.zeros(len(plan.pairs), int)
    for p in np.flatnonzero(~open_):
        values, vectors = np.linalg.eigh(slopes[:, p] @ covariance @ slopes[:, p].T)
        kept = values > LEAST_VARIANCE * max(values.max(), 1e-300)
        rank[p] = kept.sum()
        statistic[p] = ((vectors[:, kept].T @ found[:, p]) ** 2 / values[kept]).sum() if kept.any() else np.nan
    return statistic, rank, np.where(rank > 0, chdtrc(np.maximum(rank, 1), statistic), np.nan)


def _directions(plan: PairTables) -> list[Array]:
    """Return tables with zero sums over rows and columns that span those of every pair.

    Each has the shape (pairs, width, width).
    """
    out = []
    for i in range(plan.width - 1):
        for j in range(plan.width - 1):
            one = np.zeros(plan.present.shape)
            one[:, i + 1, j + 1] = 1.0
            out.append(zero_sum(one, plan.present))
    return out


def _by_permutations(
    a: FitRecord, b: FitRecord, plan: PairTables, tables: list[Array], permuted: Permutations
) -> tuple[Array, float, float]:
    """Return p-values of each pair, of the largest difference, and of the sums of norms.

    A p-value is (1 + number of permutations with at least as large a difference) / (1 +
    permutations).
    """
    count = permuted.count
    pooled, sizes = _pooled(a, b)
    refit, weights = Reweighted(pooled, refit_start(a)), row_weights(pooled)
    found, each, began = _apart(tables), [], time.perf_counter()
    for r in tracked(range(count), f"{counted(count, 'permutation')}, two refits each", shows_progress(permuted.progress)):
        mine = generator(permuted.seed, r).permutation(sum(sizes)) < sizes[0]
        refits = [refit(np.where(side, weights, 0.0)) for side in (mine, ~mine)]
        if not each:
            expected = (count - 1) * (time.perf_counter() - began)
            if expected > permuted.max_seconds:
                message = f"{counted(2 * count, 'refit')} take about {expected:.3g} s, more than the limit of {permuted.max_seconds:g} s"
                raise fail("E546", message, help="ask for fewer `permutations=`, or raise `max_seconds=`")
        if any(e.code in NO_ESTIMATE for e in refits):
            each.append(np.full(len(found), np.inf))  # a failed refit counts as a larger difference
        else:
            each.append(_apart([pair_interactions(a.graph, plan, e.params) for e in refits]))
    again = np.array(each)
    far = (1 + (again >= found).sum(axis=0)) / (1 + count)
    return far[:-2], float(far[-2]), float(far[-1])


def _apart(tables: list[Array]) -> Array:
    """Return the norm of each pair's difference, and two statistics of all pairs.

    These are the maximum of the norms, and the absolute difference of the sums of all norms.
    """
    norms = np.sqrt(((tables[0] - tables[1]) ** 2).sum(axis=(1, 2)))
    total = [np.sqrt((t**2).sum(axis=(1, 2))).sum() for t in tables]
    return np.append(norms, [norms.max(initial=0.0), abs(total[0] - total[1])])


def _pooled(a: FitRecord, b: FitRecord) -> tuple[Evidence, tuple[int, int]]:
    """Return the rows of both fits as one evidence, and the numbers of rows."""
    first, second = a.evidence, b.evidence
    if a.graph.given:
        raise fail("E510", "rows of given data are not exchanged: a permutation test is for models without", help="`permutations=0`")
    codes = np.concatenate([first.codes, second.codes], axis=1)
    weights = np.concatenate([row_weights(first), row_weights(second)])
    options = dataclasses.replace(first.options, weights=weights)
    return dataclasses.replace(first, codes=codes, options=options), (first.codes.shape[1], second.codes.shape[1])
