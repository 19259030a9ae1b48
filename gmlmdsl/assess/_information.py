"""The composite-likelihood information criterion.

It estimates the loss of a fit on new rows without refitting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import jax
import numpy as np

from .._diagnostics import fail
from .._types import ArrayLike, Given, Missing, Rows
from ..fit import SINGULAR, PersistentContrastiveDivergence, at_kinks, curvature, scored_rows, verify_spread
from ..fit import objective_colouring as colours_of
from ._scored_rows import Measure, ScoredRows, evidence_of, measure_of, params64, rows_under, verify_own
from .limits import MOST_SCORES

if TYPE_CHECKING:
    from ..fit import FitRecord

Array = np.ndarray
NO_MINIMUM = ("no-minimiser", "not-converged", "diverged")


@dataclass(frozen=True, repr=False)
class InformationCriterion:
    """The composite-likelihood information criterion CLIC; a smaller value is better.

    CLIC is 2 * (loss + effective parameters). For a well specified maximum likelihood fit it is -2
    log p + 2 k.

    Attributes:
        loss: c * sum over rows of w loss at the estimate, without the prior.
        effective_parameters: tr(S H^-1). S is the covariance of the rows' scores summed over rows.
            H is the Hessian of the minimised objective, prior included. A parameter with a strong
            prior therefore counts less than 1.
        parameters: the number of free directions of the parameters.
        contributions: the contribution of each row to the value, shape (rows,). Half of their sum
            is nearly the leave-one-out loss.
        weights: the weights of the rows.
        measure: the quantity that the losses measure; only losses of the same quantity can be
            compared.
    """

    loss: float
    effective_parameters: float
    parameters: int
    contributions: Array = field(repr=False)
    weights: Array = field(repr=False)
    measure: Measure = field(repr=False)

    @property
    def value(self) -> float:
        """The criterion 2 * (loss + effective parameters), in nats."""
        return 2 * (self.loss + self.effective_parameters)

    @property
    def std_error(self) -> float:
        """The standard error over rows of the value.

        It is sqrt(n / (n - 1) * sum of (contribution - mean)^2).
        """
        return sum_error(self.contributions[self.weights > 0])

    def __repr__(self) -> str:
        return (
            f"CLIC {self.value:.6g} = 2 (loss {self.loss:.6g} + effective parameters {self.effective_parameters:.4g}) under mask "
            f"{self.measure.words}; {self.parameters} free parameters, {int((self.weights > 0).sum())} rows"
        )


def sum_error(values: Array) -> float:
    """Return the standard error of the sum of independent values; nan if there is only one."""
    n = len(values)
    return float(np.sqrt(n / (n - 1) * ((values - values.mean()) ** 2).sum())) if n > 1 else float("nan")


def information_criterion(
    fit: FitRecord, x: Rows | None, weights: ArrayLike | None, missing: Missing | None, given: Given | None
) -> InformationCriterion:
    """Return the information criterion of a fit; see `Fit.information_criterion`.

    Args:
        fit: the fit.
        x: the rows of the fit, or None.
        weights: the weights of the rows, or None.
        missing: the value that marks a missing cell.
        given: the data of given variables of the rows.
    """
    verify_minimum(fit, "an information criterion")
    evidence = evidence_of(fit, x, weights, missing, given=given)
    verify_spread(scored_rows(evidence), "an information criterion")
    fit.covariance  # noqa: B018 - raises if the curvature would be too large
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
    """Return each row's share of tr(S H^-1), and the number of free directions.

    The share is u_r' H^-1 (u_r - mean u). To first order, H^-1 u_r is the change of the estimate if
    row r is left out, and the share is the increase of the row's loss. An entry at the centre of
    its laplace prior does not move.
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


def verify_minimum(fit: FitRecord, what: str, expands: bool = True) -> None:
    """Raise E552 if the fit is not a minimum around which its objective can be expanded.

    `what` names the caller. Without `expands` the objective is needed, and not its minimum.

    Raises:
        GmlmError: E552.
    """
    if fit.meta.get("method") == PersistentContrastiveDivergence.name:
        message = f"{what} needs the objective that was minimised, and {fit.meta['method']} minimises none: its optimum is approximate"
        raise fail("E552", message, help="`fit.score(x)` gives held-out losses where they are affordable")
    if fit.missing is not None and fit.missing.imputed:
        message = f"{what} needs the objective that was minimised, and {fit.missing.imputed:,} rows of this fit were imputed at random"
        raise fail("E552", message, help="fit with `impute=False`, or compare by the held-out losses of complete rows: `fit.score(x)`")
    if expands and fit.status.code in NO_MINIMUM:
        message = f"{what} expands the objective around its minimum, and this fit has none: {fit.status.code}"
        raise fail("E552", message, help="mend the fit first, see `print(fit)`; `cross_validate` needs no expansion")
