"""Bootstrapped tests of the differences of edges, or of centralities, within one network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail, is_one_of
from .._progress import shows_progress, waiting
from ..evaluate import unflatten, verified_level
from ..plan import verify_held
from ._centrality import MEASURES, Network, replications_of

if TYPE_CHECKING:
    import pandas as pd

    from ..fit import FitRecord
    from ._bootstrap import Bootstrap

Array = np.ndarray
EDGES = "edges"


def bootstrap_differences(
    fit: FitRecord, bootstrap: Bootstrap, of: str, score: str, gauge: str | None, level: float, progress: bool | None
) -> pd.DataFrame:
    """Return one row for each two edges or cells; see `Fit.bootstrap_differences`.

    Args:
        fit: the fit.
        bootstrap: a bootstrap of the fit.
        of: "edges", or a measure of centrality.
        score: "norm" or "value".
        gauge: "zero_sum" or None.
        level: the probability of the intervals.
        progress: whether a progress bar is shown.
    """
    from .._printed_table import PrintedTable

    if not is_one_of(of, (EDGES, *MEASURES)):
        raise fail("E507", f"of must be {', '.join(map(repr, (EDGES, *MEASURES)))}, got {of!r}")
    level = verified_level(level)
    network, whole = Network(fit, score, gauge), replications_of(fit, bootstrap)

    def values(params: Any) -> Array:
        return network.edges(params) if of == EDGES else network.measures(params)[MEASURES.index(of)]

    with waiting("differences within the network", shows_progress(progress)):
        own, again = values(fit.params), np.array([values(unflatten(fit.graph, flat)) for flat in whole])
        names = network.cells
        if of == EDGES:
            names = [f"{names[a]} - {names[b]}" for a, b in network.places]
        first, second = np.triu_indices(len(names), 1)
        verify_held(8 * 8 * len(first), f"{len(first):,} differences", 'the cells of the network: `of="strength"`')
        low, high, p = (np.empty(len(first)) for _ in range(3))
        step = max(1, (1 << 22) // len(whole))
        for at in range(0, len(first), step):
            here = slice(at, at + step)
            low[here], high[here], p[here] = _tested(again[:, first[here]] - again[:, second[here]], level)
    columns: dict[str, Any] = {"first": [names[k] for k in first], "second": [names[k] for k in second]}
    columns |= {"a": own[first], "b": own[second], "value": own[first] - own[second]}
    tail = 100 * (1 - level) / 2
    columns |= {f"{tail:.3g}%": low, f"{100 - tail:.3g}%": high, "p_value": p, "differs": (low > 0) | (high < 0)}
    frame = PrintedTable(columns)
    frame = frame.iloc[np.lexsort((-np.abs(frame["value"]), frame["p_value"]))].reset_index(drop=True)
    frame.attrs = {"of": of, "score": score, "gauge": gauge, "level": level, "replications": len(whole)}
    return frame


def _tested(apart: Array, level: float) -> tuple[Array, Array, Array]:
    """Return percentile intervals of differences and their two-sided p-values.

    `apart` has the shape (replications, differences).
    """
    low, high = np.quantile(apart, [(1 - level) / 2, (1 + level) / 2], axis=0)
    beyond = np.minimum((apart <= 0).sum(axis=0), (apart >= 0).sum(axis=0))
    return low, high, np.minimum(1.0, 2 * (beyond + 1) / (len(apart) + 1))
