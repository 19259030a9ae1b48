# The tables and pictures of the Sudokus, from kept output.
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from laboratory import less, markdown, spread
from matplotlib.figure import Figure
from sudokus import FROM_NOTHING, NAMES, Size, passes, small_passes

from gmlmdsl.report import _palette as palette

Results = Mapping[str, Any]
NORMAL = 1.96  # half the width of an interval at 95 %, in standard errors
ALL = {6: 28_200_960, 9: 6_670_903_752_021_072_936_960}  # grids of each side; of 9 x 9 by Felgenhauer and Jarvis 2005


def tables(results: Results, size: Size) -> dict[str, str]:
    """By place on the page."""
    return {
        "sudokus-nothing": nothing_table(results),
        "sudokus-small": small_table(results, size),
        "sudokus-networks": network_table(results, size),
        "sudokus-solved": solved_table(results, size),
        "sudokus-verdicts": verdict_table(results, size),
    }


def share(value: Sequence[float]) -> str:
    """In %, with half the width of its interval where it is estimated."""
    plain = f"{100 * value[0]:.3g}"
    return f"{plain} ± {100 * NORMAL * value[1]:.2g}" if value[1] > 1e-6 else plain


def nothing_table(results: Results) -> str:
    """Whole small grids that obey the rules, drawn from nothing."""
    found = results["small grids, from nothing"]
    rows = [[t, *(share(found[str(t)][name]) for name in NAMES)] for t in FROM_NOTHING]
    return markdown(["passes", *(f"{name}, %" for name in NAMES)], rows)


def small_table(results: Results, size: Size) -> str:
    found = results["small puzzles"]
    rows = [[t, *(share(found[str(t)][name]) for name in NAMES)] for t in small_passes(size)]
    return markdown(["passes", *(f"{name}, %" for name in NAMES)], rows)


def column(results: Results, size: Size, *keys: str) -> list[float]:
    """One number a seed."""
    found = []
    for seed in range(size.seeds):
        value = results[f"network, {seed}"]
        for key in keys:
            value = value[key]
        found.append(value)
    return found


def network_table(results: Results, size: Size) -> str:
    """What the networks learnt from, and their bound on new grids."""
    counts, own = results["grids"], results["network, 0"]
    rows = [
        ["networks", size.seeds],
        ["weights of each", own["weights"]],
        ["grids to learn from, different ones", f"{counts['grids']}, {counts['different']}"],
        ["bound of new grids, nats", spread(column(results, size, "nats"), 4)],
    ]
    if size.side in ALL:
        rows.append([f"logarithm of the number of all grids, {ALL[size.side]:,}", f"{np.log(float(ALL[size.side])):.4g}"])
    return markdown(["quantity", "value"], rows)


def solved_table(results: Results, size: Size) -> str:
    """Decodes that solve their puzzle, by passes."""
    rows = [[t, *(spread(column(results, size, str(t), name), 3, 100) for name in NAMES)] for t in passes(size)]
    return markdown(["passes", *(f"{name}, %" for name in NAMES)], rows)


def verdict_table(results: Results, size: Size) -> str:
    """The order that is published, at each number of passes."""
    rows = []
    for t in passes(size):
        own = {name: column(results, size, str(t), name) for name in NAMES}
        ratio = np.mean(own["margin"]) / max(np.mean(own["random"]), 1e-9)
        order = [less(own["random"], own["margin"]), less(own["random"], own["probability"]), less(own["probability"], own["margin"])]
        rows.append([t, *order, f"{ratio:.2f}" if np.mean(own["random"]) > 0 else "—"])
    last = ["in print, 9 x 9", "yes", "", "", "13 or more"]  # above 90 / 7: abstract of Kim et al. 2025
    heads = ["passes", "margin above random", "probability above random", "margin above probability", "margin / random"]
    return markdown(heads, [*rows, last])


def draw(results: Results, size: Size) -> dict[str, Figure]:
    """Solved puzzles against passes: the exact denoiser and the networks."""
    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    exact, learnt = figure.subplots(1, 2, sharey=True)
    small = results["small puzzles"]
    for k, name in enumerate(NAMES):
        style = {"marker": "osD"[k], "color": palette.SERIES[k], "label": name, "markersize": 5, "capsize": 3}
        values = [small[str(t)][name] for t in small_passes(size)]
        exact.errorbar(small_passes(size), [100 * v[0] for v in values], [100 * NORMAL * v[1] for v in values], **style)
        each = [100 * np.array(column(results, size, str(t), name)) for t in passes(size)]
        learnt.errorbar(passes(size), [v.mean() for v in each], [v.std() for v in each], **style)
    exact.set(ylabel="solved, %", title="4 x 4, exact denoiser (95 % interval)")
    learnt.set(title=f"{size.side} x {size.side}, networks (sd of seeds)")
    for axes, places in ((exact, small_passes(size)), (learnt, passes(size))):
        axes.set(xscale="log", xlabel="passes", ylim=(-2, 102))
        axes.set_xticks(places, [str(t) for t in places])
        axes.minorticks_off()
    exact.legend(frameon=False)
    return {"solved": figure}
