"""The composite-likelihood information criterion: what a fit would lose on rows it has not seen, without refitting it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._diagnostics import fail
from ..fit import SINGULAR, PersistentContrastiveDivergence, at_kinks, curvature, scored_rows, verify_spread
from ..fit import objective_colouring as colours_of
from ._measure import Measure, measure_of
from ._scored_rows import ScoredRows, evidence_of, params64, rows_under, verify_own

if TYPE_CHECKING:
    from ..fit import FitRecord

Array = np.ndarray
MOST_SCORES = 1 << 27  # entries of rows by directions
NO_MINIMUM = ("no-minimiser", "not-converged", "diverged")


@dataclass(frozen=True, repr=False)
class InformationCriterion:
    """CLIC = 2 * (loss + effective parameters): smaller is better, and -2 log p + 2 k of a well specified maximum likelihood fit.

    Attributes:
        loss: c * sum over rows of w loss at the estimate, without the prior.
        effective_parameters: tr(S H^-1), S the covariance of the rows' scores summed over rows, H
            the Hessian of what was minimised, prior and all: a prior that holds a parameter fast
            makes it count less than 1.
        parameters: the free directions of the parameters.
        contributions: of each row to the value, shape (rows,): half of them sum to the
            leave-one-out loss, nearly.
        measure: what the losses measure; only like ones can be compared.
    """

    loss: float
    effective_parameters: float
    parameters: int
    contributions: Array = field(repr=False)
    weights: Array = field(repr=False)
    measure: Measure = field(repr=False)

    @property
    def value(self) -> float:
        """2 * (loss + effective parameters), in nats."""
        return 2 * (self.loss + self.effective_parameters)

    @property
    def std_error(self) -> float:
        """Of the value, over rows: sqrt(n / (n - 1) * sum of (contribution - mean)^2)."""
        return sum_error(self.contributions[self.weights > 0])

    def __repr__(self) -> str:
        return (
            f"CLIC {self.value:.6g} = 2 (loss {self.loss:.6g} + effective parameters {self.effective_parameters:.4g}) under mask "
            f"{self.measure.words}; {self.parameters} free parameters, {int((self.weights > 0).sum())} rows"
        )


def sum_error(values: Array) -> float:
    """The standard error of the sum of independent values; nan where there is one."""
    n = len(values)
    return float(np.sqrt(n / (n - 1) * ((values - values.mean()) ** 2).sum())) if n > 1 else float("nan")


def information_criterion(fit: FitRecord, x: Any, weights: Any, missing: Any, given: Any) -> InformationCriterion:
    """See `Fit.information_criterion`."""
    verify_minimum(fit, "an information criterion")
    evidence = evidence_of(fit, x, weights, missing, given=given)
    verify_spread(scored_rows(evidence), "an information criterion")
    fit.covariance  # noqa: B018 - refuses where curvature would be too large
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        params = params64(fit, evidence)
        rows = rows_under(evidence, params)
        verify_own(fit, rows, params)
        losses = rows.losses(params)
        shares, parameters = effective_shares(rows, params)
    alive = rows.weights > 0
    weighted = np.where(alive, rows.weights * np.where(alive, losses, 0.0), 0.0)
    measure = measure_of(evidence, rows.use)
    return InformationCriterion(float(weighted.sum()), float(shares.sum()), parameters, 2 * (weighted + shares), rows.weights, measure)


def effective_shares(rows: ScoredRows, params: dict[str, jax.Array]) -> tuple[Array, int]:
    """Each row's share of tr(S H^-1), u_r' H^-1 (u_r - mean u), and the number of free directions.

    H^-1 u_r is how far the estimate moves when row r is left out, to first order; so the share is
    what the row's loss then grows by. An entry at the kink of its prior does not move.
    """
    host, fixed = rows.objective.frame.host, rows.objective.frame.fixed
    held = at_kinks(host, fixed, params)
    curve = curvature(rows.objective, params, colours_of(rows.objective)).without(np.eye(len(held))[:, held])
    values, vectors = np.linalg.eigh(curve.hessian)
    determined = values > SINGULAR * max(values.max(initial=0.0), 1e-300)
    root = curve.basis @ (vectors[:, determined] / np.sqrt(values[determined]))  # root root' = H^-1
    if root.shape[1] * rows.codes.shape[1] > MOST_SCORES:
        figure = 8 * root.shape[1] * rows.codes.shape[1] / 2**30
        message = (
            f"the scores of {rows.codes.shape[1]:,} rows in {root.shape[1]:,} directions take {figure:.3g} GiB, more than the limit of 1"
        )
        raise fail("E601", message, help="compare by `cross_validate`, or hold parameters with `fixed=`")
    u = rows.scores(params, root)
    alive = rows.weights > 0
    return np.where(alive, (u * (u - u[alive].mean(axis=0))).sum(axis=1), 0.0), root.shape[1]


def verify_minimum(fit: FitRecord, what: str) -> None:
    """Refuse what is expanded around a minimum where there is none.

    Raises:
        GmlmError: E552.
    """
    if fit.meta.get("method") == PersistentContrastiveDivergence.name:
        message = f"{what} needs the objective that was minimised, and {fit.meta['method']} minimises none: its optimum is approximate"
        raise fail("E552", message, help="`fit.score(x)` gives held-out losses where they are affordable")
    if fit.missing is not None and fit.missing.imputed:
        message = f"{what} needs the objective that was minimised, and {fit.missing.imputed:,} rows of this fit were imputed at random"
        raise fail("E552", message, help="fit with `impute=False`, or compare by the held-out losses of complete rows: `fit.score(x)`")
    if fit.status.code in NO_MINIMUM:
        message = f"{what} expands the objective around its minimum, and this fit has none: {fit.status.code}"
        raise fail("E552", message, help="mend the fit first, see `print(fit)`; `cross_validate` needs no expansion")
