"""Pictures of the checks of a fit: stability selection, case dropping, profiles, centralities.

A predictive check compares the data with data that the fitted model draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._palette import DIVERGING, LIGHT, MARKERS, SERIES, axes_of, bare, house_style, legend_beside, new_figure, panels_of, plain
from ._picture_arguments import (
    made_by,
    numbers,
    rows_of,
    verified_axes,
    verified_count,
    verified_names,
    verified_number,
    verified_share,
    verified_table,
    verified_text,
    wrong,
)
from .limits import FIGURE_WIDTH, MOST_CELL_NAMES, MOST_STATISTICS, MOST_Z

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..assess import CaseDropping, PredictiveCheck, Statistics
    from ..evaluate import Effects
    from ._document import Report

MEASURES = {"strength": "strength", "expected_influence": "expected\ninfluence", "closeness": "closeness", "betweenness": "betweenness"}


def plot_stability(stable: pd.DataFrame, *, threshold: float = 0.75, most: int = 40, ax: Axes | None = None) -> Figure:
    """Plot selection probabilities, with the most stable coupling on top.

    A mark is filled if the coupling is stable, and a dashed line is the threshold.

    Args:
        stable: `Path.stable` of a path with criterion "stability".
        threshold: the threshold of `Model.fit_path`.
        most: the number of couplings shown, among those that some half sample selects.
        ax: the axes. If None, a new figure is made.

    Returns:
        The figure of the axes.

    Raises:
        GmlmError: E507 for arguments that do not fit.

    Reference: Meinshausen and Buhlmann 2010.
    """
    verified_table(stable, ("coupling", "probability", "stable"), 'model.fit_path(x, criterion="stability").stable')
    verified_axes(ax)
    threshold = verified_number("threshold", threshold, 0)
    shown: Any = stable.sort_values("probability", ascending=False, kind="stable").head(verified_count("most", most))
    shown = shown[shown["probability"] > 0] if (shown["probability"] > 0).any() else shown
    rows, share, kept = np.arange(len(shown)), shown["probability"].to_numpy(float), shown["stable"].to_numpy(bool)
    with house_style():
        axes = axes_of(ax, 1.0 + 0.19 * len(shown), 1.3 * FIGURE_WIDTH)
        axes.hlines(rows, 0, share, color=LIGHT["grid"], linewidth=1.3)
        for mine, fill, text in ((kept, SERIES[0], "stable"), (~kept, LIGHT["paper"], "not stable")):
            if mine.any():
                axes.scatter(
                    share[mine], rows[mine], s=26, c=fill, edgecolors=SERIES[0], linewidths=1.1, label=text, zorder=3, clip_on=False
                )
        axes.axvline(threshold, color=LIGHT["ink"], linewidth=1.0, linestyle=(0, (4, 3)), label=f"threshold {threshold:g}")
        axes.set_yticks(rows, _pairs(shown["coupling"]))
        axes.tick_params(axis="y", length=0, labelsize=8)
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlim(0, 1.02)
        axes.set_xlabel("share of half samples that select it")
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, fontsize=8.5, handletextpad=0.4)
    return axes.figure  # pyright: ignore[reportReturnType]


def _pairs(names: Iterable[str]) -> list[str]:
    """Return names of pairs, without the variable if all cells belong to one variable."""
    ends = [str(name).split(" - ") for name in names]
    short = iter(bare(end for pair in ends for end in pair))
    return [" - ".join(next(short) for _ in pair) for pair in ends]


def plot_case_dropping(dropped: CaseDropping, *, ax: Axes | None = None) -> Figure:
    """Plot the mean correlation of each statistic against the share of rows left out.

    A band covers the 2.5 % and 97.5 % quantiles over subsets, and a dashed line is the correlation
    of the CS coefficient. The legend has the coefficients.

    Args:
        dropped: the result of `Fit.case_dropping`.
        ax: the axes. If None, a new figure is made.

    Returns:
        The figure of the axes.

    Raises:
        GmlmError: E507 for arguments that do not fit.

    Reference: Epskamp, Borsboom and Fried 2018, Figure 4.
    """
    made_by("dropped", dropped, "coefficients", "fit.case_dropping()")
    verified_axes(ax)
    table, coefficients = dropped.table(), dropped.coefficients
    ends = [c for c in table.columns if str(c).endswith("%")]
    with house_style():
        axes = axes_of(ax, 3.4, FIGURE_WIDTH)
        for k, (name, mine) in enumerate(table.groupby("statistic", sort=False)):
            colour, marker = SERIES[k % len(SERIES)], MARKERS[k % len(MARKERS)]
            share = 100 * mine["dropped"].to_numpy(float)
            axes.fill_between(share, *mine[ends].to_numpy(float).T, color=colour, alpha=0.15, linewidth=0)
            label = f"{str(name).replace('_', ' ')}: CS {coefficients[str(name)]:.2f}"
            axes.plot(share, mine["mean"], color=colour, marker=marker, markersize=4, label=label)
        axes.axhline(dropped.correlation, color=LIGHT["ink"], linewidth=1.0, linestyle=(0, (4, 3)))
        low = np.nanmin(table[[*ends, "mean"]].to_numpy(float), initial=0.0)
        axes.set_ylim(max(-1.0, low) - 0.03, 1.03)
        axes.set_xlabel("rows left out, %")
        axes.set_ylabel("correlation with all rows")
        legend_beside(axes, ax, 2)
    return axes.figure  # pyright: ignore[reportReturnType]


def plot_profile(
    grid: np.ndarray,
    drop: np.ndarray,
    *,
    estimate: float,
    interval: tuple[float, float],
    level: float = 0.94,
    label: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Plot the signed root of `drop`, twice the adjusted rise of the objective, and an interval.

    At the ends of the interval the root reaches the quantile. It is linear if a normal interval is
    right.

    Args:
        grid: shape (point,), the values of the entry or direction, ascending.
        drop: shape (point,), twice the rise of the objective, adjusted: `Profile.drop`.
        estimate: the estimate of the fit.
        interval: the values at which the drop is below the quantile; an infinite end is not drawn.
        level: the probability of the interval.
        label: the name of the entry or direction.
        ax: the axes. If None, a new figure is made.

    Raises:
        GmlmError: E507 for arguments that do not fit.
    """
    from statistics import NormalDist

    verified_axes(ax)
    z = NormalDist().inv_cdf(0.5 + verified_share("level", level) / 2)
    grid, estimate = rows_of("grid", grid, "(point,)"), float(numbers("estimate", estimate, ()))
    root, ends = np.sqrt(np.maximum(numbers("drop", drop, grid.shape), 0.0)), numbers("interval", interval, (2,))
    label = verified_text("label", label)
    root = np.where(grid < estimate, -root, root)
    with house_style():
        axes = axes_of(ax, 2.3)
        for height in (-z, z):
            axes.axhline(height, color=LIGHT["muted"], linewidth=0.9, linestyle="--")
        axes.axhline(0, color=LIGHT["muted"], linewidth=0.8)
        axes.plot(grid, root, color=SERIES[0], marker="o", markersize=3, linewidth=1.5)
        for side, end in zip((-z, z), ends.tolist(), strict=True):
            if np.isfinite(end):
                axes.plot([end, end], [0, side], color=SERIES[1], linewidth=1.6)
        axes.set_xlabel(f"{plain(label)}, {100 * level:g} % interval" if label else f"{100 * level:g} % interval")
        axes.set_ylabel("signed root of the drop")
    return axes.figure  # pyright: ignore[reportReturnType]


def plot_centrality(centrality: pd.DataFrame, *, most: int = 40, ax: Sequence[Axes] | None = None) -> Figure:
    """Plot each measure of `Fit.centrality` in its own panel, with cells sorted by strength.

    Intervals are drawn if the table has them.

    Args:
        centrality: the result of `Fit.centrality`.
        most: the number of cells shown, the strongest first.
        ax: four axes, one for each measure. If None, a new figure is made.

    Returns:
        The figure of the axes.

    Raises:
        GmlmError: E507 for arguments that do not fit, such as `ax` that is not four axes.
    """
    verified_table(centrality, tuple(MEASURES), "fit.centrality()")
    verified_axes(ax, len(MEASURES))
    shown = centrality.sort_values("strength", ascending=False, kind="stable").head(verified_count("most", most))
    rows = np.arange(len(shown))
    stability = centrality.attrs.get("stability", {})
    with house_style():
        panels = new_figure(1.1 + 0.19 * len(shown), 7.6).subplots(1, len(MEASURES), sharey=True) if ax is None else ax
        for k, (axes, (name, title)) in enumerate(zip(np.ravel(np.array(panels, object)), MEASURES.items(), strict=True)):
            ends = [c for c in centrality.columns if str(c).startswith(f"{name} ")]
            if len(ends) == 2:
                axes.hlines(rows, shown[ends[0]], shown[ends[1]], color=SERIES[0], linewidth=1.3, alpha=0.6)
            axes.plot(shown[name], rows, "o", color=SERIES[0], markersize=4)
            axes.set_title(title)
            axes.locator_params(axis="x", nbins=3)
            if name in stability:
                axes.set_xlabel(f"rank correlation {stability[name]:.2f}", color=LIGHT["muted"], fontsize=8)
            axes.tick_params(labelsize=8)
            axes.set_yticks(rows, bare(shown.index))
            axes.tick_params(axis="y", length=0, labelleft=k == 0)
            axes.set_ylim(len(shown) - 0.4, -0.6)
    return axes.figure  # pyright: ignore[reportReturnType]


def plot_effects(
    singles: Effects | np.ndarray,
    values: Sequence[Any] | None = None,
    cells: Sequence[str] | None = None,
    *,
    wildtype: np.ndarray | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Plot a heat map of single substitutions, values by cells.

    Orange cells increase log p, and blue cells decrease it. The colours cover the central 98 % of
    the finite effects. Crosses are impossible values, dots are the wildtype's own values, and empty
    places are values that a cell does not have.

    Args:
        singles: the result of `Model.effects`, or changes of log p of shape (cell, value), which
            need the next three arguments.
        values: the names of the rows, as the domain writes them.
        cells: the names of the columns.
        wildtype: shape (cell,), the codes of the wildtype.
        ax: the axes. If None, a new figure is made.

    Returns:
        The figure of the axes.

    Raises:
        GmlmError: E507 for arguments that do not fit, such as shapes.
    """
    from matplotlib.colors import ListedColormap

    verified_axes(ax)
    if hasattr(singles, "singles") and not isinstance(singles, type):
        told: Any = singles
        values, cells = (told.labels if values is None else values), (told.names if cells is None else cells)
        singles, wildtype = told.singles, told.wildtype
    if values is None or cells is None:
        raise wrong("an array of effects needs `values` and `cells`, names of its rows and columns", "pass what `model.effects(..)` gives")
    values, cells = verified_names("values", values), verified_names("cells", cells)
    table = numbers("singles", singles, (len(cells), len(values)))
    if wildtype is not None:
        numbers("wildtype", wildtype, (len(cells),))
    finite = np.abs(table[np.isfinite(table) & (table != 0)])
    limit = float(np.quantile(finite, 0.98)) if finite.size else 1.0
    with house_style():
        width = min(11.0, max(FIGURE_WIDTH, 1.2 + 0.055 * len(cells)))
        axes = axes_of(ax, max(2.4, 0.9 + 0.17 * len(values)), width)
        image = axes.imshow(
            np.where(np.isfinite(table), table, np.nan).T,
            cmap=ListedColormap(list(DIVERGING)),
            vmin=-limit,
            vmax=limit,
            aspect="auto",
            interpolation="none",
        )
        marked = [("wildtype", _own(table, wildtype), "o", 5), ("impossible", np.isneginf(table), "x", 12)]
        for what, marks, sign, size in marked:
            if marks.any():
                at, value = np.nonzero(marks)
                axes.scatter(at, value, marker=sign, s=size, color=LIGHT["ink"], linewidths=0.7, label=what)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, fontsize=8, handletextpad=0.2)
        _named(axes, [plain(v) for v in values], bare(cells))
        axes.figure.colorbar(image, ax=axes, label="change of log p, nats", pad=0.02, fraction=0.05)
    return axes.figure  # pyright: ignore[reportReturnType]


def _own(table: np.ndarray, wildtype: np.ndarray | None) -> np.ndarray:
    return np.zeros(table.shape, bool) if wildtype is None else np.arange(table.shape[1]) == np.asarray(wildtype)[:, None]


def _named(axes: Axes, values: list[str], cells: list[str]) -> None:
    step = -(-len(cells) // MOST_CELL_NAMES)
    axes.set_yticks(range(len(values)), values)
    axes.set_xticks(range(0, len(cells), step), cells[::step], rotation=90)
    axes.tick_params(length=0, labelsize=8)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def plot_predictive(statistics: Statistics, *, most: int = MOST_STATISTICS, ax: Axes | Sequence[Axes] | None = None) -> Figure:
    """Plot statistics of the data against those of replicated data sets.

    The worst statistics are named. One statistic is a histogram of its replicated values, with the
    data as a line. Several statistics are shown by their distance from the model's mean in units of
    the model's standard deviation, with their bands, for the `most` worst ones. If there are
    more, a second panel above shows all of them, data against model.

    Args:
        statistics: one of `PredictiveCheck.statistics`.
        most: the number of named statistics.
        ax: the axes, or two axes if there are more than `most` statistics. If None, a new figure is
            made.

    Raises:
        GmlmError: E507 for `ax` with another number of axes, and unless `statistics` is a
            `Statistics`.
    """
    made_by("statistics", statistics, "replicated", "fit.predictive().statistics[..]")
    verified_count("most", most)
    verified_axes(ax, 1 + (len(statistics.labels) > max(most, 1)))
    if len(statistics.labels) == 1:
        return _histogram(statistics, ax)
    order = np.argsort(-np.abs(statistics.z), kind="stable")[:most]
    if len(statistics.labels) <= most:
        order = np.arange(len(statistics.labels))
    height = 0.85 + 0.24 * len(order)
    with house_style():
        if len(statistics.labels) <= most:
            above = panels_of(ax, height, 1, 1)[0]
            _worst(above, statistics, order, alone=True)
        else:
            square = FIGURE_WIDTH * 0.72
            above, below = panels_of(ax, height + square, 2, 1, height_ratios=[square, height])
            _scatter(above, statistics)
            _worst(below, statistics, order, alone=False)
        _legend(above, ax)
    return above.figure  # pyright: ignore[reportReturnType]


def _legend(axes: Axes, ax: Axes | Sequence[Axes] | None) -> None:
    """Add the legend of these axes: above a new figure, or inside axes that a caller passed."""
    if ax is None:
        axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=3)
    else:
        axes.legend()


def _scatter(axes: Axes, s: Statistics) -> None:
    """Plot every statistic with the model's mean on the x axis and the data on the y axis.

    The bands are vertical lines around the diagonal.
    """
    out = s.outside
    low, high = s.bands
    ends = np.array([min(s.mean.min(), s.observed.min()), max(s.mean.max(), s.observed.max())])
    pad = 0.04 * max(ends[1] - ends[0], 1e-3)
    axes.vlines(s.mean, low, high, color=LIGHT["grid"], linewidth=2.2, label=f"{100 * s.level:g} % band", zorder=1)
    ends = ends + np.array([-pad, pad])
    axes.plot(ends, ends, color=LIGHT["muted"], linewidth=0.8, zorder=2)
    size = 16 if len(out) <= 300 else 7
    axes.scatter(s.mean[~out], s.observed[~out], s=size, color=SERIES[0], linewidths=0, label=f"inside ({int((~out).sum())})", zorder=3)
    if out.any():
        label = f"outside ({int(out.sum())}; {s.expected_outside:.2g} expected)"
        axes.scatter(s.mean[out], s.observed[out], s=size + 8, color=SERIES[1], marker="x", linewidths=1.3, label=label, zorder=4)
    axes.set_xlabel("share in the model's data sets (mean)")
    axes.set_ylabel("share in the data")
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)


def _worst(axes: Axes, s: Statistics, order: np.ndarray, *, alone: bool) -> None:
    """Plot named statistics in units of the model's standard deviation."""
    unit = np.where(s.spread > 0, s.spread, np.inf)[order]
    low, high = ((b[order] - s.mean[order]) / unit for b in s.bands)
    y, z, out = np.arange(len(order)), s.z[order], s.outside[order]
    shown = np.clip(z, -MOST_Z, MOST_Z)
    axes.hlines(y, low, high, color=LIGHT["grid"], linewidth=6, label=f"{100 * s.level:g} % band" if alone else "_", zorder=1)
    axes.axvline(0, color=LIGHT["muted"], linewidth=0.8, zorder=2)
    inside, beyond = f"inside ({int((~out).sum())})", f"outside ({int(out.sum())}; {s.expected_outside:.2g} expected)"
    axes.scatter(shown[~out], y[~out], s=22, color=SERIES[0], linewidths=0, label=inside if alone else None, zorder=3)
    if out.any():
        axes.scatter(shown[out], y[out], s=28, color=SERIES[1], marker="x", linewidths=1.4, label=beyond if alone else None, zorder=4)
    for k in np.flatnonzero(np.abs(z) > MOST_Z):
        right = z[k] > 0
        text = f"z = {z[k]:.3g}"
        axes.annotate(
            text, (shown[k], y[k]), (-7 if right else 7, 0), textcoords="offset points", ha="right" if right else "left", va="center"
        )
    axes.set_yticks(y, [plain(s.labels[i]) for i in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    reach = max(3.0, float(np.abs(shown).max(initial=0.0)) + 0.6)
    axes.set_xlim(-reach, reach)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("z = (data - model) / spread of the model")


def _histogram(s: Statistics, ax: Axes | Sequence[Axes] | None) -> Figure:
    values = s.replicated[:, 0]
    distinct = np.unique(values)
    with house_style():
        axes = panels_of(ax, 2.2, 1, 1)[0]
        if len(distinct) <= 30:
            counts = (values[:, None] == distinct).sum(axis=0)
            width = 0.8 * np.diff(distinct).min(initial=1.0)
            axes.bar(distinct, counts, width=width, color=SERIES[0], alpha=0.55, label=f"{len(values)} data sets of the model")
        else:
            axes.hist(values, bins=30, color=SERIES[0], alpha=0.55, label=f"{len(values)} data sets of the model")
        low, high = s.bands
        axes.axvspan(float(low[0]), float(high[0]), color=LIGHT["tile"], zorder=0, label=f"{100 * s.level:g} % band")
        axes.axvline(float(s.observed[0]), color=SERIES[1], linewidth=2.2, label="the data")
        axes.set_xlabel(plain(s.labels[0]))
        axes.set_ylabel("data sets")
        _legend(axes, ax)
    return axes.figure  # pyright: ignore[reportReturnType]


def check_section(report: Report, check: PredictiveCheck) -> None:
    """Add a predictive check to a report, with one picture for each kind of statistics."""
    report.section("Does the model make data like these?")
    report.text(
        f"{check.head[0].upper()}{check.head[1:]}. The parameters are held at the estimates, so what the fit matched lies near the model's "
        "mean by construction; what it was not told of is the test."
    )
    for note in check.notes:
        head, _, rest = note.partition(". ")
        report.warning(head.replace("`", ""), rest or note)
    for s in check.statistics.values():
        report.subsection(s.name)
        low, expected, band = int(s.outside.sum()), s.expected_outside, f"{100 * s.level:g} % band"
        worst = s.labels[int(np.argmax(np.abs(s.z)))]
        report.text(
            f"{low} of {len(s.labels)} lie outside their {band}; {expected:.2g} would on average if the model were right. "
            f"The farthest is `{worst}`; that one of them all lies so far out has p = {s.worst_p_value:.2g} if the model is right."
        )
        alt = f"{s.name}: data against model for {len(s.labels)} statistics, {low} outside their {band}, the farthest {worst}."
        report.figure(plot_predictive(s), alt=alt)
        frame = s.table(MOST_STATISTICS)
        rows = [[str(name), *row] for name, row in zip(frame.index, frame.itertuples(index=False), strict=True)]
        report.table([s.name, *map(str, frame.columns)], rows, f"The {len(rows)} farthest from the model's mean.")
