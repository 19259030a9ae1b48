"""The picture of case dropping: correlations of networks of subsets with that of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._palette import LIGHT, MARKERS, SERIES, WIDTH, axes_of, house_style, legend_beside
from ._picture_arguments import made_by, verified_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..assess import CaseDropping


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
        axes = axes_of(ax, 3.4, WIDTH)
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
