"""Pictures of a predictive check: the data against the fitted model, as matplotlib figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._palette import LIGHT, SERIES, house_style, panels_of, plain
from ._picture_arguments import made_by, verified_axes, verified_count
from .limits import FIGURE_WIDTH, MOST_STATISTICS, MOST_Z

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..assess import PredictiveCheck, Statistics
    from ._document import Report


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
