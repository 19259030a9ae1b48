# The tables and the picture of the characters, from kept output.
from collections.abc import Mapping
from typing import Any

import numpy as np
from characters import CHARS, SHORT, Size
from laboratory import less, markdown, spread
from matplotlib.figure import Figure

from gmlmdsl.report import _palette as palette

Results = Mapping[str, Any]


def tables(results: Results, size: Size) -> dict[str, str]:
    """By place on the page."""
    return {
        "characters-bits": bits_table(results, size),
        "characters-short": short_table(results, size),
        "characters-verdicts": verdict_table(results, size),
    }


def column(results: Results, size: Size, part: str, *keys: Any) -> list[float]:
    """One number a seed."""
    found = []
    for seed in range(size.seeds):
        value = results[f"{part}, {seed}"]
        for key in keys:
            value = value[key]
        found.append(value)
    return found


def bits_table(results: Results, size: Size) -> str:
    causal, masked = results["causal, 0"], results["masked, 0"]
    rows = [
        ["causal", causal["weights"], "-log p, exact", spread(column(results, size, "causal", "bits", 0), 4)],
        ["masked", masked["weights"], "bound of one character a pass", spread(column(results, size, "masked", "bits", 0), 4)],
        [
            "masked",
            masked["weights"],
            "the same characters hidden, without the weight",
            spread(column(results, size, "masked", "plain"), 4),
        ],
    ]
    return markdown(["network", "weights", "measured by", "bits a character"], rows)


def short_table(results: Results, size: Size) -> str:
    """The sum over all short rows of exp(-loss), which is at most 1 of a bound."""
    rows = []
    for name, title in (("bound", "bound of one character a pass"), ("plain", "without the weight")):
        each = [spread(column(results, size, "short", name, key), 4) for key in ("bits", "sum")]
        rows.append([title, *each])
    return markdown(["measured by", "bits a character", f"sum of exp(-loss) over the {len(CHARS) ** SHORT:,} rows"], rows)


def verdict_table(results: Results, size: Size) -> str:
    causal, bound = (column(results, size, part, "bits", 0) for part in ("causal", "masked"))
    plain, ones = column(results, size, "masked", "plain"), [1.0] * size.seeds
    sums = {name: column(results, size, "short", name, "sum") for name in ("bound", "plain")}
    rows = [
        ["the bound of the masked network is above the causal one's bits, as in print", less(causal, bound)],
        ["without the weight the masked network seems to need fewer bits than the causal one", less(plain, causal)],
        ["the bound has a sum of at most 1 over all short rows", less(sums["bound"], ones)],
        ["without the weight the sum is above 1: no bound of any decoder", less(ones, sums["plain"])],
    ]
    return markdown(["claim", "verdict"], rows)


def draw(results: Results, size: Size) -> dict[str, Figure]:
    """Bits a character of each seed."""
    figure = Figure(figsize=(6.4, 2.6), layout="constrained")
    axes = figure.subplots()
    lines = {
        "causal, exact": column(results, size, "causal", "bits", 0),
        "masked, bound": column(results, size, "masked", "bits", 0),
        "masked, without the weight": column(results, size, "masked", "plain"),
    }
    for k, values in enumerate(lines.values()):
        axes.plot(values, np.full(len(values), -k), "osD"[k], color=palette.SERIES[k], markersize=6, alpha=0.7)
    axes.set_yticks([0, -1, -2], list(lines))
    axes.set(xlabel="bits a character of held-out text", ylim=(-2.6, 0.6))
    return {"bits": figure}
