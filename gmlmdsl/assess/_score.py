"""Held-out losses of new rows, and of a fit's own rows by cross-validation.

The composite-likelihood information criterion estimates the loss on new rows without refitting.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import jax
import numpy as np

from .._diagnostics import counted, fail, in_paragraphs, is_one_of, whole_number
from .._progress import shows_progress, tracked
from .._types import ArrayLike, Given, Index, Missing, Rows
from ..data import generator, verified_seed
from ..derive import on_device
from ..fit import SINGULAR, PersistentContrastiveDivergence, at_kinks, curvature, row_weights, scored_rows, verify_spread
from ..fit import fit_model as refit
from ..fit import objective_colouring as colours_of
from ..read import verify_unmasked, with_rows_of
from ._scored_rows import Measure, ScoredRows, evidence_of, measure_of, params64, rows_under, verify_own
from .limits import MOST_FITS, MOST_SCORES

if TYPE_CHECKING:
    from ..fit import FitRecord

Array = np.ndarray
NO_MINIMUM = ("no-minimiser", "not-converged", "diverged")


@dataclass(frozen=True, repr=False)
class Score:
    """Losses of rows that were not part of a fit, in nats.

    Attributes:
        losses: c * loss of each row, c = (cells the mask can reach) / E|K|, shape (rows,). This is
            -log p(x) under `everything`, and minus the log pseudolikelihood under masks of one
            cell.
        weights: the weights of the rows.
        groups: the group of each row, counted from 0. None: each row is its own group.
        measure: the quantity that the losses measure; only losses of the same quantity can be
            compared.
    """

    losses: Array
    weights: Array
    groups: Array | None
    measure: Measure = field(repr=False)

    @property
    def mean(self) -> float:
        """The weighted mean loss of a row."""
        return weighted_mean(self.losses, self.weights)

    @property
    def std_error(self) -> float:
        """The standard error of `mean` over rows, or over groups; nan if there is only one."""
        return standard_error(self.losses, self.weights, self.groups)

    _repr_html_ = in_paragraphs

    def __repr__(self) -> str:
        over = f"{self.groups.max() + 1} groups of rows" if self.groups is not None else f"{(self.weights > 0).sum()} rows"
        return f"Score under mask {self.measure.words}: {self.mean:.5g} nats per row, standard error {self.std_error:.2g}, over {over}"


@dataclass(frozen=True, repr=False)
class CrossValidation:
    """Held-out losses of every row, each from a fit to the other folds.

    Attributes:
        held_out: the losses; see `Score`.
        training: the mean loss of a row under the fit to all rows. Its distance below
            `held_out.mean` is optimism.
        folds: the fold that held each row out, -1 for rows of weight 0; shape (rows,).
        statuses: the status code of each fold's fit.
    """

    held_out: Score
    training: float
    folds: Array
    statuses: tuple[str, ...]

    @property
    def losses(self) -> Array:
        """The held-out loss of each row."""
        return self.held_out.losses

    @property
    def mean(self) -> float:
        """The weighted mean held-out loss of a row."""
        return self.held_out.mean

    @property
    def std_error(self) -> float:
        """The standard error of `mean` over rows (or groups).

        It treats the fits of all folds as one fit and ignores their differences.
        """
        return self.held_out.std_error

    _repr_html_ = in_paragraphs

    def __repr__(self) -> str:
        bad = [s for s in self.statuses if s != "converged"]
        text = (
            f"Cross-validation in {len(self.statuses)} folds under mask {self.held_out.measure.words}: {self.mean:.5g} nats per row, "
            f"standard error {self.std_error:.2g}; {self.training:.5g} on the rows of the fit"
        )
        return text + (f"; {len(bad)} folds did not converge: {', '.join(dict.fromkeys(bad))}" if bad else "")


def weighted_mean(values: Array, weights: Array) -> float:
    """Return the weighted mean over rows of positive weight."""
    alive = weights > 0
    return float((weights[alive] * values[alive]).sum() / weights.sum())


def standard_error(values: Array, weights: Array, groups: Array | None = None) -> float:
    """Return the standard error of the weighted mean; weights are importances.

    It is sqrt(n / (n - 1) * sum over groups of (sum in the group of w (v - mean))^2) / sum w.
    """
    alive = weights > 0
    v, w = values[alive], weights[alive]
    with np.errstate(invalid="ignore"):
        apart = w * (v - (w * v).sum() / w.sum())
    if groups is not None:
        _, place = np.unique(groups[alive], return_inverse=True)
        apart = np.bincount(place, weights=apart)
    n = len(apart)
    return float(np.sqrt(n / (n - 1) * (apart**2).sum()) / w.sum()) if n > 1 else float("nan")


def score(
    fit: FitRecord,
    x: Rows,
    weights: ArrayLike | None,
    mask: str | None,
    missing: Missing | None,
    given: Given | None,
    groups: ArrayLike | None,
    n_masks: int | None,
) -> Score:
    """Return the losses of new rows under a fit; see `Fit.score`.

    Args:
        fit: the fit.
        x: the rows.
        weights: one weight per row, or None.
        mask: the mask of the scored loss, or None for that of the fit.
        missing: the value that marks a missing cell.
        given: the data of given variables of the rows.
        groups: one label per row, or None.
        n_masks: the number of masks per row, or None for that of the fit.
    """
    evidence = evidence_of(fit, x, weights, missing, mask, n_masks, given)
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        params = params64(fit, evidence)
        rows = rows_under(evidence, params)
        losses = rows.losses(params)
    return Score(losses, rows.weights, _labels(groups, len(losses), "groups", evidence.index), measure_of(evidence, rows.use))


def cross_validate(
    fit: FitRecord,
    folds: int,
    seed: int,
    *,
    mask: str | None,
    groups: ArrayLike | None,
    strata: ArrayLike | None,
    x: Rows | None,
    weights: ArrayLike | None,
    missing: Missing | None,
    given: Given | None,
    n_masks: int | str | None,
    progress: bool | None,
    mesh_axis: str | None = None,
) -> CrossValidation:
    """Return the losses of each row under a fit to the other folds.

    The arguments are those of `Fit.cross_validate`. Held-out rows have weight 0, so all folds have
    the same shapes, and only the first fit compiles.
    """
    own = evidence_of(fit, x, weights, missing, given=given)
    scored = own if mask is None or is_one_of(mask, (fit.mask,)) else evidence_of(fit, x, weights, missing, mask, n_masks, given)
    w = row_weights(own)
    together, kinds = (_labels(a, len(w), what, own.index) for a, what in ((groups, "groups"), (strata, "strata")))
    place = assign_folds(w, folds, seed, together, kinds)
    losses, statuses = np.zeros(len(w)), []
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        params = params64(fit, scored)
        rows = rows_under(scored, params)
        training = weighted_mean(rows.losses(params), w)
        for k in tracked(range(folds), counted(folds, "fold"), shows_progress(progress)):
            out = place == k
            others = np.where(out, 0.0, w)
            options = replace(own.options, weights=others, progress=False, mesh_axis=mesh_axis)
            found = refit(own.lowered, own.mask, own.codes, options)
            held = {name: on_device(v) for name, v in found.params.items()}
            losses[out] = rows.losses(held)[out]
            statuses.append(found.status.code)
    held_out = Score(losses, w, together, measure_of(scored, rows.use))
    return CrossValidation(held_out, training, place, tuple(statuses))


def assign_folds(weights: Array, folds: int, seed: int, groups: Array | None, strata: Array | None) -> Array:
    """Return a fold for each row of positive weight, and -1 for the other rows.

    Groups stay whole, and every stratum is distributed evenly.

    Args:
        weights: the weights of the rows.
        folds: the number of folds.
        seed: the seed of the folds.
        groups: the group of each row, or None.
        strata: the stratum of each row, or None.

    Raises:
        GmlmError: E507 for a number of folds that does not fit, or a group in two strata; E601 for
            too many fits.
    """
    verified_seed(seed)
    folds = whole_number("folds", folds, 2)
    alive = np.flatnonzero(weights > 0)
    units = alive if groups is None else groups[alive]
    names, first, unit = np.unique(units, return_index=True, return_inverse=True)
    if folds > len(names):
        what = "rows" if groups is None else "groups"
        raise fail("E507", f"folds must be at most the number of {what}, {len(names)}, got {folds}")
    if folds > MOST_FITS:
        message = f"{folds} folds are as many fits, more than the limit of {MOST_FITS}"
        raise fail("E601", message, help="use fewer folds; `information_criterion` comes near to leaving out one row at a time")
    order = generator(seed).permutation(len(names))
    if strata is not None:
        kind = strata[alive][first]
        if (strata[alive] != kind[unit]).any():
            raise fail("E507", "strata: the rows of a group are in different strata", help="give all rows of a group one stratum")
        order = order[np.argsort(kind[order], kind="stable")]
    fold_of = np.empty(len(names), np.int64)
    fold_of[order] = np.arange(len(names)) % folds
    out = np.full(len(weights), -1)
    out[alive] = fold_of[unit]
    return out


def _labels(values: ArrayLike | None, rows: int, what: str, index: Index | None) -> Array | None:
    """Return numbers from 0 for labels, one per row.

    A series is aligned with the labels of the rows.
    """
    if values is None:
        return None
    values = with_rows_of(index, values, what)
    verify_unmasked(values, what, "E507")
    try:
        array = np.asarray(values)
    except ValueError:
        raise fail("E501", f"{what} must be one label per row, got a list whose parts differ in length") from None
    if array.shape != (rows,):
        raise fail("E501", f"{what} must have shape ({rows},), one label per row, got {array.shape}")
    return np.unique(array, return_inverse=True)[1].reshape(-1)


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

    _repr_html_ = in_paragraphs

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
