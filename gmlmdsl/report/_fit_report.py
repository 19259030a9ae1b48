"""The report of a fit: the result and its diagnostics, the estimates, and the program."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import GmlmError, counted
from ..graph import joint_count
from ._assessment_pictures import MEASURES
from ._check_pictures import check_section
from ._diagnostic_pictures import plot_loss
from ._document import Report
from ._network_report import DIFFERENCES, couplings_figure, differences_section, effects_section, path_section
from ._picture_arguments import made_by, verified_table, verified_text
from ._pictures import plot_couplings, plot_forest
from .limits import MOST_CHECKED_PAIRS, MOST_CHECKED_STATES, MOST_ESTIMATES, MOST_IN_FOREST, MOST_MISSING_CELLS

if TYPE_CHECKING:
    import pandas as pd

    from ..assess import Path, PredictiveCheck
    from ..evaluate import Effects
    from ..explain import Done
    from ..model import Fit


def fit_report(
    fit: Fit,
    *,
    check: PredictiveCheck | None = None,
    path: Path | None = None,
    centrality: pd.DataFrame | None = None,
    differences: pd.DataFrame | None = None,
    effects: Effects | None = None,
    title: str = "",
) -> Report:
    """Return the report of a fit as one HTML page.

    Args:
        fit: the result of `Model.fit` or `gm.load_fit`.
        check: the result of `Fit.predictive`. If None, a check is made if the fit has its rows and
            the check costs little, see `quick_check`.
        path: the result of `Model.fit_path`, which selects couplings.
        centrality: the result of `Fit.centrality`, for example with the intervals of a bootstrap.
            If None, that of the fit, if it has few cells.
        differences: the result of `Fit.differences` with another group.
        effects: the result of `Model.effects`, with the effects of substitutions on log p.
        title: the title of the page.

    Returns:
        A report; `.save(path)` writes it.

    Raises:
        GmlmError: E507 for arguments of other kinds.
    """
    made_by("fit", fit, "effective_rows", "model.fit(..)")
    _verify(check, path, centrality, differences, effects)
    meta, title = fit.meta, verified_text("title", title)
    report = Report(title or f"Fit of `{meta['model']}`", f"{counted(meta['rows'], 'row')}, mask {meta['mask_use']}.", footer=_footer(meta))
    _status(report, fit)
    if any(p.size for p in fit.graph.parameters):
        _estimates(report, fit, centrality)
    if path is not None:
        path_section(report, path)
    if differences is not None:
        differences_section(report, differences)
    if effects is not None:
        effects_section(report, effects)
    if fit.missing is not None and fit.missing.any:
        _missing(report, fit)
    check = quick_check(fit) if check is None else check
    if check is not None:
        check_section(report, check)
    if len(fit.loss_trace) > 1:
        report.section("Objective")
        report.figure(
            plot_loss(fit.loss_trace, label="objective per row"),
            alt=f"The objective over {len(fit.loss_trace)} steps, falling to its smallest value.",
        )
    _program(report, fit)
    return report


def _verify(check: Any, path: Any, centrality: Any, differences: Any, effects: Any) -> None:
    """Raise E507, before a picture is drawn, for arguments that are not results of a fit.

    Raises:
        GmlmError: E507.
    """
    made = ("check", check, "head", "fit.predictive(..)"), ("path", path, "chosen_couplings", "model.fit_path(..)")
    for what, value, attribute, call in (*made, ("effects", effects, "singles", "model.effects(..)")):
        if value is not None:
            made_by(what, value, attribute, call)
    if centrality is not None:
        verified_table(centrality, tuple(MEASURES), "fit.centrality()")
    if differences is not None:
        verified_table(differences, DIFFERENCES, "fit.differences(other)")


def quick_check(fit: Fit) -> PredictiveCheck | None:
    """Return a predictive check, or None if it costs too much.

    All configurations must be few enough to enumerate, and the check must take about a second.
    """
    try:
        rows = fit.evidence.codes.shape[1]
    except GmlmError:
        return None
    cells = fit.graph.n_random
    listable = joint_count(fit.graph.sizes) <= MOST_CHECKED_STATES
    if fit.graph.given or not listable or rows * cells**2 > MOST_CHECKED_PAIRS or fit.status.code == "diverged":
        return None
    return fit.predictive("exact", draws=max(200, ceil(2 / (1 - fit.level))))


def _footer(meta: dict[str, Any]) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in meta["versions"].items())
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, seed {meta['seed']}, {versions}, program {meta['sha256'][:12]}"


def _status(report: Report, fit: Fit) -> None:
    meta = fit.meta
    report.section("Result")
    report.facts(
        {
            "status": fit.status.code,
            "steps": len(fit.loss_trace),
            "seconds": float(meta["seconds"]),
            "rows": int(meta["rows"]),
            "cells": fit.graph.n_random,
            "parameters": sum(p.size for p in fit.graph.parameters),
            "objective": float(fit.objective),
            "convex": bool(meta["convex"]),
        }
    )
    if meta["convex"] and fit.status.converged:
        report.text("The objective is convex, so this is its global minimum: no start would lead elsewhere.")
    elif fit.status.converged:
        report.text("The objective is not known to be convex: this is a minimum, perhaps not the lowest. Try other starts.")
    if fit.simulated is not None:
        report.text(f"Standard errors: {fit.simulated['words']}.")
    for finding in fit.status.findings:
        report.warning(finding.slug.replace("-", " "), f"{finding.message}.", f"{finding.remedy}.")


def _missing(report: Report, fit: Fit) -> None:
    assert fit.missing is not None
    report.section("Missing cells" if fit.missing.rows else "Latent variables")
    report.text(f"{fit.missing.words[0].upper()}{fit.missing.words[1:]}.")
    if not fit.missing.rows:
        return
    counts = fit.missing.cells
    order = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    more = f"; the {MOST_MISSING_CELLS} with the most of {len(order)}" if len(order) > MOST_MISSING_CELLS else ""
    rows = [[fit.graph.cell_name(int(c)), int(counts[c]), counts[c] / int(fit.meta["rows"])] for c in order[:MOST_MISSING_CELLS]]
    report.table(["cell", "missing", "share of rows"], rows, f"How often each cell is missing{more}.")


def _estimates(report: Report, fit: Fit, centrality: pd.DataFrame | None) -> None:
    report.section("Estimates")
    known = fit.full_covariance is not None
    if not known:
        method = fit.meta.get("method")
        why = f"A fit by {method} has no standard errors." if method else "There are too many parameters for standard errors."
        report.text(f"{why} Their covariance was not computed.")
    at = 0
    separated = fit.status.separated != 0
    mapped = False
    for p in fit.graph.parameters:
        part = slice(at, at + p.size)
        if p.size > 1:
            mapped |= _picture(report, fit, p, separated[part])
        at += p.size
    if not mapped:
        couplings_figure(report, fit, fit.level, centrality)
    frame = fit.summary()
    _forest(report, frame, fit.level if known else None)
    shown = frame.head(MOST_ESTIMATES)
    rows = [[str(name), *row] for name, row in zip(shown.index, shown.itertuples(index=False), strict=True)]
    rows = [["none" if isinstance(v, float) and np.isnan(v) else v for v in row] for row in rows]
    more = f", the first {MOST_ESTIMATES} of {len(frame)}" if len(frame) > MOST_ESTIMATES else ""
    kind = "sandwich (Godambe)" if fit.simulated is None else "simulated"
    errors = f" with {kind} standard errors and {100 * fit.level:g} % intervals" if known else ""
    report.table(["parameter", *map(str, frame.columns)], rows, f"Estimates{errors}{more}.")


def _forest(report: Report, frame: Any, level: float | None) -> None:
    if level is None:
        return
    finite = frame[np.isfinite(frame["estimate"]) & frame["std_error"].notna()]
    strength = (finite["estimate"] / finite["std_error"].where(finite["std_error"] > 0)).abs().fillna(0.0)
    chosen = finite.loc[strength.sort_values(ascending=False, kind="stable").index[:MOST_IN_FOREST]]
    if len(finite) <= MOST_IN_FOREST:
        chosen = finite
    if chosen.empty:
        return
    which = "All estimates" if len(chosen) == len(frame) else f"The {len(chosen)} estimates that are farthest from 0 in standard errors"
    at, ends = chosen["estimate"].to_numpy(), chosen.iloc[:, 2:4].to_numpy(float)
    z, share = NormalDist().inv_cdf(0.5 + level / 2), f"{100 * level:g} %"
    figure = plot_forest(list(chosen.index), at, np.stack([at - ends[:, 0], ends[:, 1] - at]) / z, level=level)
    report.figure(figure, alt=f"{which}, each with its {share} interval.", caption=f"{which}, with {share} intervals.")


def _picture(report: Report, fit: Fit, p: Any, separated: np.ndarray) -> bool:
    """Add a map of a parameter on the edges of a grid, and return whether there is one."""
    program = fit.model.program
    edges = next((d for d in p.dims if d.endswith(".edges")), None)
    if edges is None or len(p.shape) != 1:
        return False
    name = edges.removesuffix(".edges")
    call, arrays = program.checked.graphs.get(name), program.bound.graphs.get(name)
    if call is None or arrays is None or arrays.rows is None or len(arrays.edges) > 5000:
        return False
    columns = arrays.rows.shape[1]
    wraps = np.abs(np.diff(np.stack([arrays.edges % columns, arrays.edges // columns]), axis=2)).max(axis=(0, 2)) > 1
    xy = np.stack([arrays.edges % columns, arrays.edges // columns], axis=2).astype(float)
    figure = plot_couplings(xy[~wraps], fit.params[p.name][~wraps], marked=separated[~wraps], label=p.name)
    note = f" {int(wraps.sum())} edges around the border are not drawn." if wraps.any() else ""
    report.figure(figure, alt=f"`{p.name}` on the grid: one line per edge.", caption=f"`{p.name}` on the grid `{name}`.{note}")
    return True


def _done(fit: Fit) -> Done:
    """Return a description of how the fit differs from the default because of its options."""
    from ..explain import Done

    masks = "" if fit.meta.get("n_masks") is None else f"The fit averaged over masks that were drawn: {fit.meta['mask_use']}."
    found = fit.missing
    if "gaps" in fit.meta:
        return Done(
            "What a row lacks is left out, with the factors that touch it: a term of K has the factors whose cells are observed.", masks
        )
    if found is not None and found.imputed:
        return Done(f"{found.words[0].upper()}{found.words[1:]}.", masks)
    return Done("", masks)


def _program(report: Report, fit: Fit) -> None:
    from ..explain import explain

    program = fit.model.program
    report.section("Model and loss")
    model, mask, done = fit.meta["model"], fit.meta["mask"], _done(fit)
    text = explain(program.checked, program.bound, model=model, mask=mask, done=done, plans=True)
    report.code(text, "formulas")
    report.section("Program")
    for path, source in fit.meta["program"].items():
        report.subsection(path)
        report.code(source)
    if fit.meta["inputs"]:
        rows = [[k, _input(np.asarray(v))] for k, v in fit.meta["inputs"].items()]
        report.table(["input", "value"], rows, "Inputs")


def _input(value: np.ndarray) -> str:
    return str(value.item()) if value.ndim == 0 else f"array of shape {value.shape}"
