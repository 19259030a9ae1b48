"""The centrality of cells in the network of couplings, with bootstrapped tests.

Its stability is measured by leaving rows out: case-dropping subsets and the CS coefficient.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import counted, duration, fail, is_one_of, is_real_number, whole_number
from .._progress import shows_progress, tracked, waiting
from .._types import AnyArray, ArrayLike
from ..data import generator, verified_seed
from ..evaluate import unflatten, verified_level, verified_quantile
from ..fit import verify_spread
from ..plan import PairTables, plan_pair_tables, verify_held
from ._bootstrap import Bootstrap, refitted, row_shares
from ._couplings import centred_values, gauged, scored, verify_gauge
from .limits import DROP_TAILS, EQUAL_LENGTHS

if TYPE_CHECKING:
    import pandas as pd

    from ..fit import FitRecord

Array = np.ndarray
UNORDERED = "nan: a coupling of values that have no order has no sign, and a cell with one has no expected influence"
MEASURES = ("strength", "expected_influence", "closeness", "betweenness")
EDGES = "edges"
SHARES = tuple(np.linspace(0.05, 0.75, 10))  # the default of bootnet


def centrality(
    fit: FitRecord, score: str, bootstrap: Bootstrap | None, probability: float, gauge: str | None, progress: bool | None
) -> pd.DataFrame:
    """Return one row for each cell that has a coupling; see `Fit.centrality`.

    Args:
        fit: the fit.
        score: "norm" or "value".
        bootstrap: a bootstrap of the fit, or None.
        probability: the probability of the intervals.
        gauge: "zero_sum" or None.
        progress: whether a progress bar is shown.
    """
    import pandas as pd

    from .._printed_table import PrintedTable

    verified_quantile(probability)
    network = Network(fit, score, gauge)
    with waiting("centrality", shows_progress(progress)):
        found = network.measures(fit.params)
    frame = PrintedTable(dict(zip(MEASURES, found, strict=True)), index=pd.Index(network.cells, name="cell"))
    frame.attrs = {"score": score}
    if np.isnan(found[1]).any():
        frame.attrs["note"] = UNORDERED
    if bootstrap is None:
        return frame
    whole = replications_of(fit, bootstrap)
    steps = tracked(range(len(whole)), f"centrality, {counted(len(whole), 'replication')}", shows_progress(progress))
    again = np.array([network.measures(unflatten(fit.graph, whole[r])) for r in steps])
    tail = (1 - probability) / 2
    low, high = np.quantile(again, [tail, 1 - tail], axis=0)
    for k, name in enumerate(MEASURES):
        frame[f"{name} {100 * tail:.3g}%"], frame[f"{name} {100 * (1 - tail):.3g}%"] = low[k], high[k]
    frame.attrs["stability"] = {name: _stability(again[:, k], found[k]) for k, name in enumerate(MEASURES)}
    frame.attrs["replications"] = len(whole)
    return frame


def replications_of(fit: FitRecord, bootstrap: object) -> Array:
    """Return the replications of a bootstrap in which every entry has an estimate.

    Raises:
        GmlmError: E507 for another object, a bootstrap of other parameters, or fewer than two
            replications.
    """
    if not isinstance(bootstrap, Bootstrap):
        raise fail(
            "E507", f"bootstrap must be what `fit.bootstrap(..)` gives, got {type(bootstrap).__name__}", help="`fit.bootstrap(200)`, say"
        )
    if bootstrap.estimates.shape[1] != len(fit.flat(fit.params)):
        raise fail("E507", "bootstrap is that of a fit with other parameters", help="take this fit's own: `fit.bootstrap(200)`")
    whole = bootstrap.estimates[np.isfinite(bootstrap.estimates).all(axis=1)]
    if len(whole) < 2:
        raise fail("E507", f"bootstrap: {len(whole)} of its replications have an estimate of every entry, and 2 are needed")
    return whole


class Network:
    """The network of the couplings of a model, as a function of its parameters.

    Args:
        fit: the fit.
        score: "norm" or "value".
        gauge: "zero_sum" or None.

    Raises:
        GmlmError: E507 for options, E555 for a model without couplings.
    """

    def __init__(self, fit: FitRecord, score: str, gauge: str | None):
        verify_gauge(gauge)
        if not is_one_of(score, ("norm", "value")):
            raise fail("E507", f'score must be "norm" or "value", got {score!r}', help="APC takes off what makes a cell central")
        self.fit, self.score, self.gauge = fit, score, gauge
        self.plan = plan_pair_tables(fit.graph)
        found, places = np.unique(self.plan.pairs, return_inverse=True)
        self.places = places.reshape(self.plan.pairs.shape)
        self.cells = [fit.graph.cell_name(int(c)) for c in found]
        self.signs = _signs(fit, self.plan)

    def edges(self, params: Mapping[str, AnyArray]) -> Array:
        """Return the coupling of each pair, shape (pairs,)."""
        return self._weights(params)[0]

    def measures(self, params: Mapping[str, AnyArray]) -> Array:
        """Return the centralities, shape (4, cells), in the order of `MEASURES`."""
        return _measures(self.places, len(self.cells), *self._weights(params))

    def _weights(self, params: Mapping[str, AnyArray]) -> tuple[Array, Array]:
        """Return the couplings, and the couplings with signs, nan if a coupling has no sign."""
        graph = self.fit.graph
        tables = gauged(graph, self.plan, params, self.gauge)
        weights = scored(graph, self.plan, tables, self.score, self.gauge)[0]
        if self.score == "value":
            return weights, weights
        along = (tables * self.signs).sum(axis=(1, 2))
        return weights, np.where(weights == 0, 0.0, np.abs(weights) * np.where(np.isnan(along), np.nan, np.sign(along)))


def _signs(fit: FitRecord, plan: PairTables) -> Array:
    """Return for each pair the products of both cells' centred values, shape (pairs, width, width).

    Entries are nan if the values of a cell are no numbers. For J s t with spins or ranges s and t,
    the sum of a product with the table has the sign of J, in every gauge.
    """
    values = centred_values(fit.graph, plan.width)
    first, second = (values[plan.pairs[:, k]] for k in (0, 1))
    return np.where(plan.present, first[:, :, None] * second[:, None, :], 0.0)


def _measures(pairs: Array, count: int, weights: Array, signed: Array) -> Array:
    """Return the four measures of each cell, shape (4, cells), in the order of `MEASURES`."""
    strength, influence = np.zeros(count), np.zeros(count)
    for s in (0, 1):
        np.add.at(strength, pairs[:, s], np.abs(weights))
        np.add.at(influence, pairs[:, s], signed)
    near: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    for (i, j), w in zip(pairs.tolist(), np.abs(weights), strict=True):
        if w > 0:
            near[i].append((j, 1 / w))
            near[j].append((i, 1 / w))
    between, closeness = np.zeros(count), np.zeros(count)
    for source in range(count):
        distance, through = _paths(near, source)
        between += through
        total = distance.sum()
        closeness[source] = 1 / total if np.isfinite(total) and total > 0 else 0.0
    return np.stack([strength, influence, closeness, between / 2])


def _paths(near: list[list[tuple[int, float]]], source: int) -> tuple[Array, Array]:
    """Return the distances from a cell to all cells, and the dependency of the cell on each cell.

    The dependency on a cell is the share of the shortest paths that run through it, summed over the
    ends of the paths.

    Reference: Brandes 2001, algorithm 1, with Dijkstra's algorithm.
    """
    count = len(near)
    distance, paths = np.full(count, np.inf), np.zeros(count)
    distance[source], paths[source] = 0.0, 1.0
    before: list[list[int]] = [[] for _ in range(count)]
    done, order, waiting = np.zeros(count, bool), [], [(0.0, source)]
    while waiting:
        _, v = heapq.heappop(waiting)
        if done[v]:
            continue
        done[v] = True
        order.append(v)
        for w, length in near[v]:
            to = distance[v] + length
            if to < distance[w] * (1 - EQUAL_LENGTHS):
                distance[w], paths[w], before[w] = to, paths[v], [v]
                heapq.heappush(waiting, (to, w))
            elif not done[w] and to <= distance[w] * (1 + EQUAL_LENGTHS):
                paths[w] += paths[v]
                before[w].append(v)
    through = np.zeros(count)
    for w in reversed(order):
        for v in before[w]:
            through[v] += paths[v] / paths[w] * (1 + through[w])
    through[source] = 0.0
    return distance, through


def _stability(again: Array, found: Array) -> float:
    """Return the mean rank correlation between the centralities of replications and of the fit.

    The result is nan if all cells have the same centrality.
    """
    from scipy.stats import rankdata

    ranks = np.array([rankdata(row) for row in (found, *again)])
    ranks -= ranks.mean(axis=1, keepdims=True)
    sizes = np.sqrt((ranks**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.mean((ranks[1:] @ ranks[0]) / (sizes[1:] * sizes[0])))


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


@dataclass(frozen=True, repr=False)
class CaseDropping:
    """Correlations of networks of subsets of the rows with the network of all rows.

    Attributes:
        shares: the share of rows that is left out, shape (shares,).
        rows: the number of rows of a subset, shape (shares,).
        correlations: by statistic, the correlation of a subset's values with those of all rows,
            shape (shares, replications). The statistics are `edges` and the measures of
            `Fit.centrality`. A correlation is nan if a refit has no estimate of every entry, and 0
            if all its values are equal.
        correlation: the correlation r of the CS coefficient.
        certainty: its probability.
        failed: the number of refits that did not converge.
        seconds: the run time.
    """

    shares: Array
    rows: Array
    correlations: Mapping[str, Array]
    correlation: float
    certainty: float
    failed: int
    seconds: float

    @property
    def coefficients(self) -> dict[str, float]:
        """The CS coefficient of each statistic.

        It is the largest share of rows left out at which the correlation with the values of all
        rows exceeds `correlation` in more than a share `certainty` of the subsets; 0 if there is
        none. At least 0.25 is asked for, better 0.5 (Epskamp, Borsboom and Fried 2018).
        """
        found = {name: self.shares[self._above(c) > self.certainty] for name, c in self.correlations.items()}
        return {name: float(shares.max(initial=0.0)) for name, shares in found.items()}

    def table(self) -> pd.DataFrame:
        """Return a DataFrame with one row for each statistic and share of rows left out.

        The columns are `statistic`, `dropped` (the share), `rows`, the `mean` correlation, its 2.5
        % and 97.5 % quantiles over subsets, `above` and `subsets`. `above` is the share of subsets
        whose correlation is above `correlation`. `subsets` is the number of subsets with an
        estimate.
        """
        import pandas as pd

        parts = []
        for name, found in self.correlations.items():
            known = [row[~np.isnan(row)] for row in found]
            mean = [k.mean() if len(k) else np.nan for k in known]
            ends = np.array([np.quantile(k, DROP_TAILS) if len(k) else (np.nan, np.nan) for k in known])
            columns: dict[str, Any] = {"statistic": name, "dropped": self.shares, "rows": self.rows, "mean": mean}
            columns |= {f"{100 * t:.3g}%": e for t, e in zip(DROP_TAILS, ends.T, strict=True)}
            parts.append(pd.DataFrame(columns | {"above": self._above(found), "subsets": [len(k) for k in known]}))
        return pd.concat(parts, ignore_index=True)

    def _above(self, found: Array) -> Array:
        known = ~np.isnan(found)
        return ((found > self.correlation) & known).sum(axis=1) / np.maximum(known.sum(axis=1), 1)

    def __repr__(self) -> str:
        count = next(iter(self.correlations.values())).shape[1]
        lines = [
            f"Case dropping: {counted(count, 'subset')} at each of {len(self.shares)} shares of rows left out, {duration(self.seconds)}"
        ]
        if self.failed:
            lines.append(f"{self.failed} refits did not converge; they are left out.")
        told = f"share of rows that may be left out with a correlation above {self.correlation:g} in {100 * self.certainty:g} % of subsets"
        lines.append(f"CS coefficients ({told}):")
        highest = float(self.shares.max())
        for name, value in self.coefficients.items():
            lines.append(f"  {name}: {value:.3g}{', the highest share that was tried' * (value == highest)}")
        return "\n".join(lines)


def case_dropping(
    made: FitRecord,
    replications: int,
    shares: ArrayLike | None,
    seed: int,
    *,
    score: str,
    gauge: str | None,
    correlation: float,
    certainty: float,
    max_seconds: float,
    progress: bool | None,
) -> CaseDropping:
    """Return the correlations of networks of subsets of rows; see `Fit.case_dropping`."""
    verified_seed(seed)
    replications = whole_number("replications", replications, 2)
    left_out = _verified_shares(shares)
    _verify_number("correlation", correlation, -1, 1)
    _verify_number("certainty", certainty, 0, 1)
    verify_spread(made.effective_rows, "case dropping")
    count = replications * len(left_out)
    verify_held(16 * count, f"{count:,} subsets", "fewer `replications=`")
    network = Network(made, score, gauge)
    often, importance = row_shares(made.evidence)
    whole = round(often.sum())
    kept = np.round((1 - left_out) * whole).astype(int)
    if kept.min() < 2 or kept.max() >= whole:
        message = f"shares of {whole} rows leave out none of them, or leave fewer than 2: subsets would have {kept.tolist()} rows"
        raise fail("E507", message, help="shares such as `shares=[0.25, 0.5]`")

    def subsets() -> Iterator[Array]:
        for k, rows in enumerate(kept):
            for r in range(replications):
                rng = generator(seed, k, r)
                yield rng.multivariate_hypergeometric(often.astype(np.int64), int(rows)) * importance

    found = refitted(made, subsets(), count, "case dropping", max_seconds, progress)
    own = _statistics(network, made.params)
    out = {name: np.full(count, np.nan) for name in own}
    for k, flat in enumerate(found.estimates):
        if np.isfinite(flat).all():
            for name, values in _statistics(network, unflatten(made.graph, flat)).items():
                out[name][k] = correlated(values, own[name])
    correlations = {name: v.reshape(len(kept), replications) for name, v in out.items() if not np.isnan(own[name]).any()}
    return CaseDropping(left_out, kept, correlations, float(correlation), float(certainty), found.failed, found.seconds)


def correlated(a: Array, b: Array) -> float:
    """Return the correlation of two arrays, 0 if one of them is constant."""
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a**2).sum() * (b**2).sum())
    return float((a * b).sum() / size) if size > 0 else 0.0


def _statistics(network: Network, params: Any) -> dict[str, Array]:
    return {"edges": network.edges(params)} | dict(zip(MEASURES, network.measures(params), strict=True))


def _verified_shares(shares: ArrayLike | None) -> Array:
    cure = "`shares=[0.1, 0.25, 0.5]`, or none for ten of them from 0.05 to 0.75"
    try:
        found = np.unique(np.asarray(SHARES if shares is None else shares, float).ravel())
    except (TypeError, ValueError, OverflowError):
        raise fail("E507", f"shares must be numbers between 0 and 1, got {shares!r}", help=cure) from None
    if isinstance(shares, str) or not len(found) or not ((found > 0) & (found < 1)).all():
        raise fail("E507", f"shares must be numbers between 0 and 1, got {shares!r}", help=cure)
    return found


def _verify_number(name: str, value: Any, low: float, high: float) -> None:
    if not is_real_number(value) or not low < value < high:
        raise fail("E507", f"{name} must be a number between {low} and {high}, got {value!r}")
