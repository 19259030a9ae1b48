"""Criteria of a path other than EBIC: held-out rows, and the stability over half samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._progress import shows_progress, tracked
from ..data import generator
from ..fit import Penalised
from ._path_runs import PathOptions, Runs

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
AT_ONCE = 5  # number of penalties that are fitted between two evaluations of the bound
ROUNDING = 1e-9  # rounding error of a share of half samples


def held_out(run: Runs, penalties: Array, options: PathOptions) -> tuple[Array, Array, Array]:
    """Return the held-out loss by penalty and copy, its standard error, and which fits converged.

    The loss is per unit of row weight, and the standard error is over folds.
    """
    rows, converged = len(run.weights), np.ones(penalties.shape, bool)
    fold = generator(options.seed, 0).permutation(rows) % options.folds
    sums, parts, weight = np.zeros(penalties.shape), [], np.zeros(run.copies)
    for k in tracked(range(options.folds), "folds", shows_progress(options.progress)):

        def left_out(*_: object, k: int = k) -> tuple[Array, Array, Array]:
            inside, out = (run.values(run.objective(np.where(mine, run.weights, 0.0))) for mine in (fold != k, fold == k))
            found = run.path(inside, penalties, None, options)
            return np.array([run.losses(out, f) for f in found]), np.array([f.converged for f in found]), run.size(out)

        losses, settled, size = run.saved.part(left_out, (np.ones(0),) * 3)
        sums, converged = sums + losses, converged & settled
        weight = weight + size
        parts.append(losses / np.maximum(size, 1e-300))
    return sums / weight, np.std(parts, axis=0, ddof=1) / np.sqrt(options.folds), converged


def stability(run: Runs, penalties: Array, options: PathOptions) -> tuple[pd.DataFrame, float, int, Array]:
    """Return the selection probabilities of couplings over half samples, with an error bound.

    The results are the table of couplings, the error bound, the last penalty that the bound admits,
    and, by penalty and copy, which fits of half samples converged; penalties that were not fitted
    count as converged.

    Let q be the mean number of couplings that a half sample selects at a penalty or above it, p the
    number of couplings, and pi the threshold. The expected number of wrongly stable couplings is at
    most q^2 / ((2 pi - 1) p). This holds for couplings that are absent if all these are
    exchangeable (Meinshausen and Buhlmann 2010, Theorem 1). It also holds for couplings of any kind
    that a half sample selects with probability below q / p, if half samples come in complementary
    pairs, as they do here (Shah and Samworth 2013, Theorem 1).
    """
    import pandas as pd

    count, halves = len(run.edges.names), _halves(run, options)
    share = np.zeros((len(penalties), count))
    states: list[Penalised | None] = [None] * len(halves)
    ever = np.zeros((len(halves), count), bool)
    bounds, converged = np.full(len(penalties), np.inf), np.ones(penalties.shape, bool)
    # The bound grows as the penalty falls: penalties beyond the limit are not fitted.
    for start in range(0, len(penalties), AT_ONCE):
        here = slice(start, start + AT_ONCE)
        what = f"half samples, penalties {start + 1} to {min(start + AT_ONCE, len(penalties))} of {len(penalties)}"
        for h in tracked(range(len(halves)), what, shows_progress(options.progress)):

            def fitted(*_: object, h: int = h, here: slice = here) -> tuple[Any, ...]:
                found = run.path(run.values(run.objective(halves[h])), penalties[here], None, options, states[h])
                selected = run.combined(np.array([run.selected(f) for f in found]))
                return np.array([f.converged for f in found]), selected, found[-1].fields

            settled, selected, end = run.saved.part(fitted, (np.ones(0), np.ones(0), run.uncoupled.fields))
            converged[here] &= settled
            selected = np.maximum.accumulate(np.concatenate([ever[h][None], selected]), axis=0)[1:]
            ever[h], states[h] = selected[-1], Penalised(*end)
            share[here] += selected / len(halves)
        bounds[here] = share[here].sum(axis=1) ** 2 / ((2 * options.threshold - 1) * count)
        if bounds[here][-1] > options.wrong:
            break
    last = int(np.flatnonzero(bounds <= options.wrong).max(initial=0))
    frame = pd.DataFrame({"coupling": run.edges.names, "probability": share[last], "stable": share[last] >= options.threshold - ROUNDING})
    return frame.sort_values("probability", ascending=False, kind="stable", ignore_index=True), float(bounds[last]), last, converged


def _halves(run: Runs, options: PathOptions) -> list[Array]:
    """Return the row weights of each half sample; the two of a pair have no row in common."""
    rows, out = len(run.weights), []
    for k in range(-(-options.subsamples // 2)):
        order = generator(options.seed, k).permutation(rows)
        for mine in (order[: rows // 2], order[rows // 2 : 2 * (rows // 2)]):
            weights = np.zeros(rows)
            weights[mine] = run.weights[mine]
            out.append(weights)
    return out
