"""Pictures of data, samples and parameters, as matplotlib figures.

The figures can be used without a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._palette import DIVERGING, INK_IMAGE, LIGHT, MARKERS, SERIES, axes_of, house_style, in_lines, legend_beside, panels_of, plain
from ._picture_arguments import axes_in, errors_of, numbers, rows_of, verified_axes, verified_count, verified_names, verified_share, wrong
from .limits import FIGURE_WIDTH, IMAGE_GAP, MOST_PIXELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike


def plot_images(
    data: np.ndarray,
    samples: np.ndarray,
    *,
    titles: tuple[str, str] = ("data", "samples"),
    columns: int = 5,
    rows: int = 6,
    ax: Sequence[Axes] | None = None,
) -> Figure:
    """Plot two grids of small images side by side: data, and samples of the model.

    Args:
        data: numbers of shape (image, height, width); the smallest of both arrays is white, the
            largest black. NaN stands for no pixel.
        samples: shape (image, height, width).
        titles: the titles of the two grids.
        columns: the number of columns of each grid.
        rows: the number of rows of each grid; images beyond `columns * rows` are left out.
        ax: two axes, one for each grid. If None, a new figure is made.

    Raises:
        GmlmError: E507 for `ax` that is not two axes, and unless both arrays have three axes and at
            least one image.
    """
    verified_axes(ax, 2)
    columns, rows = verified_count("columns", columns), verified_count("rows", rows)
    titles_ = verified_names("titles", titles)
    if len(titles_) != 2:
        raise wrong(f"titles must be two, one for each grid, got {len(titles_)}")
    pair = [rows_of(name, images, "(image, height, width)", empty=False) for name, images in (("data", data), ("samples", samples))]
    known = np.concatenate([images[np.isfinite(images)] for images in pair])
    low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    used = min(rows, max(-(-len(images) // columns) for images in pair))
    height, width = pair[0].shape[1:]
    if float(used) * columns * max(images[0].size for images in pair) > MOST_PIXELS:
        raise wrong(f"{used:,} rows of {columns:,} images are more than {MOST_PIXELS:.3g} pixels", "fewer `columns=` or `rows=`")
    ratio = (used * (height + IMAGE_GAP)) / (columns * (width + IMAGE_GAP))
    with house_style():
        panels = panels_of(ax, 0.4 + ratio * (FIGURE_WIDTH - 0.9) / 2, 1, 2, gridspec_kw={"wspace": 0.2})
        for k, axes in enumerate(panels):
            shade = (pair[k] - low) / (high - low if high > low else 1.0)
            pixels = _mosaic(np.where(np.isfinite(shade), 0.07 + 0.93 * shade, 0.0), columns, used)
            axes.imshow(_ink(pixels), interpolation="none").set_gid(f"{INK_IMAGE}{k}")
            axes.set_title(plain(titles_[k]))
            axes.set_axis_off()
    return panels[0].figure  # pyright: ignore[reportReturnType]


def plot_couplings(
    edges_xy: np.ndarray,
    values: np.ndarray,
    *,
    marked: np.ndarray | None = None,
    mark_label: str = "separated: no finite estimate",
    nodes_xy: np.ndarray | None = None,
    label: str = "coupling",
    ax: Axes | None = None,
) -> Figure:
    """Plot couplings as a map, with one line per edge, blue below zero and orange above.

    The colour and the width of a line show the value. The colours cover the central 98 % of the
    unmarked values; values outside have the colour of the end.

    Args:
        edges_xy: shape (edge, 2, 2), the two ends of each edge as x and y; y runs downwards, like
            the rows of an image.
        values: shape (edge,), the couplings; values that are not finite count as marked.
        marked: shape (edge,), the edges without a trustworthy value, drawn as dashes in the colour
            of text.
        mark_label: the meaning of the marks.
        nodes_xy: shape (node, 2); the ends of the edges by default.
        label: the label of the colour scale.
        ax: the axes. If None, a new figure is made.

    Raises:
        GmlmError: E507 for shapes that do not fit each other.
    """
    verified_axes(ax)
    known = rows_of("values", values, "(edge,)")
    edges = numbers("edges_xy", edges_xy, (len(known), 2, 2))
    hidden = ~np.isfinite(known) | (marked is not None and numbers("marked", marked, (len(known),)).astype(bool))
    points = np.unique(edges.reshape(-1, 2), axis=0) if nodes_xy is None else rows_of("nodes_xy", nodes_xy, "(node, 2)")
    if points.shape[1] != 2 or not (np.isfinite(points).all() and np.isfinite(edges).all()):
        raise wrong(f"`edges_xy` and `nodes_xy` must be finite places, x and y, got nodes of shape {points.shape}")
    limit = float(np.quantile(np.abs(known[~hidden]), 0.98)) if (~hidden).any() else 1.0
    limit = limit or 1.0
    span = np.ptp(points, axis=0) + 1 if len(points) else np.ones(2)
    with house_style():
        axes = axes_of(ax, min(7.0, 0.85 + (FIGURE_WIDTH - 0.2) * span[1] / span[0]))
        _draw_edges(axes, edges[~hidden], known[~hidden], limit)
        if hidden.any():
            _draw_marked(axes, edges[hidden], f"{plain(mark_label)} ({int(hidden.sum())} of {len(known)})")
        axes.scatter(*points.T, s=16, color=LIGHT["paper"], edgecolors=LIGHT["muted"], linewidths=0.9, zorder=4)
        axes.set_aspect("equal")
        axes.invert_yaxis()
        axes.set_axis_off()
        _colour_scale(axes, limit, label)
    return axes.figure  # pyright: ignore[reportReturnType]


def plot_forest(
    names: Sequence[str],
    estimates: ArrayLike | Mapping[str, ArrayLike],
    standard_errors: ArrayLike | Mapping[str, ArrayLike],
    *,
    level: float = 0.94,
    label: str = "estimate",
    ax: Axes | None = None,
) -> Figure:
    """Plot estimates with intervals, one row per parameter: estimate +- z standard error.

    A parameter without a finite standard error has an open mark and no bar. If both arguments are
    mappings, such as from mask to array, the series are drawn above each other in each row.

    Args:
        names: the names of the parameters.
        estimates: shape (parameter,), or a mapping by series.
        standard_errors: shape (parameter,), or (2, parameter) below and above if intervals are not
            symmetric, or a mapping by series.
        level: the probability of the intervals.
        label: the label of the axis.
        ax: the axes. If None, a new figure is made.

    Raises:
        GmlmError: E507 for arguments that do not fit, such as one series with errors and another
            without.
    """
    from statistics import NormalDist

    verified_axes(ax)
    names, level = verified_names("names", names), verified_share("level", level)
    series, errors = _series("estimates", estimates, len(names)), _series("standard_errors", standard_errors, len(names))
    if {*series} != {*errors}:
        raise wrong("`estimates` and `standard_errors` must be of the same series", "two arrays, or two dicts with the same names")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    with house_style():
        labels = [in_lines(plain(n)) for n in names]
        lines = max((t.count("\n") for t in labels), default=0)
        axes = axes_of(ax, 0.75 + len(names) * (0.17 + 0.13 * lines + 0.11 * len(series)))
        axes.axvline(0, color=LIGHT["muted"], linewidth=0.8)
        for k, (name, values) in enumerate(series.items()):
            y = np.arange(len(names)) + (k - (len(series) - 1) / 2) * 0.3
            _draw_intervals(axes, values, z * errors[name], y, k, name)
        axes.set_yticks(np.arange(len(names)), labels)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(f"{plain(label)}, {100 * level:g} % interval")
        if len(series) > 1:
            legend_beside(axes, ax, 3)
    return axes.figure  # pyright: ignore[reportReturnType]


def _series(name: str, given: Any, count: int) -> dict[str, np.ndarray]:
    """Return arrays by series, with one number for each parameter.

    Errors may have two rows, below and above.
    """
    each = dict(given) if isinstance(given, Mapping) else {"": given}
    if name == "estimates":
        return {k: numbers(name, v, (count,)) for k, v in each.items()}
    return {k: errors_of(name, v, (2, count) if axes_in(v) == 2 else (count,)) for k, v in each.items()}


def _mosaic(images: np.ndarray, columns: int, rows: int) -> np.ndarray:
    height, width = images.shape[1] + IMAGE_GAP, images.shape[2] + IMAGE_GAP
    canvas = np.zeros((rows * height - IMAGE_GAP, columns * width - IMAGE_GAP))
    for k, image in enumerate(images[: columns * rows]):
        top, left = (k // columns) * height, (k % columns) * width
        canvas[top : top + height - IMAGE_GAP, left : left + width - IMAGE_GAP] = image
    return canvas


def _ink(alpha: np.ndarray) -> np.ndarray:
    """Return a dark grey image (row, column, 4) whose opacity is `alpha`.

    It is legible on white and, inverted, on black.
    """
    density = np.round(255 * alpha).astype(np.uint8)
    return np.dstack([np.full_like(density, 28)] * 3 + [density])


def _draw_edges(axes: Axes, edges: np.ndarray, values: np.ndarray, limit: float) -> None:
    from matplotlib.collections import LineCollection

    strength = np.clip(values / limit, -1, 1)
    order = np.argsort(np.abs(strength), kind="stable")  # strong couplings on top
    middle = len(DIVERGING) // 2
    level = np.clip(np.round(strength * len(DIVERGING) / 2), -middle, middle).astype(int) + middle
    lines = LineCollection(
        list(edges[order]),
        colors=[DIVERGING[k] for k in level[order]],
        linewidths=list(1.0 + 4.0 * np.abs(strength[order])),
        capstyle="round",
        zorder=2,
    )
    axes.add_collection(lines)
    axes.margins(0.03)
    axes.autoscale_view()


def _draw_marked(axes: Axes, edges: np.ndarray, label: str) -> None:
    for k, edge in enumerate(edges):
        axes.plot(*edge.T, color=LIGHT["ink"], linewidth=1.4, linestyle=(0, (2, 1.6)), zorder=3, label=label if k == 0 else None)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), handlelength=2.6, borderaxespad=0.2)


def _colour_scale(axes: Axes, limit: float, label: str) -> None:
    """Add a row of boxes under the map, one per colour."""
    scale = axes.inset_axes((0.15, -0.06, 0.7, 0.03))
    edges = np.linspace(-limit, limit, len(DIVERGING) + 1)
    for k, colour in enumerate(DIVERGING):
        scale.axvspan(edges[k], edges[k + 1], color=colour, linewidth=0)
    scale.set_xlim(-limit, limit)
    scale.set_yticks([])
    scale.grid(visible=False)
    scale.spines[:].set_visible(False)
    scale.locator_params(axis="x", nbins=5)
    scale.tick_params(axis="x", length=2)
    scale.set_xlabel(plain(label))


def _draw_intervals(axes: Axes, values: np.ndarray, widths: np.ndarray, y: np.ndarray, k: int, name: str) -> None:
    colour, marker = SERIES[k % len(SERIES)], MARKERS[k % len(MARKERS)]
    widths = np.broadcast_to(widths, (2, len(values)))
    sure = np.isfinite(widths).all(axis=0) & np.isfinite(values)
    axes.errorbar(
        values[sure],
        y[sure],
        xerr=widths[:, sure],
        fmt=marker,
        color=colour,
        markersize=4,
        linewidth=0,
        elinewidth=1.3,
        label=plain(name) or None,
    )
    axes.plot(values[~sure], y[~sure], marker, color=colour, markerfacecolor="none", markersize=4.5)
