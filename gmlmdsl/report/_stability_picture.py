"""The picture of stability selection: the selection probabilities of couplings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ._palette import LIGHT, SERIES, WIDTH, axes_of, bare, house_style
from ._picture_arguments import verified_axes, verified_count, verified_number, verified_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
        axes = axes_of(ax, 1.0 + 0.19 * len(shown), 1.3 * WIDTH)
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
