"""The bootstrap of a fit: refits to rows drawn with replacement.

The draws are expressed as row weights, so that one compiled program serves all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._diagnostics import counted, duration, fail, in_paragraphs, whole_number
from .._progress import shows_progress, tracked
from ..data import generator, verified_seed, verified_weights
from ..derive import spread_of
from ..evaluate import LEVEL, entry_names, init_params, unflatten, verified_quantile
from ..fit import Evidence, Refit, Reweighted, verify_spread, without_interval
from ..graph import FactorGraph
from ..plan import verify_held

if TYPE_CHECKING:
    import pandas as pd

    from ..fit import FitRecord

Array = np.ndarray
NO_ESTIMATE = "diverged", "not-converged"  # codes of a status


@dataclass(frozen=True, repr=False)
class Bootstrap:
    """Estimates of refits to resampled rows.

    Attributes:
        estimates: shape (replications, entries of the flat parameter vector). An entry is plus or
            minus infinity if a replication's data separate, and nan if the entry is not determined
            or the refit did not converge.
        estimate: the estimate of the fit, in the same order.
        failed: the number of replications that did not converge.
        seconds: the run time.
        graph: the factor graph of the model.
        held: the entries that the fit has at the centre of a laplace prior. They have no error and
            no interval here either, because the bootstrap is inconsistent at a non-smooth point
            (Andrews 2000).
        level: the probability of intervals for which no other is given, that of the fit.
    """

    estimates: Array
    estimate: Array
    failed: int
    seconds: float
    graph: FactorGraph
    held: Array
    level: float = LEVEL

    @property
    def without_estimate(self) -> Array:
        """The number of replications without a finite estimate, for each entry.

        Variances exclude these replications.
        """
        return (~np.isfinite(self.estimates)).sum(axis=0)

    @property
    def covariance(self) -> Array:
        """The covariance of the estimates, shape (entries, entries).

        It uses the replications in which all entries have an estimate, and is nan if there are
        fewer than two.
        """
        whole = self.estimates[np.isfinite(self.estimates).all(axis=1)]
        n = self.estimates.shape[1]
        return np.full((n, n), np.nan) if len(whole) < 2 else np.cov(whole, rowvar=False).reshape(n, n)

    @property
    def standard_errors(self) -> dict[str, Array]:
        """The standard errors by parameter.

        Each is the standard deviation over the replications in which the entry has an estimate, and
        is nan if there are fewer than two.
        """
        return unflatten(self.graph, self._errors())

    def interval(self, probability: float | None = None) -> dict[str, tuple[Array, Array]]:
        """Return percentile intervals by parameter.

        An end is infinite if too many replications separate.

        Reference: Efron and Tibshirani 1993, Section 13.3.
        """
        low, high = self._percentiles(self.level if probability is None else probability)
        ends = unflatten(self.graph, low), unflatten(self.graph, high)
        return {name: (ends[0][name], ends[1][name]) for name in ends[0]}

    def summary(self, probability: float | None = None) -> pd.DataFrame:
        """Return a table with one row per entry.

        The columns are the estimate, the standard error, the percentile interval, and the number of
        replications without a finite estimate. If the fit has entries at the centre of a laplace
        prior, `away` is the share of replications in which such an entry left it.
        """
        import pandas as pd

        probability = self.level if probability is None else probability
        low, high = self._percentiles(probability)
        tail = 100 * (1 - probability) / 2
        table = {"estimate": self.estimate, "std_error": self._errors(), f"{tail:.3g}%": low, f"{100 - tail:.3g}%": high}
        table["no_estimate"] = self.without_estimate
        if self.held.any():
            table["away"] = np.where(self.held, (self.estimates != self.estimate).mean(axis=0), np.nan)
        return pd.DataFrame(table, index=pd.Index(entry_names(self.graph), name="parameter"))

    def __repr__(self) -> str:
        count, worst = len(self.estimates), int(self.without_estimate.max(initial=0))
        lines = [f"Bootstrap of {counted(count, 'replication')}, {duration(self.seconds)}"]
        if self.failed:
            lines.append(f"{self.failed} of {count} refits did not converge; they are left out.")
        if worst > self.failed:
            name = entry_names(self.graph)[int(self.without_estimate.argmax())]
            lines.append(f"`{name}` has no finite estimate in {worst} of {count}: its standard error is that of the others, and too small.")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        table = self.summary().to_html(float_format="{:.4g}".format, max_rows=200)
        return f"<div>{in_paragraphs(self)}{table}</div>"

    def _errors(self) -> Array:
        finite = np.where(np.isfinite(self.estimates), self.estimates, np.nan)
        enough = np.isfinite(finite).sum(axis=0) >= 2
        out = np.full(finite.shape[1], np.nan)
        out[enough] = np.nanstd(finite[:, enough], axis=0, ddof=1)
        return np.where(self.held, np.nan, out)

    def _percentiles(self, probability: float) -> tuple[Array, Array]:
        verified_quantile(probability)
        known = ~np.isnan(self.estimates) & ~self.held
        tails = [(1 - probability) / 2, (1 + probability) / 2]
        ends = [
            np.quantile(c[k], tails, method="inverted_cdf") if k.any() else [np.nan, np.nan]
            for c, k in zip(self.estimates.T, known.T, strict=True)
        ]
        low, high = np.array(ends).reshape(-1, 2).T
        return low, high


def bootstrap(
    made: FitRecord, replications: int, seed: int, max_seconds: float, progress: bool | None, mesh_axis: str | None = None
) -> Bootstrap:
    """Refit to resampled rows; see `Fit.bootstrap`.

    Args:
        made: the fit.
        replications: the number of refits.
        seed: the seed of the rows.
        max_seconds: the maximum expected run time in seconds.
        progress: whether a progress bar is shown.
        mesh_axis: the axis of the ambient mesh over which rows are spread, or None.
    """
    verified_seed(seed)
    replications = whole_number("replications", replications, 2)
    verify_spread(made.effective_rows, "the bootstrap")
    verify_held(16 * replications, f"{replications:,} replications", "fewer `replications=`")
    shares, importance = row_shares(made.evidence)
    times = (generator(seed, r).multinomial(round(shares.sum()), shares / shares.sum()) for r in range(replications))
    refits = made, (t * importance for t in times), replications, "bootstrap", max_seconds, progress
    found = refitted(*refits, mesh_axis)
    held = without_interval(made.graph, made.meta["fixed"], made.params)
    return Bootstrap(found.estimates, made.flat(made.params).astype(float), found.failed, found.seconds, made.graph, held, made.level)


@dataclass(frozen=True)
class Refits:
    """Refits of one model to reweighted rows.

    Attributes:
        estimates: shape (refits, entries of the flat parameter vector), see `Bootstrap`.
        failed: the number of refits that did not converge.
        seconds: the run time.
    """

    estimates: Array
    failed: int
    seconds: float


def refitted(
    made: FitRecord,
    weights: Iterable[Array],
    count: int,
    what: str,
    max_seconds: float,
    progress: bool | None,
    mesh_axis: str | None = None,
) -> Refits:
    """Refit to the same rows under other weights.

    Args:
        made: the fit.
        weights: the row weights of each refit.
        count: the number of refits.
        what: the title of the progress bar.
        max_seconds: the maximum expected run time in seconds.
        progress: whether a progress bar is shown.
        mesh_axis: the axis of the ambient mesh over which rows are spread, or None.

    Raises:
        GmlmError: E507 for `max_seconds`, E546 with the cost if it is above that.
    """
    if not isinstance(max_seconds, int | float) or not max_seconds > 0:
        raise fail("E507", f"max_seconds must be a number above 0, got {max_seconds!r}")
    started, found, failed = time.perf_counter(), [], 0
    spread = spread_of(mesh_axis)
    refit, drawn = Reweighted(made.evidence, refit_start(made), spread), iter(weights)
    for _ in tracked(range(count), f"{what}, {counted(count, 'refit')}", shows_progress(progress)):
        began = time.perf_counter()
        estimate = refit(next(drawn))
        found.append(_row(made, estimate))
        failed += estimate.code in NO_ESTIMATE
        if len(found) == 1:
            expected = (count - 1) * (time.perf_counter() - began)
            if expected > max_seconds:
                message = f"{counted(count, 'refit')} take about {expected:.3g} s, more than the limit of {max_seconds:g} s"
                raise fail("E546", message, help="ask for fewer `replications=`, or raise `max_seconds=`")
    return Refits(np.array(found), failed, time.perf_counter() - started)


def refit_start(made: FitRecord) -> dict[str, Array]:
    """Return the starts of the refits.

    An entry starts at the estimate if that is finite and the parameter is real; otherwise it starts
    at the start of the fit.
    """
    usual = init_params(made.graph) | {k: np.asarray(v) for k, v in (made.evidence.options.init or {}).items()}
    # With latents, another start may lead to the same minimum with permuted values of the latents.
    away = lambda p: p.kind != "real" and not made.graph.latents  # noqa: E731
    open_ = unflatten(made.graph, (made.status.separated != 0) | made.status.undetermined)
    return {p.name: np.where(open_[p.name] | away(p), usual[p.name], made.params[p.name]) for p in made.graph.parameters}


def row_shares(evidence: Evidence) -> tuple[Array, Array]:
    """Return how often each row counts, and the weight of a row that counts once.

    Both have the shape (rows,).
    """
    rows, options = evidence.codes.shape[1], evidence.options
    given = np.ones(rows) if options.weights is None else verified_weights(options.weights, rows)
    if options.weights_are == "counts":
        return given, np.ones(rows)
    return (given > 0).astype(float), given


def _row(made: FitRecord, estimate: Refit) -> Array:
    if estimate.code in NO_ESTIMATE:
        return np.full(len(estimate.separated), np.nan)
    flat = made.flat(estimate.params).astype(float)
    flat = np.where(estimate.separated > 0, np.inf, np.where(estimate.separated < 0, -np.inf, flat))
    return np.where(estimate.undetermined, np.nan, flat)
