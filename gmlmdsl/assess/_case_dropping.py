"""Stability of a network if rows are left out: case-dropping subsets and the CS coefficient."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import counted, duration, fail, is_real_number, whole_number
from .._types import ArrayLike
from ..data import generator, verified_seed
from ..evaluate import unflatten
from ..fit import verify_spread
from ..plan import verify_held
from ._bootstrap import refitted, row_shares
from ._centrality import MEASURES, Network
from .limits import DROPPING_QUANTILES

if TYPE_CHECKING:
    import pandas as pd

    from ..fit import FitRecord

Array = np.ndarray
SHARES = tuple(np.linspace(0.05, 0.75, 10))  # the default of bootnet


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
            ends = np.array([np.quantile(k, DROPPING_QUANTILES) if len(k) else (np.nan, np.nan) for k in known])
            columns: dict[str, Any] = {"statistic": name, "dropped": self.shares, "rows": self.rows, "mean": mean}
            columns |= {f"{100 * t:.3g}%": e for t, e in zip(DROPPING_QUANTILES, ends.T, strict=True)}
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
