"""The report of a fit: the result and its diagnostics, the estimates, and the program.

Further sections show a fit as a network: couplings, centrality, path, group differences.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import GmlmError, counted
from ..graph import joint_count
from ._assessment_pictures import MEASURES, check_section, plot_centrality, plot_effects, plot_stability
from ._diagnostic_pictures import plot_loss
from ._document import Report
from ._network_pictures import plot_contacts, plot_network
from ._picture_arguments import made_by, verified_table, verified_text
from ._pictures import plot_couplings, plot_forest
from .limits import (
    MOST_CHECKED_PAIRS,
    MOST_CHECKED_STATES,
    MOST_ESTIMATES,
    MOST_IN_FOREST,
    MOST_MAPPED,
    MOST_MISSING_CELLS,
    MOST_NODES,
    MOST_PAIRS,
    MOST_STABLE,
)

if TYPE_CHECKING:
    import pandas as pd

    from ..assess import Path, PredictiveCheck
    from ..evaluate import Effects
    from ..explain import Done
    from ..model import Fit

# the columns of `Fit.differences` that the report uses
DIFFERENCES = ("first", "second", "value", "differs")


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
    shown, n = order[:MOST_MISSING_CELLS], int(fit.meta["rows"])
    more = f"; the {len(shown)} with the most of {len(order)}" if len(order) > len(shown) else ""
    rows = [[fit.graph.cell_name(int(c)), int(counts[c]), counts[c] / n] for c in shown]
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


def couplings_figure(report: Report, fit: Fit, level: float, centrality: pd.DataFrame | None) -> None:
    """Add the couplings as a network, and the centrality of cells.

    If there are many cells or values, the couplings are a map instead.

    Args:
        report: the report.
        fit: the fit.
        level: the probability of the intervals.
        centrality: the result of `Fit.centrality`. If None, that of the fit, if it has few cells.
    """
    cells = fit.graph.n_random
    if cells > MOST_MAPPED or fit.graph.latents:
        return
    from ..assess import has_signs

    signed = has_signs(fit.graph)
    try:
        couplings = fit.couplings(score="value" if signed else "norm", probability=level)
    except GmlmError:  # no factor contains two cells, or it reads given data
        return
    what = "coupling" if signed else "norm of the coupling"
    if cells <= MOST_NODES:
        pale = f" Pale: the {100 * level:g} % interval contains 0." if "std_error" in couplings else ""
        caption = f"The {what} of each two cells that share a factor.{pale}"
        report.figure(plot_network(couplings, label=what), alt="The couplings as a network: one line for each two cells.", caption=caption)
    if cells > 2 and (cells > MOST_NODES or not signed):
        caption = f"The {min(cells, len(couplings))} pairs of the highest scores, with the average product correction."
        report.figure(
            plot_contacts(fit.couplings(score="apc")), alt="The pairs of the highest scores as a map of cells by cells.", caption=caption
        )
    _table(report, couplings, "The strongest couplings")
    if centrality is None and cells <= MOST_NODES:
        centrality = fit.centrality(score="value" if signed else "norm")
    if centrality is not None:
        _centrality(report, centrality)


def _centrality(report: Report, centrality: pd.DataFrame) -> None:
    report.subsection("How central each cell is")
    again = centrality.attrs.get("replications")
    caption = (
        f"Bars: percentile intervals over {counted(again, 'replication')}; under each panel the mean rank correlation with the fit."
        if again
        else "Without intervals: pass `centrality=fit.centrality(bootstrap=fit.bootstrap(1000))` to have them."
    )
    alt = "Strength, expected influence, closeness and betweenness of each cell."
    report.figure(plot_centrality(centrality), alt=alt, caption=caption)


def path_section(report: Report, path: Path) -> None:
    """Add the result of a path of penalised fits."""
    report.section("Which couplings are there?")
    chosen = path.chosen_couplings
    joined = "" if path.rule is None else f', each block fitted by itself and joined by "{path.rule}"'
    bound = "" if path.error_bound is None else f" At most {path.error_bound:.3g} of them are expected to be wrong."
    report.text(f"`{path.criterion}` keeps {len(chosen)} of {len(path.couplings)} couplings{joined}.{bound}")
    if path.stable is not None:
        alt = "The couplings by the share of half samples that select them."
        report.figure(plot_stability(path.stable, most=MOST_STABLE), alt=alt)
    table: Any = path.table[path.table["chosen"]] if "chosen" in path.table else path.table
    report.table([str(c) for c in table.columns], _rows(table), "Penalised fits" + (": those chosen" if "chosen" in path.table else ""))


def differences_section(report: Report, differences: pd.DataFrame) -> None:
    """Add the differences of couplings between two groups."""
    report.section("Do two groups differ?")
    count, attrs = int(np.asarray(differences["differs"]).sum()), differences.attrs
    told = (
        f"{count} of {counted(len(differences), 'coupling')} differ at the level {attrs['level']:g}, corrected by `{attrs['correction']}`."
    )
    tests = [
        f"{name}: p = {attrs[key]:.3g}" for name, key in (("largest difference", "p_largest"), ("strength", "p_strength")) if key in attrs
    ]
    report.text(told + (f" By permutations, {', '.join(tests)}." if tests else ""))
    if len(attrs["cells"]) <= MOST_NODES:
        figure = plot_network(differences, label="difference")
        report.figure(figure, alt="The differences as a network.", caption="Differences of the couplings; pale: not told apart.")
    _table(report, differences, "The couplings with the smallest p-values")


def effects_section(report: Report, effects: Effects) -> None:
    """Add the effects of substitutions on log p."""
    report.section("Substitutions")
    figure = plot_effects(effects)
    caption = "The change of log p, in nats, where one cell holds another value; dots are the wildtype's own."
    report.figure(figure, alt="A heat map of the changes of log p by cell and value.", caption=caption)
    table = effects.table.sort_values("effect", kind="stable")
    report.table([str(c) for c in table.columns], _rows(table.head(MOST_PAIRS)), "The substitutions that lower log p most")
    if len(effects.pairs):
        double: Any = effects.double_table
        double = double.reindex(double["epistasis"].abs().sort_values(ascending=False, kind="stable").index)
        report.table([str(c) for c in double.columns], _rows(double.head(MOST_PAIRS)), "The double substitutions with the most epistasis")


def _table(report: Report, table: pd.DataFrame, caption: str) -> None:
    more = f", {MOST_PAIRS} of {len(table)}" if len(table) > MOST_PAIRS else ""
    report.table([str(c) for c in table.columns], _rows(table.head(MOST_PAIRS)), f"{caption}{more}")


def _rows(table: pd.DataFrame) -> list[list[Any]]:
    """Return the rows of a report's table, with "none" for missing values."""
    rows = [list(row) for row in table.itertuples(index=False)]
    return [["none" if isinstance(v, float) and np.isnan(v) else v for v in row] for row in rows]
