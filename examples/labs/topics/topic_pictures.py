# The pictures of the topic laboratory: blocks of matrices, norms over steps, landscapes of the loss.
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gmlmdsl.report import _palette as palette

TITLES = {"value": "W_V, uniform attention", "embedding": "W_E' W_E"}


def matrices(shown: Mapping[str, Mapping[tuple[str, str], Any]], v: int) -> Figure:
    """Entries of the words of a few topics: a row for each matrix, a panel for each loss and optimiser."""
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    panels = figure.subplots(len(shown), len(next(iter(shown.values()))), squeeze=False)
    for row, (kind, found) in zip(panels, shown.items(), strict=True):
        for axes, ((loss, name), matrix) in zip(row, found.items(), strict=True):
            entries = np.array(matrix)
            most = float(np.abs(entries - np.diag(np.diag(entries))).max())  # diagonals may stand out of what is shown
            axes.imshow(entries, cmap="RdBu_r", vmin=-most, vmax=most)
            for k in range(v, len(entries), v):
                axes.axhline(k - 0.5, color="grey", linewidth=0.5)
                axes.axvline(k - 0.5, color="grey", linewidth=0.5)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_title(f"{TITLES[kind]}\n{loss.replace('_', '-')}, {name}\nred to {most:.2g}", fontsize=8)
    return figure


def norms(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """The norm of each matrix against steps, over its largest: a panel for each optimiser, a line for each seed."""
    figure = Figure(figsize=(2 + 2 * len(found), 2.9), layout="constrained")
    panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, (name, runs) in zip(panels, found.items(), strict=True):
        for k, part in enumerate(("value", "key", "query")):
            for seed, one in enumerate(runs):
                norm = np.array(one[part])
                label = f"W_{part[0].upper()}" if seed == 0 else None
                axes.plot(one["steps"], norm / norm.max(), color=palette.SERIES[k], linewidth=1, linestyle=("-", "-", "--")[k], label=label)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("steps")
        axes.set_ylim(0, 1.05)
    panels[0].set_ylabel("norm, of its largest")
    panels[-1].legend(frameon=False)
    return figure


def landscapes(grid: np.ndarray, found: Mapping[tuple[bool, int], np.ndarray]) -> Figure:
    """The loss over attention: dark is low; a cross where it is least."""
    taus = sorted({tau for _, tau in found})
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    panels = figure.subplots(2, len(taus), sharex=True, sharey=True)
    for row, diagonal in zip(panels, (True, False), strict=True):
        for axes, tau in zip(row, taus, strict=True):
            loss = found[diagonal, tau]
            axes.pcolormesh(grid, grid, loss, cmap="Greys_r", shading="nearest", rasterized=True)
            a, b = np.unravel_index(loss.argmin(), loss.shape)
            axes.plot(grid[b], grid[a], "x", color="white")
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_title(f"{'diagonal' if diagonal else 'blocks'}, tau = {tau}", fontsize=9)
    for axes in panels[-1]:
        axes.set_xlabel("beta, same word")
    for row in panels:
        row[0].set_ylabel("alpha, same topic")
    return figure
