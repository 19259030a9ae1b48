"""Simulated errors: the sandwich with S measured over data sets simulated from the fitted model.

H^-1 S H^-1 needs the covariance S of the gradient of c * sum over rows of w loss over data sets.
Rows are independent given the model, so S is the sum over rows of the covariance of a row's
gradient. Each of these is measured over simulated configurations of that row, with its given data,
its missing cells and its drawn masks. The method therefore needs no second row, and it assumes that
the model is right.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import jax
import numpy as np

from .._diagnostics import counted, fail, with_whole_numbers
from ..data import verified_seed
from ..evaluate import Repeats
from ..fit import (
    NO_SPREAD,
    SHRINKS,
    TOO_FEW,
    Covariances,
    Curvature,
    Evidence,
    Finding,
    Inferred,
    at_kinks,
    curvature,
    determined,
    scored_rows,
    verify_scored,
    with_shrinkage,
)
from ..fit import objective_colouring as colours_of
from ..plan import BUDGET, verify_held
from ._information import verify_minimum
from ._scored_rows import ScoredRows, params64, rows_under
from ._simulation import How, SimulatedRows, draw, effective_each, verify_evaluations, verify_memory
from .limits import FEWEST_EFFECTIVE, MOST_COLUMNS

if TYPE_CHECKING:
    from ..fit import FitRecord

Array = np.ndarray
F = TypeVar("F", bound="FitRecord")
FEW_DRAWS = "few-draws"  # slug


@dataclass(frozen=True)
class Kinds:
    """Kinds of rows whose simulations have the same distribution.

    Rows of a kind have the same row of given data, the same missing cells and the same masks.

    Attributes:
        rows: the first row of each kind.
        laws: the numbers of the rows of given data, ascending; each determines a distribution.
        law: the index in `laws` of each kind.
        missing: shape (cells, kinds), which cells are missing.
        weights: the factor of the covariance of a kind's gradient in the sum.
    """

    rows: Array
    laws: Array
    law: Array
    missing: Array
    weights: Array


def simulated_errors(fit: F, how: How) -> F:
    """Return the fit with simulated standard errors; see `Fit.simulated_errors`."""
    _verify(fit, how)
    how = with_whole_numbers(how, {"draws": 2, "warmup": 0, "thin": 1})
    verify_held(16 * how.draws, f"{how.draws:,} simulated rows", "fewer `draws=`")
    evidence = fit.evidence
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        params = params64(fit, evidence)
        rows = rows_under(evidence, params)
        kinds = _kinds(rows, evidence)
        host, frame = rows.objective.frame.host, rows.objective.frame
        _verify_cost(rows, kinds, how.draws)
        curve = curvature(rows.objective, params, colours_of(rows.objective), counts=evidence.options.weights_are == "counts")
        open_, held = fit.status.open_directions.T, at_kinks(host, frame.fixed, params)
        job = Job(evidence, params, rows, kinds, curve, influence_in(curve, open_, held))
        drawn = draw(fit, evidence.lowered, params, kinds.laws, how, job.moved)
        score, effective = job.score(drawn)
        rest = determined(dataclasses.replace(curve, score=score, one_mask=None), open_, held)
        made = _with(fit, Covariances(rest, np.zeros(len(held), bool)), drawn, effective, how)
        errors = np.sqrt(np.maximum(np.diag(made.determined["sandwich"]), 0.0))
        return dataclasses.replace(made, inference=Inferred(with_shrinkage(made.status, rest, errors, frame), made.determined))


@dataclass(frozen=True)
class Job:
    """The data from which gradients of simulated rows are computed.

    `rows` are the rows of the fit, and `curve` is the curvature at the estimate. `influence` maps a
    gradient to the move of each entry, see `influence_in`.
    """

    evidence: Evidence
    params: dict[str, jax.Array]
    rows: ScoredRows
    kinds: Kinds
    curve: Curvature
    influence: Array

    def score(self, drawn: SimulatedRows) -> tuple[Array, float]:
        """Return S in the directions of the curvature's basis, and the effective number of draws.

        The variance of an entry is a sum over kinds of means over draws. The variance of a kind's
        mean is the variance of the averaged values divided by the effective number of its draws.
        For each entry, the effective number is the variance of that sum for one draw of each kind,
        divided by its actual variance. The result is the minimum over entries.
        """
        draws, kinds = drawn.codes.shape[2], self.kinds
        at_once = int(np.clip(MOST_COLUMNS // draws, 1, len(kinds.rows)))
        total, noise = np.zeros((self.curve.basis.shape[1],) * 2), np.zeros((2, self.influence.shape[1]))
        for first in range(0, len(kinds.rows), at_once):
            some = np.arange(first, min(first + at_once, len(kinds.rows)))
            u = self.gradients(np.resize(some, at_once), drawn.codes[:, kinds.law[np.resize(some, at_once)]])[: len(some)]
            apart = u - u.mean(axis=1, keepdims=True)
            total += np.einsum("k,kdi,kdj->ij", kinds.weights[some] / (draws - 1), apart, apart, optimize=True)
            for k, each in zip(some, u, strict=True) if drawn.chains else ():
                noise += kinds.weights[k] ** 2 * _noise(self._squares(each), drawn.chains)
        with np.errstate(invalid="ignore", divide="ignore"):
            effective = noise[0] / noise[1]
        return total, float(np.nanmin(np.append(effective, draws)))

    def moved(self, codes: Array) -> Array:
        """Return the functions by which the autocorrelation of draws is judged.

        The draws are those of the first distribution, and the shape is (draws, entries).
        """
        first = np.flatnonzero(self.kinds.law == 0)[:1]
        return self._squares(self.gradients(first, codes[:, None])[0])

    def gradients(self, some: Array, codes: Array) -> Array:
        """Return c * grad loss of simulated rows of some kinds, shape (kinds, draws, directions).

        `codes` has the shape (cells, kinds, draws).
        """
        cells, count, draws = codes.shape
        whole = np.where(self.kinds.missing[:, some, None], -1, codes.astype(self.evidence.codes.dtype)).reshape(cells, -1)
        # Draws are stored in bytes, but numbers of rows may be larger.
        if self.evidence.lowered.graph.row_cell is not None:
            whole[self.evidence.lowered.graph.row_cell] = np.repeat(self.kinds.laws[self.kinds.law[some]], draws)
        repeats = Repeats(self.evidence.codes.shape[1], np.repeat(self.kinds.rows[some], draws))
        options = dataclasses.replace(self.evidence.options, weights=None, weights_are="importances", repeats=repeats)
        made = rows_under(dataclasses.replace(self.evidence, codes=whole, options=options), self.params)
        # The factor c is that of the given data.
        factor = float(self.rows.objective.factor) / float(made.objective.factor)
        return factor * made.scores(self.params, self.curve.basis).reshape(count, draws, -1)

    def _squares(self, u: Array) -> Array:
        """Return the squared move of each entry from the mean by each draw.

        The mean over draws is the variance of the entry.
        """
        return ((u - u.mean(axis=0)) @ self.influence) ** 2


def _noise(values: Array, chains: int) -> Array:
    """Return the variance of each function, and the variance of its mean; 0 if it does not vary.

    `values` has the shape (draws, functions).
    """
    effective, spread = effective_each(values, chains), values.var(axis=0)
    return np.nan_to_num(np.stack([spread, spread / effective])) * ~np.isnan(effective)


def _kinds(rows: ScoredRows, evidence: Evidence) -> Kinds:
    alive, graph = np.flatnonzero(rows.weights > 0), evidence.lowered.graph
    missing = evidence.codes < 0
    law = np.zeros(len(rows.weights), np.int64) if graph.row_cell is None else evidence.codes[graph.row_cell]
    counts = rows.weights if evidence.options.weights_are == "counts" else rows.weights**2
    if rows.use.n_masks is not None:  # each row has its own masks
        first, kind = alive, np.arange(len(alive))
    else:
        alike = np.concatenate([missing[:, alive], law[None, alive]])
        _, at, kind = np.unique(alike, axis=1, return_index=True, return_inverse=True)
        first, kind = alive[at], kind.reshape(-1)
    laws, of = np.unique(law[first], return_inverse=True)
    return Kinds(first, laws, of.reshape(-1), missing[:, first], np.bincount(kind, counts[alive], len(first)))


def _verify(fit: FitRecord, how: How) -> None:
    """Raise unless the options are valid and the fit is a minimum.

    Raises:
        GmlmError: E507 for options. E552 for a fit that is not a minimum. E505 for a fit without
            its data. E548 if no row scores. E543 or E601 if no curvature can be computed.
    """
    verified_seed(how.seed)
    verify_minimum(fit, "the simulation of standard errors")
    verify_scored(scored_rows(fit.evidence), "the covariance of the gradient")
    fit.covariance  # noqa: B018 - raises if the curvature would be too large


def _verify_cost(rows: ScoredRows, kinds: Kinds, draws: int) -> None:
    """Raise E601 if the simulation takes too much memory, or an hour or more.

    Raises:
        GmlmError: E601 with the figure.
    """
    objective, columns = rows.objective, max(draws, MOST_COLUMNS)
    verify_memory(objective.frame.host, 4.0 * columns + float(len(kinds.laws)) * draws)
    size = sum(p.size for p in objective.frame.host.parameters)
    if 8.0 * columns * size > BUDGET.bytes:
        message = f"the gradients of {draws:,} simulated rows by {size:,} parameters take {8.0 * columns * size / 2**30:.3g} GiB"
        raise fail("E601", f"{message}, more than the limit of {BUDGET.bytes / 2**30:.3g} GiB", help="ask for fewer `draws=`")
    masks, members = (0, 0) if objective.masks is None else objective.masks.shape[:2]
    each = max(objective.loss.row_terms(masks, members), 0.0 if objective.gaps is None else objective.gaps.row_cost)
    verify_evaluations(
        each * len(kinds.rows) * draws, f"the gradients of {draws:,} simulated data sets of {counted(len(kinds.rows), 'kind')} of rows"
    )


def influence_in(curve: Curvature, open_: Array, held: Array) -> Array:
    """Return H^-1 in the determined directions, shape (directions, entries).

    It maps a gradient in the directions of the curvature to the move of each entry.
    """
    rest = determined(curve, open_, held)
    return curve.basis.T @ rest.basis @ rest.influence.T


def _with(fit: F, found: Covariances, drawn: SimulatedRows, effective: float, how: How) -> F:
    """Return the fit with other errors and a description of them."""
    draws = drawn.codes.shape[2]
    off = 100 / np.sqrt(2 * effective)
    worth = f", worth {effective:,.0f} independent ones" if drawn.chains else ""
    words = (
        f"simulated, H^-1 S H^-1 with S over {draws:,} data sets that the fitted model makes: they assume the model; {drawn.words}{worth}, "
        f"Monte Carlo error of a standard error about {off:.2g} %"
    )
    findings = [f for f in fit.status.findings if f.slug not in (NO_SPREAD, TOO_FEW, FEW_DRAWS, SHRINKS)]
    if effective < max(FEWEST_EFFECTIVE, len(found["sandwich"])):
        message = f"The simulated data sets are worth {effective:.3g} independent ones: standard errors are off by about {off:.2g} %"
        findings.append(Finding(FEW_DRAWS, message, "Raise `draws=` or `thin=`, or name a sampler that mixes faster"))
    status = dataclasses.replace(fit.status, findings=tuple(findings), unknown=None)
    simulated: dict[str, object] = {"words": words, "draws": draws, "effective": effective}
    simulated["how"] = {"seed": int(how.seed), "sampler": how.sampler, "warmup": how.warmup, "thin": how.thin}
    return dataclasses.replace(fit, inference=Inferred(status, found), meta=fit.meta | {"simulated": simulated})
