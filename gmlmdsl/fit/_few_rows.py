"""The covariances of a fit, the entries that its rows leave unknown, and shrinkage by priors.

In the sandwich H^-1 S H^-1, S measures how much the gradients of the rows differ. For one row, or
if all rows have the same gradient in some direction, S is 0 in that direction, and the sandwich
would make the estimate certain. The rows then do not determine a standard error there, and it is
infinite. With fewer rows than parameters S does not have full rank, and the standard errors are too
small.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import jax
import numpy as np

from .._diagnostics import counted, fail
from .._progress import shows_progress, waiting
from ..evaluate import Frame, Objective, entry_names, laplace_priors
from ..masks import AbstractMask
from ._inference import Covariances, Curvature, cholesky, determined, solve
from ._kinks import at_kinks
from ._options import Evidence, row_weights
from ._status import Finding, Status
from .limits import CURVATURE_ROUNDING, EQUAL_GRADIENTS, FEWEST_ROWS, LEAST_DATA_CURVATURE, MOST_NAMED, MOST_SHIFT

Array = np.ndarray
NO_SPREAD, TOO_FEW = "no-spread", "few-rows"  # slugs
MORE_ROWS = "Bring more rows, or take the estimate there for the prior's"
SIMULATE = "`fit.simulated_errors()` takes the model as right and measures how estimates spread over data sets that it makes"
IMPUTED = "Bring more rows; or fit with `impute=False` or without `method=`, whose errors `fit.simulated_errors()` can simulate"
SHRINKS = "shrunk"  # slug


@dataclass(frozen=True)
class Inferred:
    """The status of a fit, including the findings about its standard errors, and its covariances.

    `covariances` are those of the determined directions, by kind. The dict is empty if the
    curvature was not computed.
    """

    status: Status
    covariances: Mapping[str, Array]


class Later:
    """An `Inferred` that the function `find` computes at the first access.

    A fit whose estimates alone are used does not wait for its curvature. Until then the object
    holds everything that `find` needs, including the rows on the device. `progress` states whether
    a progress bar is shown, as during the fit.
    """

    def __init__(self, find: Callable[[], Inferred], progress: bool | None = None):
        self._progress = progress
        self._find: Callable[[], Inferred] | None = find
        self._known: Inferred | None = None

    @property
    def _found(self) -> Inferred:
        find = self._find
        if find is not None:  # two threads that access it at the same time both compute it
            with waiting("standard errors", shows_progress(self._progress)):
                self._known = find()
            if isinstance(self._known.covariances, Covariances):
                self._known.covariances.progress = self._progress
            self._find = None
        assert self._known is not None
        return self._known

    @property
    def status(self) -> Status:
        """The `status` of the `Inferred`."""
        return self._found.status

    @property
    def covariances(self) -> Mapping[str, Array]:
        """The `covariances` of the `Inferred`."""
        return self._found.covariances


def infer(objective: Objective, params: dict[str, jax.Array], status: Status, curve: Curvature | None, rows: float) -> Inferred:
    """Return the covariances at an estimate, and the status with the findings about them.

    Args:
        objective: the objective that was minimised.
        params: the estimate.
        status: the status so far.
        curve: the curvature at the estimate; None if it was not computed.
        rows: the effective number of rows, see `effective_rows`.
    """
    if curve is None:
        return Inferred(status, {})
    held = at_kinks(objective.frame.host, objective.frame.fixed, params)
    rest = determined(curve, status.open_directions.T, held)
    unknown = without_error(rest, rows) & (status.separated == 0) & ~status.undetermined
    known_findings = [_without_errors(f) if rows < FEWEST_ROWS else f for f in status.findings]
    remedy = SIMULATE if curve.coupling is None else IMPUTED
    findings = _findings(unknown, curve.basis.shape[1], rows, entry_names(objective.frame.host), remedy)
    status = dataclasses.replace(status, findings=(*known_findings, *findings), unknown=unknown)
    errors = np.where(unknown, 0.0, np.sqrt(np.maximum(_diagonal(rest.spread, rest.influence), 0.0)))
    return Inferred(with_shrinkage(status, rest, errors, objective.frame), Covariances(rest, unknown))


def without_error(rest: Curvature, rows: float) -> Array:
    """Return the entries whose estimate can move but whose sandwich variance is 0.

    `rest` is the curvature in the determined directions. The variance of entry p is e_p' H^-1 S
    H^-1 e_p = d'S d with d = H^-1 e_p. Row r moves entry p by d'u_r. If all rows move it equally,
    the gradients have rank 0 around their mean in that direction. With fewer than two effective
    rows, all entries that can move are returned.
    """
    d = rest.influence
    prior = _diagonal(_times(d, rest.prior), d)
    # d H equals the basis if H is definite and no imputed cell contributes to it; d H d' follows.
    whole = _diagonal(rest.basis if rest.factor is not None and rest.coupling is None else d @ rest.hessian, d)
    spread = _diagonal(rest.spread, d)
    moves = np.abs(d).max(axis=1, initial=0.0) > 1e-12 * np.abs(d).max(initial=0.0)
    return moves & ((rows < FEWEST_ROWS) | (spread <= EQUAL_GRADIENTS * np.abs(whole - prior) + CURVATURE_ROUNDING * np.abs(whole)))


def _times(left: Array, right: Array) -> Array:
    """Return the matrix product, at no cost if the right matrix is diagonal.

    The curvature of a prior without a gauge is diagonal.
    """
    diagonal = np.diag(right)
    return left * diagonal if np.count_nonzero(right) == np.count_nonzero(diagonal) else left @ right


def _diagonal(left: Array, right: Array) -> Array:
    """Return the diagonal of left right'."""
    return np.einsum("pk,pk->p", left, right)


def _findings(unknown: Array, parameters: int, rows: float, names: list[str], remedy: str) -> list[Finding]:
    count = int(unknown.sum())
    if not rows:
        return [Finding(NO_SPREAD, "No row has an observed cell that the mask reaches: there is no standard error", "Bring rows that have")]
    if rows < FEWEST_ROWS and count:
        message = f"There is {rows:.3g} effective row: it does not tell how far rows differ, and so no standard error"
        return [Finding(NO_SPREAD, message, f"{remedy[0].upper()}{remedy[1:]}")]
    found = []
    if count:
        shown = ", ".join(f"`{names[i]}`" for i in np.flatnonzero(unknown)[:MOST_NAMED])
        more = f" and {count - MOST_NAMED} more" if count > MOST_NAMED else ""
        message = f"All rows pull alike at {shown}{more}: they do not tell a standard error there"
        found.append(Finding(NO_SPREAD, message, remedy))
    if FEWEST_ROWS <= rows < parameters:
        message = (
            f"There are {rows:.3g} effective rows for {counted(parameters, 'free parameter')}: the sandwich's standard errors are too small"
        )
        found.append(Finding(TOO_FEW, message, remedy))
    return found


def effective_rows(mask: AbstractMask, codes: Array, weights: Array, counts: bool) -> float:
    """Return Kish's number of rows.

    This is (sum w)^2 / sum w^2 for importances and sum w for counts. A row that scores 0 whatever
    its values are does not count.

    Args:
        mask: the mask of the loss.
        codes: shape (cells, rows), -1 if a cell is missing. A row scores if some cell that the mask
            reaches is observed.
        weights: the weights of the rows.
        counts: whether the weights are counts.
    """
    w = weights[(codes[mask.reach] >= 0).any(axis=0)]
    return float(w.sum() if counts or not w.any() else w.sum() ** 2 / (w**2).sum())


def _without_errors(finding: Finding) -> Finding:
    """Return the finding without the remark that standard errors are too small.

    It is used if there are no standard errors.
    """
    return dataclasses.replace(finding, remedy=MORE_ROWS) if finding.slug == "prior-decides" else finding


def verify_scored(rows: float, what: str) -> None:
    """Raise E548 if no row has an observed cell that the mask reaches.

    `what` names the caller, which simulates the observed cells of rows.

    Raises:
        GmlmError: E548.
    """
    if not rows:
        raise fail("E548", f"{what} simulates what rows observe, and no row has an observed cell that the mask reaches")


def verify_spread(rows: float, what: str) -> None:
    """Raise E548 unless there are at least two effective rows.

    `what` names the caller, which depends on the differences between rows.

    Raises:
        GmlmError: E548.
    """
    if rows < FEWEST_ROWS:
        message = f"{what} rests on how far rows differ, and there is {rows:.3g} effective row"
        raise fail("E548", message, help="`fit.simulated_errors()` takes the model as right and simulates data sets like this one")


def scored_rows(evidence: Evidence) -> float:
    """Return the effective number of the rows that score."""
    return effective_rows(evidence.mask, evidence.codes, row_weights(evidence), evidence.options.weights_are == "counts")


def pulled(curve: Curvature) -> Array:
    """Return the shift of each entry of the flat vector by a Newton step on the data's part alone.

    Entries outside the directions of `curve` do not move.
    """
    if not curve.pull.any():
        return np.zeros(len(curve.basis))
    data, factor = curve.data, cholesky(curve.data)
    if factor is not None and curve.exceeds(LEAST_DATA_CURVATURE * curve.largest):
        return curve.basis @ solve(factor, curve.pull)
    values, vectors = np.linalg.eigh(data)
    values = np.maximum(values, LEAST_DATA_CURVATURE * max(values.max(initial=0.0), 1e-300))
    return curve.basis @ (vectors @ ((vectors.T @ curve.pull) / values))


def with_shrinkage(status: Status, rest: Curvature, errors: Array, frame: Frame) -> Status:
    """Return the status with the entries that priors shift by over `MOST_SHIFT` standard errors.

    If there are such entries, a finding reports them.

    Args:
        status: the status of the fit.
        rest: the curvature in the determined directions.
        errors: the standard errors by the sandwich, 0 if there is none.
        frame: the model, and the free parameters.
    """
    shift = np.abs(pulled(rest))
    shrunk = (shift > MOST_SHIFT * errors) & (errors > 0) & (status.separated == 0) & ~status.undetermined
    if not shrunk.any():
        return replace(status, shrunk=shrunk)
    names, penalised = entry_names(frame.host), laplace_priors(frame.host, frame.fixed)[1] > 0
    ratio = np.where(shrunk, shift / np.where(errors > 0, errors, 1.0), 0.0)
    worst = int(ratio.argmax())
    count = counted(int(shrunk.sum()), "estimate")
    message = (
        f"Priors shrink {count} by more than half a standard error, `{names[worst]}` by about {min(ratio[worst], 99):.2g}: "
        f"their intervals are about the shrunk value, not the true one"
    )
    refit = "`fit.refit_selected()` fits what the laplace prior left free without it"
    remedy = "More rows or a wider prior shrink less" + f"; {refit}" * bool(penalised[shrunk].any())
    remedy = refit if penalised[shrunk].all() else remedy
    return replace(status, findings=(*status.findings, Finding(SHRINKS, message, remedy)), shrunk=shrunk)
