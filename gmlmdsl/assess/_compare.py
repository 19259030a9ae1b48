"""Comparison of fits by information criteria or held-out losses.

Differences have standard errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail, in_paragraphs
from .._types import ArrayLike
from ..fit import FitRecord
from ._score import CrossValidation, InformationCriterion, Score, standard_error, sum_error
from ._scored_rows import Measure

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of `compare`.

    Attributes:
        table: one row per fit, the best first. `clic` and `effective` are those of
            `InformationCriterion`, and `loss` is the mean held-out loss of a row. Each
            `.._difference` is relative to the best fit, and its `.._error` is the standard error of
            that difference over rows.
        words: the name of the mask.
        notes: remarks on the table.
    """

    table: pd.DataFrame
    words: str
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        shown = self.table.to_string(float_format=lambda v: f"{v:.5g}")
        return "\n".join([f"Compared under mask {self.words}; smaller is better", shown, *self.notes])

    def _repr_html_(self) -> str:
        head = in_paragraphs(f"Compared under mask {self.words}; smaller is better")
        table = self.table.to_html(float_format=lambda v: f"{v:.5g}")
        return f"<div>{head}{table}" + in_paragraphs("\n".join(self.notes)) + "</div>"


def compare(
    fits: Mapping[str, FitRecord | InformationCriterion | CrossValidation | Score],
    *,
    folds: int | None = None,
    seed: int = 0,
    mask: str | None = None,
    groups: ArrayLike | None = None,
    strata: ArrayLike | None = None,
) -> Comparison:
    """Compare fits of different models to the same rows, under one mask.

    Args:
        fits: a dict by name of objects of one kind: fits, whose information criteria are compared,
            or results of `Fit.information_criterion`, `Fit.cross_validate` or `Fit.score`.
        folds: the number of folds of a cross-validation of the fits, which all use the same folds.
            If None, fits are not cross-validated.
        seed: the seed of the folds.
        mask: the mask of a cross-validation that replaces the information criteria. It makes fits
            under different masks comparable.
        groups: see `Fit.cross_validate`.
        strata: see `Fit.cross_validate`.

    Returns:
        A `Comparison` with differences from the best fit and their standard errors. A difference
        below two standard errors is not evidence of a difference.

    Raises:
        GmlmError: E551 if the losses are not of the same mask and the same rows; E507 for objects
            that cannot be compared.

    Reference: Varin and Vidoni 2005, "A note on composite likelihood inference and model
    selection"; Vehtari, Gelman and Gabry 2017, section 5.2, for the errors of differences.
    """
    if not isinstance(fits, Mapping) or len(fits) < 2:
        raise fail("E507", "compare needs a dict of two fits or more, by name", help='`gm.compare({"pairs": fit, "triples": other})`')
    if mask is not None and folds is None:
        raise fail("E507", "`mask=` needs `folds=`: a criterion belongs to the mask of its fit", help="`folds=10`, say")
    criteria, scores = _found(fits, folds, {"seed": seed, "mask": mask, "groups": groups, "strata": strata})
    measures = {k: v.measure for k, v in (scores or criteria).items()}
    _verify_comparable(measures)
    return Comparison(_table(criteria, scores), next(iter(measures.values())).words, _notes(criteria, scores))


def _found(fits: Mapping[str, Any], folds: int | None, options: dict[str, Any]) -> tuple[dict[str, InformationCriterion], dict[str, Score]]:
    """Return criteria and held-out scores: computed from fits, or as given."""
    kinds = {FitRecord if isinstance(v, FitRecord) else type(v) for v in fits.values()}
    if len(kinds) != 1 or not kinds <= {FitRecord, InformationCriterion, CrossValidation, Score}:
        named = ", ".join(sorted({type(v).__name__ for v in fits.values()}))
        raise fail("E507", f"compare takes fits, criteria, cross-validations or scores, all of one kind; got {named}")
    if kinds == {FitRecord}:
        criteria = {} if options["mask"] is not None else {k: f.information_criterion() for k, f in fits.items()}
        _verify_comparable({k: v.measure for k, v in criteria.items()})
        scores = {} if folds is None else {k: f.cross_validate(folds, **options).held_out for k, f in fits.items()}
        return criteria, scores
    if folds is not None:
        raise fail("E507", "`folds=` goes with fits: these are losses already")
    if kinds == {InformationCriterion}:
        return dict(fits), {}
    return {}, {k: v.held_out if isinstance(v, CrossValidation) else v for k, v in fits.items()}


def _verify_comparable(measures: Mapping[str, Measure]) -> None:
    """Raise E551 for losses of different masks or rows.

    Raises:
        GmlmError: E551.
    """
    items = list(measures.items())
    for name, m in items[1:]:
        first, reference = items[0]
        if not m.same_law(reference):
            message = f"`{first}` is scored under mask {reference.words}, `{name}` under another mask: {m.words}"
            help = "their losses are of different quantities: score both under one mask, `gm.compare(fits, folds=10, mask=..)`"
            raise fail("E551", message, help=help)
        if not m.same_rows(reference):
            raise fail(
                "E551", f"`{first}` and `{name}` are scored on different rows, or with different weights", help="score the same rows"
            )


def _table(criteria: dict[str, InformationCriterion], scores: dict[str, Score]) -> pd.DataFrame:
    import pandas as pd

    by_clic, by_loss = {k: v.value for k, v in criteria.items()}, {k: v.mean for k, v in scores.items()}
    order = sorted(by_loss or by_clic, key=(by_loss or by_clic).__getitem__)
    rows = []
    for name in order:
        row: dict[str, float] = {}
        if criteria:
            c, best = criteria[name], criteria[min(by_clic, key=by_clic.__getitem__)]
            alive = c.weights > 0
            row |= {"clic": c.value, "effective": c.effective_parameters, "clic_difference": c.value - best.value}
            row["clic_error"] = sum_error((c.contributions - best.contributions)[alive])
        if scores:
            s, best = scores[name], scores[min(by_loss, key=by_loss.__getitem__)]
            with np.errstate(invalid="ignore"):
                apart = s.losses - best.losses
            row |= {"loss": s.mean, "loss_difference": s.mean - best.mean, "loss_error": standard_error(apart, s.weights, s.groups)}
        rows.append(row)
    return pd.DataFrame(rows, index=pd.Index(order, name="fit"))


def _notes(criteria: dict[str, InformationCriterion], scores: dict[str, Score]) -> tuple[str, ...]:
    notes = ["A difference below two of its standard errors says little; the errors are over rows, as if the fits were given"]
    if criteria:
        notes.append("CLIC trusts its correction where rows are many and the effective parameters few beside them")
    if any(not np.isfinite(s.losses).all() for s in scores.values()):
        notes.append("A loss is infinite: some held-out row has probability zero under a fit that has not seen it")
    return tuple(notes)
