# The tables and the picture of Algorithm 2 in Lab A, from kept output. The thesis has no numbers of it: verdicts are yes, no, or open.
from typing import Any

import numpy as np
from bracket_tables import least_nats
from bracket_walks import FEW, SAMPLERS, Size
from brackets import OPENS, RARE
from laboratory import markdown, spread, yes
from matplotlib.figure import Figure

from gmlmdsl.report import _palette as palette

Results = dict[str, Any]
WORDS = {  # of rows
    "exact": "rejection of whole words by the truth: the restricted distribution itself",
    "plain": "nothing verified",
    "Algorithm 1": "Algorithm 1, Q = B = 4, the learnt verifier",
    "Algorithm 1, the truth": "Algorithm 1, the truth",
    "filter, the truth": "rejection of symbols by the truth",
    "symbols by value": "rejection of symbols by the learnt value",
    "first leaf": "Algorithm 2 by the learnt value: first whole word",
    "walk": "Algorithm 2 by the learnt value: node after T steps",
}


def column(results: Results, size: Size, part: str, *keys: str) -> list[float]:
    """One number a seed."""
    found = []
    for k in range(size.lab.seeds):
        value = results[f"{k} {part}"]
        for key in keys:
            value = value[key]
        found.append(value)
    return found


def tables(results: Results, size: Size) -> dict[str, str]:
    made = [model_table, exact_table, verdicts_table, map_table, drawn_table, wrong_table]
    return {f"bracket_walks-{make.__name__.removesuffix('_table')}": make(results, size) for make in made}


def model_table(results: Results, size: Size) -> str:
    s = size.lab
    rows = [
        ["nats a symbol, words that were not learnt from", spread(column(results, size, "model", "nats"), 4)],
        ["the least of any model", f"{least_nats(s.length, RARE, OPENS):.4f}"],
        ["unlikely prompts completed to words, top_p = .9, %", spread(column(results, size, "model", "out"), 3, 100)],
    ]
    return markdown(["", "here"], rows)


def counted(size: Size) -> int:
    """The most symbols left at which calls of walks are summed."""
    return size.left[:2][-1]


def exact_table(results: Results, size: Size) -> str:
    most, few = size.left[-1], counted(size)

    def cells(name: str) -> list[str]:
        tv = [spread(column(results, size, f"exact {left}", name, "tv")) for left in size.left]
        others = (("words", most, 100.0), ("tv of words", most, 1.0), ("calls", few, 1.0), ("checks", few, 1.0))
        return tv + [spread(column(results, size, f"exact {left}", name, key), 3, scale) for key, left, scale in others]

    heads = ["", *(f"TV, {left} symbols left" for left in size.left)]
    heads += [f"words, %, {most} left", f"TV among words, {most} left", f"calls for a string, {few} left", "verified prefixes"]
    return markdown(heads, [[WORDS[name], *cells(name)] for name in SAMPLERS])


def verdicts_table(results: Results, size: Size) -> str:
    """Paired over seeds, at each number of symbols left."""
    said = [
        ("the walk is nearer than its first whole word", "walk", "first leaf", "tv"),
        ("the first whole word is nearer than rejection of symbols by the same value", "first leaf", "symbols by value", "tv"),
        ("the first whole word is nearer than Algorithm 1", "first leaf", "Algorithm 1", "tv"),
        ("Algorithm 1 is nearer than nothing verified", "Algorithm 1", "plain", "tv"),
        ("among words, nothing verified is nearer than Algorithm 1", "plain", "Algorithm 1", "tv of words"),
    ]
    rows = [
        [words, *(yes(column(results, size, f"exact {k}", low, key), column(results, size, f"exact {k}", high, key)) for k in size.left)]
        for words, low, high, key in said
    ]
    return markdown(["", *(f"{left} symbols left" for left in size.left)], rows)


def map_table(results: Results, size: Size) -> str:
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


def drawn_table(results: Results, size: Size) -> str:
    base = column(results, size, "drawn", "plain", "words")
    rows = []
    for name in FEW:
        own = {key: column(results, size, "drawn", name, key) for key in ("words", "calls", "seconds")}
        cells = [spread(own["words"], 3, 100), spread(own["calls"]), spread(own["seconds"], 2, 1000 / size.lab.unseen)]
        rows.append([WORDS[name], *cells, "" if name == "plain" else yes(base, own["words"])])
    return markdown(["", "words, %", "calls of the network a prompt", "seconds for 1,000 prompts", "more words than plain"], rows)


def wrong_table(results: Results, size: Size) -> str:
    places = sorted({int(k) for s in range(size.lab.seeds) for k in results[f"{s} drawn"]["judged wrong"]}, reverse=True)
    found = [[results[f"{s} drawn"]["judged wrong"].get(str(k)) for s in range(size.lab.seeds)] for k in places]
    cells = [spread([v for v in some if v is not None], 3, 100) for some in found]
    return markdown(["symbols left behind the prefix", *places], [["judged wrong, %", *cells]])


def draw(results: Results, size: Size) -> dict[str, Figure]:
    """Distance against calls, a mark for each sampler and seed."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for k, name in enumerate(SAMPLERS):
        x, y = (column(results, size, f"exact {counted(size)}", name, key) for key in ("calls", "tv"))
        axes.scatter(x, np.maximum(y, 1e-4), s=14, color=palette.SERIES[k % len(palette.SERIES)], marker="os^Dv<>P"[k], label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("calls of the network for a string")
    axes.set_ylabel("total variation to the restricted distribution")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return {"distance": figure}
