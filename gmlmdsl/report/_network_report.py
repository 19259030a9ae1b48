"""Sections of the report of a fit as a network: couplings, centrality, path, group differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import GmlmError, counted
from ._assessment_pictures import plot_centrality, plot_effects, plot_stability
from ._contact_pictures import plot_contacts
from ._document import Report
from ._network_pictures import plot_network
from .limits import MOST_MAPPED, MOST_NODES, MOST_PAIRS, MOST_STABLE

if TYPE_CHECKING:
    import pandas as pd

    from ..assess import Path
    from ..evaluate import Effects
    from ..model import Fit

# the columns of `Fit.differences` that the report uses
DIFFERENCES = ("first", "second", "value", "differs")


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
