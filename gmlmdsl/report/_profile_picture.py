"""The picture of a profile: the rise of the objective along one direction, and the interval."""

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
    """Plot the signed root of the adjusted drop, and the interval at which it reaches the quantile.

    The root is linear if a normal interval is right.

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
