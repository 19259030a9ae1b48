"""The heat map of substitutions: the change of log p if one cell has another value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._palette import DIVERGING, LIGHT, WIDTH, axes_of, bare, house_style, plain
from ._picture_arguments import numbers, verified_axes, verified_names, wrong

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..evaluate import Effects

# maximum number of cells whose names are written; with more cells, names are written at intervals
MOST_NAMED = 40


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
        axes = axes_of(ax, max(2.4, 0.9 + 0.17 * len(values)), min(11.0, max(WIDTH, 1.2 + 0.055 * len(cells))))
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
    step = -(-len(cells) // MOST_NAMED)
    axes.set_yticks(range(len(values)), values)
    axes.set_xticks(range(0, len(cells), step), cells[::step], rotation=90)
    axes.tick_params(length=0, labelsize=8)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
