"""The picture of centralities: a panel for each measure, a row for each cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._palette import LIGHT, SERIES, bare, house_style, new_figure
from ._picture_arguments import verified_axes, verified_count, verified_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEASURES = {"strength": "strength", "expected_influence": "expected\ninfluence", "closeness": "closeness", "betweenness": "betweenness"}


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
