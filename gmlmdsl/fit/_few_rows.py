"""Standard errors by the rows: the covariances of a fit, and where its rows cannot tell them.

The sandwich H^-1 S H^-1 measures by S how far the rows' gradients differ. Of one row, or where all
rows pull alike, S is 0 in some direction, and the sandwich would say that the estimate is certain:
there the rows tell no standard error, and it is infinite. With fewer rows than parameters S lacks
rank, and what it says is too small.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import numpy as np

from .._diagnostics import counted, fail
from .._progress import shows_progress, waiting
from ..evaluate import Objective, entry_names
from ..masks import AbstractMask
from ._inference import Covariances, Curvature, determined
from ._kinks import at_kinks
from ._options import Evidence, row_weights
from ._shrinkage import with_shrinkage
from ._status import Finding, Status

Array = np.ndarray
NO_SPREAD, TOO_FEW = "no-spread", "few-rows"  # slugs
FEWEST = 2 - 1e-9  # effective rows: of fewer there is no telling how far rows differ
# of the curvature that the rows give: below, their gradients are the same, but for rounding
ALIKE = 1e-10
ROUNDING = 1e-14  # of the whole curvature
MOST_NAMED = 6
MORE_ROWS = "Bring more rows, or take the estimate there for the prior's"
SIMULATE = "`fit.simulated_errors()` takes the model as right and measures how estimates spread over data sets that it makes"
IMPUTED = "Bring more rows; or fit with `impute=False` or without `method=`, whose errors `fit.simulated_errors()` can simulate"


@dataclass(frozen=True)
class Inferred:
    """The status of a fit with what its rows say of standard errors, and its covariances.

    `covariances` are those of what is determined, by kind; none where the curvature was not
    computed.
    """

    status: Status
    covariances: Mapping[str, Array]


class Later:
    """What `find` infers, when it is first asked for: a fit whose estimates are all that is wanted does not wait for its curvature.

    It holds what `find` needs, the rows on the device among it, until then. `progress`: whether it
    shows a bar, as the fit did.
    """

    def __init__(self, find: Callable[[], Inferred], progress: bool | None = None):
        self._progress = progress
        self._find: Callable[[], Inferred] | None = find
        self._known: Inferred | None = None

    @property
    def _found(self) -> Inferred:
        find = self._find
        if find is not None:  # two threads that ask at once both find it
            with waiting("standard errors", shows_progress(self._progress)):
                self._known = find()
            if isinstance(self._known.covariances, Covariances):
                self._known.covariances.progress = self._progress
            self._find = None
        assert self._known is not None
        return self._known

    @property
    def status(self) -> Status:
        """See `Inferred`."""
        return self._found.status

    @property
    def covariances(self) -> Mapping[str, Array]:
        """See `Inferred`."""
        return self._found.covariances


def infer(objective: Objective, params: dict[str, jax.Array], status: Status, curve: Curvature | None, rows: float) -> Inferred:
    """Covariances at an estimate, and what must be said of them.

    Args:
        objective: what was minimised.
        params: the estimate.
        status: what is known already.
        curve: the curvature there; None where it was not computed.
        rows: the effective number of rows, see `effective_rows`.
    """
    if curve is None:
        return Inferred(status, {})
    held = at_kinks(objective.frame.host, objective.frame.fixed, params)
    rest = determined(curve, status.open_directions.T, held)
    unknown = without_error(rest, rows) & (status.separated == 0) & ~status.undetermined
    known_findings = [_without_errors(f) if rows < FEWEST else f for f in status.findings]
    remedy = SIMULATE if curve.coupling is None else IMPUTED
    findings = _findings(unknown, curve.basis.shape[1], rows, entry_names(objective.frame.host), remedy)
    status = dataclasses.replace(status, findings=(*known_findings, *findings), unknown=unknown)
    errors = np.where(unknown, 0.0, np.sqrt(np.maximum(_diagonal(rest.spread, rest.influence), 0.0)))
    return Inferred(with_shrinkage(status, rest, errors, objective.frame), Covariances(rest, unknown))


def without_error(rest: Curvature, rows: float) -> Array:
    """The entries whose estimate could move, and whose sandwich says it does not; `rest` is what is determined.

    e_p' H^-1 S H^-1 e_p = d'S d with d = H^-1 e_p: how far row r moves entry p is d'u_r, and where
    all rows move it alike the gradients have rank 0 around their mean in that direction. Where
    there are fewer than two effective rows, that is everywhere.
    """
    d = rest.influence
    prior = _diagonal(_times(d, rest.prior), d)
    # d H d' by d H = the basis, where H is definite and no imputed cell adds to it.
    whole = _diagonal(rest.basis if rest.factor is not None and rest.coupling is None else d @ rest.hessian, d)
    spread = _diagonal(rest.spread, d)
    moves = np.abs(d).max(axis=1, initial=0.0) > 1e-12 * np.abs(d).max(initial=0.0)
    return moves & ((rows < FEWEST) | (spread <= ALIKE * np.abs(whole - prior) + ROUNDING * np.abs(whole)))


def _times(left: Array, right: Array) -> Array:
    """The product, which costs nothing where the right one is diagonal, as that of a prior is without a gauge."""
    diagonal = np.diag(right)
    return left * diagonal if np.count_nonzero(right) == np.count_nonzero(diagonal) else left @ right


def _diagonal(left: Array, right: Array) -> Array:
    """Of left right' its diagonal."""
    return np.einsum("pk,pk->p", left, right)


def _findings(unknown: Array, parameters: int, rows: float, names: list[str], remedy: str) -> list[Finding]:
    count = int(unknown.sum())
    if not rows:
        return [Finding(NO_SPREAD, "No row has an observed cell that the mask reaches: there is no standard error", "Bring rows that have")]
    if rows < FEWEST and count:
        message = f"There is {rows:.3g} effective row: it does not tell how far rows differ, and so no standard error"
        return [Finding(NO_SPREAD, message, f"{remedy[0].upper()}{remedy[1:]}")]
    found = []
    if count:
        shown = ", ".join(f"`{names[i]}`" for i in np.flatnonzero(unknown)[:MOST_NAMED])
        more = f" and {count - MOST_NAMED} more" if count > MOST_NAMED else ""
        message = f"All rows pull alike at {shown}{more}: they do not tell a standard error there"
        found.append(Finding(NO_SPREAD, message, remedy))
    if FEWEST <= rows < parameters:
        message = (
            f"There are {rows:.3g} effective rows for {counted(parameters, 'free parameter')}: the sandwich's standard errors are too small"
        )
        found.append(Finding(TOO_FEW, message, remedy))
    return found


def effective_rows(mask: AbstractMask, codes: Array, weights: Array, counts: bool) -> float:
    """Kish's number of rows: (sum w)^2 / sum w^2 of importances, sum w of counts; a row that scores 0 whatever it holds is none.

    Args:
        mask: of the loss.
        codes: (cells, rows), -1 where a cell is missing: a row scores where some cell is observed
            that the mask reaches.
        weights: of the rows.
        counts: whether they are counts.
    """
    w = weights[(codes[mask.reach] >= 0).any(axis=0)]
    return float(w.sum() if counts or not w.any() else w.sum() ** 2 / (w**2).sum())


def _without_errors(finding: Finding) -> Finding:
    """The finding where no standard error is told: none is too small."""
    return dataclasses.replace(finding, remedy=MORE_ROWS) if finding.slug == "prior-decides" else finding


def verify_scored(rows: float, what: str) -> None:
    """Refuse what simulates rows where none scores.

    Raises:
        GmlmError: E548.
    """
    if not rows:
        raise fail("E548", f"{what} simulates what rows observe, and no row has an observed cell that the mask reaches")


def verify_spread(rows: float, what: str) -> None:
    """Refuse what rests on how far rows differ where there is one.

    Raises:
        GmlmError: E548.
    """
    if rows < FEWEST:
        message = f"{what} rests on how far rows differ, and there is {rows:.3g} effective row"
        raise fail("E548", message, help="`fit.simulated_errors()` takes the model as right and simulates data sets like this one")


def scored_rows(evidence: Evidence) -> float:
    """The effective number of rows, of those that score."""
    return effective_rows(evidence.mask, evidence.codes, row_weights(evidence), evidence.options.weights_are == "counts")
