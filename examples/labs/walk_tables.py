# The tables and the picture of Algorithm 2 in the laboratories of verifiers, from kept output. The thesis has no numbers of it: verdicts
# are yes, no, or open.
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from laboratory import markdown, spread, yes
from matplotlib.figure import Figure
from walks import FEW

from gmlmdsl.report import _palette as palette

Results = Mapping[str, Any]
Words = Mapping[str, str]  # by sampler, the words of its row


def column(results: Results, size: Any, part: str, *keys: str) -> list[float]:
    """One number a seed."""
    found = []
    for k in range(size.lab.seeds):
        value = results[f"{k} {part}"]
        for key in keys:
            value = value[key]
        found.append(value)
    return found


def exact_table(results: Results, size: Any, words: Words, counted: int, word: str) -> str:
    """Distances at each number of symbols left, and calls at one; `word` is what right strings are called."""
    most = size.left[-1]

    def cells(name: str) -> list[str]:
        tv = [spread(column(results, size, f"exact {left}", name, "tv")) for left in size.left]
        others = (("words", most, 100.0), ("tv of words", most, 1.0), ("calls", counted, 1.0), ("checks", counted, 1.0))
        found = ((column(results, size, f"exact {left}", name, key), scale) for key, left, scale in others)
        return tv + ["not computed" if None in values else spread(values, 3, scale) for values, scale in found]

    heads = ["", *(f"TV, {left} symbols left" for left in size.left)]
    heads += [f"{word}s, %, {most} left", f"TV among {word}s, {most} left", f"calls for a string, {counted} left", "verified prefixes"]
    return markdown(heads, [[words[name], *cells(name)] for name in words])


def verdicts_table(results: Results, size: Any, word: str) -> str:
    """Paired over seeds, at each number of symbols left."""
    said = [
        (f"the walk is nearer than its first whole {word}", "walk", "first leaf", "tv"),
        (f"the first whole {word} is nearer than rejection of symbols by the same value", "first leaf", "symbols by value", "tv"),
        (f"the first whole {word} is nearer than Algorithm 1", "first leaf", "Algorithm 1", "tv"),
        ("Algorithm 1 is nearer than nothing verified", "Algorithm 1", "plain", "tv"),
        (f"among {word}s, nothing verified is nearer than Algorithm 1", "plain", "Algorithm 1", "tv of words"),
    ]
    rows = [
        [text, *(yes(column(results, size, f"exact {k}", low, key), column(results, size, f"exact {k}", high, key)) for k in size.left)]
        for text, low, high, key in said
    ]
    return markdown(["", *(f"{left} symbols left" for left in size.left)], rows)


def map_table(results: Results, size: Any) -> str:
    heads = ["symbols left", "mistakes learnt from", "held-out prefixes judged right, %"]
    heads += [f"TV: {name}" for name in FEW] + ["Algorithm 1 nearer than plain", "first leaf nearer than plain"]
    rows = []
    for left in size.left[:2]:
        for count in map(str, size.learnt):
            tv = {name: column(results, size, f"map {left}", count, name, "tv") for name in FEW}
            judged = spread(column(results, size, f"map {left}", count, "judged right"), 3, 100)
            better = [yes(tv[name], tv["plain"]) for name in ("Algorithm 1", "first leaf")]
            rows.append([left, count, judged, *(spread(tv[name]) for name in FEW), *better])
    return markdown(heads, rows)


def drawn_table(results: Results, size: Any, words: Words, prompts: int, word: str) -> str:
    base = column(results, size, "drawn", "plain", "words")
    rows = []
    for name in FEW:
        own = {key: column(results, size, "drawn", name, key) for key in ("words", "calls", "seconds")}
        cells = [spread(own["words"], 3, 100), spread(own["calls"]), spread(own["seconds"], 2, 1000 / prompts)]
        rows.append([words[name], *cells, "" if name == "plain" else yes(base, own["words"])])
    return markdown(["", f"{word}s, %", "calls of the network a prompt", "seconds for 1,000 prompts", f"more {word}s than plain"], rows)


def wrong_table(results: Results, size: Any) -> str:
    places = sorted({int(k) for s in range(size.lab.seeds) for k in results[f"{s} drawn"]["judged wrong"]}, reverse=True)
    found = [[results[f"{s} drawn"]["judged wrong"].get(str(k)) for s in range(size.lab.seeds)] for k in places]
    cells = [spread([v for v in some if v is not None], 3, 100) for some in found]
    return markdown(["symbols left behind the prefix", *places], [["judged wrong, %", *cells]])


def distance_picture(results: Results, size: Any, samplers: Sequence[str], counted: int) -> Figure:
    """Distance against calls, a mark for each sampler and seed."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for k, name in enumerate(samplers):
        x, y = (column(results, size, f"exact {counted}", name, key) for key in ("calls", "tv"))
        seen = {"color": palette.SERIES[k % len(palette.SERIES)], "marker": "os^Dv<>P"[k], "label": name}
        axes.scatter(np.array(x, float), np.maximum(y, 1e-4), s=14, **seen)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("calls of the network for a string")
    axes.set_ylabel("total variation to the restricted distribution")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure


def named(lab: str, made: Mapping[str, Callable[[], str]]) -> dict[str, str]:
    """By place on the page."""
    return {f"{lab}-{name}": make() for name, make in made.items()}
