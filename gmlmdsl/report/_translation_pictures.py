"""Pictures of a translator's training, scores, times and attention, as matplotlib figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._palette import INK_IMAGE, LIGHT, MARKERS, SERIES, WIDTH, house_style, new_figure, plain
from ._picture_arguments import rows_of, wrong

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, float]]


def plot_curves(
    curves: Mapping[str, Points], *, x: str, y: str, marks: bool = False, dashed: Mapping[str, Points] | None = None, log: bool = False
) -> Figure:
    """Plot lines by name over one pair of axes.

    Args:
        curves: points (x, y) by name.
        x: the label of the x axis.
        y: the label of the y axis.
        marks: whether points are marked.
        dashed: further points by the same names, joined by dashes of the same colour.
        log: whether x is on a log scale of base 2.
    """
    with house_style():
        figure = new_figure(2.6)
        axes = figure.subplots()
        for k, (name, points) in enumerate(curves.items()):
            colour = SERIES[k % len(SERIES)]
            at = np.array(points, float).reshape(-1, 2).T
            axes.plot(*at, color=colour, marker=MARKERS[k % len(MARKERS)] if marks else None, markersize=4, label=plain(name))
            other = np.array((dashed or {}).get(name, ()), float).reshape(-1, 2).T
            if other.size:
                axes.plot(*other, color=colour, linestyle=(0, (3, 1.6)), linewidth=1.1)
        if log:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(plain(x))
        axes.set_ylabel(plain(y))
        axes.margins(x=0.02)
        figure.legend(loc="outside upper left", ncols=2)
    return figure


def plot_attention(weights: np.ndarray, targets: Sequence[str], sources: Sequence[str]) -> Figure:
    """Plot attention weights of every head as a grid of maps, in which darker is more.

    Each row sums to 1.

    Args:
        weights: shape (heads, targets, sources).
        targets: the names of the rows.
        sources: the names of the columns.

    Raises:
        GmlmError: E507 for shapes that do not fit each other.
    """
    w = rows_of("weights", weights, "(heads, targets, sources)")
    if w.shape[1:] != (len(targets), len(sources)):
        raise wrong(f"`weights` must have shape (heads, {len(targets)}, {len(sources)}), got {w.shape}")
    heads = len(w)
    columns = 2 if heads > 1 else 1
    rows = -(-heads // columns)
    side = (WIDTH - 0.9) / columns
    with house_style():
        figure = new_figure(0.5 + rows * (0.55 + side * len(targets) / max(len(sources), 1)))
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for k, axes in enumerate(grid.flat):
            if k >= heads:
                axes.set_axis_off()
                continue
            density = np.round(255 * np.clip(w[k] / max(w[k].max(), 1e-9), 0, 1)).astype(np.uint8)
            # The image is dark grey with the weight as opacity, so that it is also legible when
            # inverted.
            ink = np.dstack([np.full_like(density, 28)] * 3 + [density])
            axes.imshow(ink, interpolation="none", aspect="auto").set_gid(f"{INK_IMAGE}{k}")
            axes.set_title(f"head {k + 1}, up to {w[k].max():.2f}")
            axes.grid(visible=False)
            axes.set_xticks(range(len(sources)), [plain(s) for s in sources], rotation=90)
            axes.set_yticks(range(len(targets)), [plain(t) for t in targets])
            axes.tick_params(length=0, labelsize=6.5, labelcolor=LIGHT["ink"])
    return figure
