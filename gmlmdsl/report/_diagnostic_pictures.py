"""Diagnostic pictures of fits and chains, as matplotlib figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._palette import LIGHT, SERIES, axes_of, house_style, in_lines, legend_beside, panels_of, plain
from ._picture_arguments import errors_of, numbers, rows_of, verified_axes, verified_count, verified_names, wrong
from .limits import MAX_R_HAT, MIN_ESS_PER_CHAIN, TRACE_STRETCHES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_traces(traces: Mapping[str, np.ndarray], *, ax: Axes | Sequence[Axes] | None = None) -> Figure:
    """Plot traces of chains, with one row of axes per quantity and one line per chain.

    Pale lines are the draws. A long trace is drawn by the smallest and largest value of short
    stretches, so that no spike is lost. Bold lines are the running mean over a twentieth of the
    draws. They show whether chains disagree, even if the draws of several chains overlap.

    Args:
        traces: a dict by name of arrays of shape (chain, draw).
        ax: one axes for each quantity. If None, a new figure is made.

    Raises:
        GmlmError: E507 for `ax` with another number of axes, and unless `traces` is a dict of
            traces.
    """
    if not isinstance(traces, Mapping) or not traces:
        raise wrong("traces must be a dict of arrays by name, and not empty", '`{"m": values}`, values of shape (chain, draw)')
    known = {
        name: rows_of(f"traces[{name!r}]", [v] if isinstance(v, np.ndarray) and v.ndim == 1 else v, "(chain, draw)", empty=False)
        for name, v in traces.items()
    }
    verified_axes(ax, len(traces))
    with house_style():
        grid = panels_of(ax, 0.45 + 1.15 * len(traces), len(traces), 1, sharex=True)
        for axes, (name, chains) in zip(grid, known.items(), strict=True):
            for c, chain in enumerate(chains):
                axes.plot(*_thinned(chain), color=SERIES[c % len(SERIES)], linewidth=0.5, alpha=0.3)
            for c, chain in enumerate(chains):
                axes.plot(*_smoothed(chain), color=SERIES[c % len(SERIES)], linewidth=1.6)
            axes.set_title(plain(name))
            axes.locator_params(axis="y", nbins=4)
            axes.margins(x=0.01)
        grid[-1].set_xlabel("draw; one colour per chain, bold: running mean")
    return grid[0].figure  # pyright: ignore[reportReturnType]


def plot_loss(trace: np.ndarray, *, label: str = "objective", ax: Sequence[Axes] | None = None) -> Figure:
    """Plot the objective of a fit by iteration, and its distance from the minimum on a log scale.

    Args:
        trace: shape (iteration,).
        label: the name of the objective.
        ax: two axes, for the objective and for its distance from the minimum. If None, a new figure
            is made.

    Raises:
        GmlmError: E507 for `ax` that is not two axes, and unless `trace` is a trace.
    """
    verified_axes(ax, 2)
    loss = rows_of("trace", trace, "(iteration,)")
    steps = np.arange(len(loss))
    above = loss - np.nanmin(loss) if np.isfinite(loss).any() else loss
    with house_style():
        left, right = panels_of(ax, 2.1, 1, 2)
        left.plot(steps, loss, color=SERIES[0], marker="o" if len(loss) <= 30 else None, markersize=2.5)
        left.set_title(plain(label))
        right.plot(steps[above > 0], above[above > 0], color=SERIES[0], marker="o" if len(loss) <= 30 else None, markersize=2.5)
        right.set_yscale("log")
        right.set_title("distance to the smallest")
        for axes in (left, right):
            axes.set_xlabel("iteration")
            axes.locator_params(axis="x", nbins=5, integer=True)
    return left.figure  # pyright: ignore[reportReturnType]


def plot_ess_r_hat(ess: np.ndarray, r_hat: np.ndarray, *, chains: int, ax: Axes | None = None) -> Figure:
    """Plot every cell by its worst category: ESS on the x axis and R-hat on the y axis.

    Lines mark the limits below or above which a value is a cause for concern.

    Args:
        ess: shape (cell,), the smallest ESS over the categories.
        r_hat: shape (cell,), the largest R-hat over the categories. Cells with a value that is not
            finite are only counted.
        chains: the number of chains; the limit of ESS is 100 per chain.
        ax: the axes. If None, a new figure is made.

    Raises:
        GmlmError: E507 for arguments that do not fit.
    """
    verified_axes(ax)
    size, chains = rows_of("ess", ess, "(cell,)"), verified_count("chains", chains)
    ratio = numbers("r_hat", r_hat, size.shape)
    shown = np.isfinite(size) & np.isfinite(ratio)
    fine = shown & (size >= MIN_ESS_PER_CHAIN * chains) & (ratio <= MAX_R_HAT)
    with house_style():
        axes = axes_of(ax, 2.7)
        axes.axvline(MIN_ESS_PER_CHAIN * chains, color=LIGHT["muted"], linewidth=0.9, linestyle="--")
        axes.axhline(MAX_R_HAT, color=LIGHT["muted"], linewidth=0.9, linestyle="--")
        axes.scatter(size[fine], ratio[fine], s=18, color=SERIES[0], linewidths=0, alpha=0.75, label=f"fine ({int(fine.sum())})")
        bad = shown & ~fine
        if bad.any():
            axes.scatter(
                size[bad], ratio[bad], s=24, color=SERIES[1], marker="x", linewidths=1.3, label=f"beyond a limit ({int(bad.sum())})"
            )
        left_out = int((~shown).sum())
        note = f" ({left_out} cells, stuck or clamped, not shown)" if left_out else ""
        axes.set_xlabel("effective sample size of the worst category" + note)
        axes.set_ylabel("R-hat")
        axes.set_xlim(left=0)
        legend_beside(axes, ax, 2)
    return axes.figure  # pyright: ignore[reportReturnType]


def plot_categories(
    names: Sequence[str],
    frequencies: np.ndarray,
    *,
    standard_errors: np.ndarray | None = None,
    exact: np.ndarray | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Plot frequencies of categories as bars, with Monte Carlo errors and exact probabilities.

    Args:
        names: the names of the categories.
        frequencies: shape (category,), the shares of the draws.
        standard_errors: shape (category,), the Monte Carlo standard errors, drawn as bars of two
            standard errors. If None, no errors are drawn.
        exact: shape (category,), the exact probabilities, drawn as ticks across the bars. If None,
            none are drawn.
        ax: the axes. If None, a new figure is made.

    Raises:
        GmlmError: E507 for arguments that do not fit.
    """
    verified_axes(ax)
    names = verified_names("names", names)
    y = np.arange(len(names))
    frequencies = numbers("frequencies", frequencies, y.shape)
    standard_errors = None if standard_errors is None else errors_of("standard_errors", standard_errors, y.shape)
    exact = None if exact is None else numbers("exact", exact, y.shape)
    with house_style():
        axes = axes_of(ax, 0.8 + 0.26 * len(names))
        axes.barh(y, frequencies, height=0.62, color=SERIES[0], alpha=0.55, label="draws")
        if standard_errors is not None:
            axes.errorbar(frequencies, y, xerr=2 * standard_errors, fmt="none", color=LIGHT["ink"], elinewidth=1.1, capsize=2)
        if exact is not None:
            axes.vlines(exact, y - 0.42, y + 0.42, color=SERIES[1], linewidth=2.2, label="exact")
            legend_beside(axes, ax, 2)
        axes.set_yticks(y, [in_lines(plain(n)) for n in names])
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.set_xlim(left=0)
        axes.set_xlabel("probability" + (" (bars: two standard errors)" if standard_errors is not None else ""))
    return axes.figure  # pyright: ignore[reportReturnType]


def _thinned(chain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the draws to plot with their values.

    These are all draws of a short chain, and two per stretch of a long chain.
    """
    if len(chain) <= 2 * TRACE_STRETCHES:
        return np.arange(len(chain)), chain
    stretches = np.array_split(np.arange(len(chain)), TRACE_STRETCHES)
    kept = np.array([sorted((s[np.argmin(chain[s])], s[np.argmax(chain[s])])) for s in stretches]).ravel()
    return kept, chain[kept]


def _smoothed(chain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the middle draw and the mean of windows of a twentieth of the draws.

    There are at most `TRACE_STRETCHES` windows.
    """
    window = max(1, len(chain) // 20)
    sums = np.cumsum(np.concatenate([[0.0], chain]))
    last = len(chain) - window
    starts = np.unique(np.linspace(0, last, min(TRACE_STRETCHES, last + 1)).astype(int))
    return starts + (window - 1) / 2, (sums[starts + window] - sums[starts]) / window
