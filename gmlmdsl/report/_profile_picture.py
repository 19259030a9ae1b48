"""The picture of a profile: how far the objective rises along one direction, and where the interval ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._palette import LIGHT, SERIES, axes_of, house_style, plain
from ._picture_arguments import numbers, rows_of, verified_axes, verified_share, verified_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    """The signed root of the adjusted drop, straight where a normal interval is right; and the interval, where it meets the quantile.

    Args:
        grid: (point,) values of the entry or direction, ascending.
        drop: (point,) twice the rise of the objective, adjusted: `Profile.drop`.
        estimate: of the fit.
        interval: where the drop stays below the quantile; an infinite end is not drawn.
        level: of the interval.
        label: of the entry or direction.
        ax: where to draw; none: a new figure.

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
