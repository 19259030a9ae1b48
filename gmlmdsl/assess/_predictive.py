"""Predictive checks: statistics of the data and of data sets simulated from the fitted model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail, in_paragraphs, is_one_of, listed, unknown, whole_number
from .._progress import shows_progress, tracked, waiting
from .._types import ArrayLike, Given, Missing, OfConfiguration, Rows
from ..data import generator, verified_seed
from ..evaluate import LEVEL, verified_level
from ..fit import row_weights
from ..plan import BUDGET, verify_held
from ._replicates import (
    AbstractSource,
    AbstractStatistics,
    Function,
    Marginals,
    Pairs,
    Summary,
    chain_source,
    exact_source,
    function_values,
    given_source,
    is_listable,
)
from ._scored_rows import evidence_of
from .limits import MOST_OPERATIONS

if TYPE_CHECKING:
    import pandas as pd

    from ..fit import FitRecord

Array = np.ndarray
BUILT_IN = ("marginals", "pairs")


@dataclass(frozen=True, repr=False)
class Statistics:
    """One kind of statistics, of the data and of the replicated data sets.

    Attributes:
        name: marginals, pairs, or the user's name.
        labels: the labels of the statistics.
        observed: the values on the data, shape (statistics,).
        replicated: the values on the replicated data sets, shape (draws, statistics).
        level: the probability of the bands.
    """

    name: str
    labels: tuple[str, ...]
    observed: Array
    replicated: Array = field(repr=False)
    level: float = LEVEL

    @cached_property
    def mean(self) -> Array:
        """The mean over the replicated data sets."""
        return self.replicated.mean(axis=0)

    @cached_property
    def spread(self) -> Array:
        """The standard deviation over the replicated data sets."""
        return self.replicated.std(axis=0, ddof=1)

    @cached_property
    def z(self) -> Array:
        """The z-scores (observed - mean) / standard deviation.

        A z-score is 0 if both are the same constant, and infinite if they are different constants.
        """
        return _standardised(self.observed, self.mean, self.spread)

    @cached_property
    def p_values(self) -> Array:
        """The two-sided p-values 2 (r + 1) / (m + 1), at most 1.

        r is the number of the m replicated values at or beyond the observed value on the nearer
        side. If the parameters are the true ones and rows are independent, P(p <= a) <= a for every
        statistic.
        """
        above = (self.replicated >= self.observed).sum(axis=0)
        below = (self.replicated <= self.observed).sum(axis=0)
        return np.minimum(1.0, 2 * (np.minimum(above, below) + 1) / (len(self.replicated) + 1))

    @cached_property
    def bands(self) -> tuple[Array, Array]:
        """The ends of the bands of probability `level`; values outside have p <= 1 - level."""
        m = len(self.replicated)
        k = _tail(m, self.level)
        ordered = np.partition(self.replicated, (k - 1, m - k), axis=0)
        return ordered[k - 1], ordered[m - k]

    @property
    def outside(self) -> Array:
        """The statistics that lie outside their band, as booleans."""
        low, high = self.bands
        return (self.observed < low) | (self.observed > high)

    @property
    def expected_outside(self) -> float:
        """The expected number of statistics outside their bands if the model is right.

        It is an upper bound if statistics have ties.
        """
        m = len(self.replicated)
        return len(self.labels) * 2 * _tail(m, self.level) / (m + 1)

    @cached_property
    def worst_p_value(self) -> float:
        """The p-value of the largest |z|, which is one test of all statistics together.

        It is the share of data sets, replicated or observed, whose largest |z| is at least as large
        as that of the data.
        """
        pool = np.concatenate([self.observed[None], self.replicated]).astype(float)
        largest = np.abs(_standardised(pool, pool.mean(axis=0), pool.std(axis=0, ddof=1))).max(axis=1)
        return float((largest >= largest[0]).mean())

    def table(self, most: int | None = None) -> pd.DataFrame:
        """Return the statistics as rows, the largest |z| first: `most` of them, or all."""
        import pandas as pd

        most = None if most is None else whole_number("most", most, 0)
        order = np.argsort(-np.abs(self.z), kind="stable")[:most]
        low, high = self.bands
        columns = {"data": self.observed, "model": self.mean, "spread": self.spread}
        tail = 100 * (1 - self.level) / 2
        columns |= {f"{tail:.3g}%": low, f"{100 - tail:.3g}%": high, "z": self.z, "p": self.p_values}
        return pd.DataFrame({k: v[order] for k, v in columns.items()}, index=pd.Index([self.labels[i] for i in order], name=self.name))

    def __repr__(self) -> str:
        worst = int(np.argmax(np.abs(self.z)))
        outside = f"{int(self.outside.sum())} of {len(self.labels)} outside the {100 * self.level:g} % band"
        return (
            f"{self.name}: {outside}, {self.expected_outside:.2g} expected; "
            f"largest |z| {abs(self.z[worst]):.3g} at {self.labels[worst]}, p = {self.worst_p_value:.2g} for so large a one among all"
        )


@dataclass(frozen=True, repr=False)
class PredictiveCheck:
    """The result of `Fit.predictive`.

    Attributes:
        statistics: the statistics by name.
        rows: the number of rows of the data.
        incomplete: the number of these rows that lack a cell.
        draws: the number of replicated data sets.
        source: a description of how rows were drawn.
        notes: remarks on the draws.
    """

    statistics: Mapping[str, Statistics]
    rows: int
    incomplete: int
    draws: int
    source: str
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> Statistics:
        if name not in self.statistics:
            raise unknown(f"the check has no statistics `{name}`", name, self.statistics)
        return self.statistics[name]

    @property
    def head(self) -> str:
        """One sentence with the number of data sets and their source."""
        gaps = f", {self.incomplete:,} of them with the data's gaps" if self.incomplete else ""
        return f"{self.draws} data sets of {self.rows:,} rows{gaps}; {self.source}"

    def table(self, most: int | None = 10) -> pd.DataFrame:
        """Return the statistics with the largest |z|."""
        import pandas as pd

        found = pd.concat([s.table(most) for s in self.statistics.values()])
        found.index.name = "statistic"
        return found.iloc[np.argsort(-found["z"].abs().to_numpy(), kind="stable")[:most]]

    def __repr__(self) -> str:
        lines = [f"Predictive check: {self.head}", *map(repr, self.statistics.values()), *self.notes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<div>{in_paragraphs(self)}{self.table().to_html(float_format='{:.4g}'.format)}</div>"


def predictive(
    fit: FitRecord,
    sampler: str | None,
    *,
    draws: int,
    statistics: Sequence[str],
    functions: Mapping[str, OfConfiguration | str],
    summaries: Mapping[str, Callable[[Any], float]],
    x: Rows | None,
    weights: ArrayLike | None,
    missing: Missing | None,
    given: Given | None,
    level: float | None,
    seed: int,
    chains: int,
    warmup: int,
    thin: int | None,
    progress: bool | None,
) -> PredictiveCheck:
    """Return a predictive check of a fit; the arguments are those of `Fit.predictive`."""
    level = fit.level if level is None else verified_level(level)
    draws = whole_number("draws", draws, math.ceil(2 / (1 - level) - 1e-9) - 1)  # with fewer there is no band
    _verify(seed, statistics, functions, summaries)
    exact = is_one_of(sampler, ("exact",)) or (sampler is None and (bool(fit.graph.given) or is_listable(fit.graph)))
    if fit.graph.given and not exact:
        message = "with given variables each row has its own distribution, and a sampler would need a chain for each row"
        raise fail("E510", message, help="leave `sampler=` out: rows are drawn exactly; or hold out rows: `fit.cross_validate()`")
    if fit.status.code == "diverged":
        raise fail("E552", "the fit diverged: its estimates are not numbers to draw from", help="mend the fit first, see `print(fit)`")
    evidence = evidence_of(fit, x, weights, missing, given=given)
    kept = row_weights(evidence) > 0
    codes, w = evidence.codes[: fit.graph.n_random, kept].T, row_weights(evidence)[kept]
    _verify_cost(fit, len(codes), draws, statistics)
    with waiting("drawing rows", shows_progress(progress)):
        if fit.graph.given:
            source = given_source(fit, evidence, evidence.codes[fit.graph.row_cell, kept])
        else:
            source = exact_source(fit) if exact else chain_source(fit, sampler, len(codes), seed, chains, warmup, thin)
    chosen = _statistics(fit, codes, w, source, statistics, functions, summaries)
    observed = [s.statistic(codes, None) for s in chosen]
    table, rng = source.codes.T, generator(seed, 1)
    replicated = [np.empty((draws, len(s.labels)), np.float64) for s in chosen]
    for m in tracked(range(draws), "replicated data sets", shows_progress(progress)):
        index = source.draw(rng, len(codes))
        rows = table[index]
        for s, out in zip(chosen, replicated, strict=True):
            out[m] = s.statistic(rows, index)
    found = {s.name: Statistics(s.name, s.labels, o, r, level) for s, o, r in zip(chosen, observed, replicated, strict=True)}
    incomplete = int((codes[:, _observed(fit)] < 0).any(axis=1).sum())
    return PredictiveCheck(found, len(codes), incomplete, draws, source.words, source.notes)


def _verify(seed: int, statistics: Sequence[str], functions: Mapping[str, object], summaries: Mapping[str, object]) -> None:
    verified_seed(seed)
    several = isinstance(statistics, Sequence | Set | np.ndarray) and not isinstance(statistics, str | bytes)
    if not several or not all(is_one_of(s, BUILT_IN) for s in statistics):
        given = [s for s in statistics if not is_one_of(s, BUILT_IN)] if several else [statistics]
        help = '`statistics=("marginals",)`; your own go to `functions=` or `summaries=`'
        raise fail("E553", f"statistics must be a list of {listed(BUILT_IN)}, got {listed([str(g) for g in given])}", help=help)
    for what, given in (("functions", functions), ("summaries", summaries)):
        if not isinstance(given, Mapping):
            raise fail("E553", f"{what} must be a dict of functions by name, got {type(given).__name__}", help=f'`{what}={{"total": ..}}`')
    for name, f in summaries.items():
        if not callable(f):
            raise fail("E553", f"summary `{name}` must be a function of a data set, got {type(f).__name__}")
    names = [*statistics, *functions, *summaries]
    if not names or len(set(names)) < len(names):
        raise fail("E553", f"statistics need a name each, and one at least, got {listed(names)}", help="rename some")


def _verify_cost(fit: FitRecord, rows: int, draws: int, statistics: Sequence[str]) -> None:
    """Raise E601 if data sets, or statistics of all pairs, take too much time or memory.

    Raises:
        GmlmError: E601.
    """
    cells = fit.graph.n_random
    verify_held(8 * int(draws) * int(fit.graph.sizes.sum()), f"the statistics of {draws:,} data sets", "fewer `draws=`")
    drawn = float(min(draws, 10**18)) * rows * cells
    if drawn > MOST_OPERATIONS:
        message = f"{draws:,} data sets of {rows:,} rows of {cells:,} cells are {drawn:.2g} cells, above the limit of {MOST_OPERATIONS:.2g}"
        raise fail("E601", message, help="fewer `draws=`, or some of the rows: `x=`")
    if "pairs" not in statistics:
        return
    operations = Pairs.cost(fit.graph, rows) * (draws + 1)
    memory = 8.0 * draws * fit.graph.n_random**2 / 2
    if operations > MOST_OPERATIONS or memory > BUDGET.bytes:
        message = (
            f"statistics of all pairs of {fit.graph.n_random:,} cells in {draws} data sets of {rows:,} rows take "
            f"{operations:.2g} operations and {memory / 2**30:.2g} GiB, "
            f"above the limit of {MOST_OPERATIONS:.2g} and {BUDGET.bytes / 2**30:.2g} GiB"
        )
        raise fail("E601", message, help='`statistics=("marginals",)`, fewer `draws=`, some of the rows: `x=`, or your own `functions=`')


def _statistics(
    fit: FitRecord,
    codes: Array,
    weights: Array,
    source: AbstractSource,
    statistics: Sequence[str],
    functions: Mapping[str, OfConfiguration | str],
    summaries: Mapping[str, Callable[[np.ndarray], ArrayLike]],
) -> list[AbstractStatistics]:
    seen = codes >= 0
    # Functions depend on observed variables only, and not on latents.
    complete = np.asarray(seen[:, _observed(fit)].all(axis=1))
    if (functions or summaries) and not complete.any():
        raise fail("E553", "functions of a configuration need rows without gaps, and there are none", help="use `statistics=` alone")
    made: dict[str, Callable[..., AbstractStatistics]] = {"marginals": Marginals, "pairs": Pairs}
    graph = replace(fit.graph, given=())  # the row cell has no statistics
    out = [made[name](graph, seen, weights) for name in statistics]
    on_source = function_values(fit, functions, source.codes)
    on_data = function_values(fit, functions, codes[complete].T)
    out += [Function(name, on_source[name], on_data[name], complete, weights) for name in functions]
    out += [Summary(name, f, fit.graph, complete) for name, f in summaries.items()]
    return [s for s in out if s.labels]


def _observed(fit: FitRecord) -> Array:
    """Return which random cells data contain."""
    return fit.graph.is_observed[: fit.graph.n_random]


def _tail(draws: int, level: float) -> int:
    """Return how many of the smallest values, and of the largest, count as outside."""
    return int((1 - level) / 2 * (draws + 1) + 1e-9)


def _standardised(values: Array, mean: Array, spread: Array) -> Array:
    apart = values - mean
    apart = np.where(np.abs(apart) <= 1e-12 * np.maximum(1.0, np.abs(mean)), 0.0, apart)
    moves = spread > 1e-12 * np.maximum(1.0, np.abs(mean))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(moves, apart / np.where(moves, spread, 1.0), np.where(apart == 0, 0.0, np.sign(apart) * np.inf))
