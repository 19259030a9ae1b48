# The tables and pictures of Lab A, from kept output, beside the figures of Li 2025, Section 3.2.
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
from brackets import DEPTHS, FORCED, KINDS, OPENS, QUOTAS, RARE, REACHES, STRIDES, THRESHOLDS, TIMES, Size
from laboratory import AGREE, DISAGREE, UNTESTED, less, markdown, ordered, spread, together
from matplotlib.figure import Figure

from gmlmdsl.report import _palette as palette

Results = dict[str, Any]
WORDS = {"erase": "yes", "back": "no"}  # whether symbols of the prompt may be taken back
FORCED_BEFORE = {"nucleus": 0.331, "greedy": 0.334, "1": 0.366, "2": 0.438, "4": 0.591, "8": 0.790}
VERIFIED_BEFORE = {1: (0.421, 0.500, 0.604), 2: (0.457, 0.634, 0.762), 4: (0.518, 0.762, 0.921)}
TAKEN_BEFORE = {1: (163, 163, 163), 2: (311, 297, 286), 4: (600, 532, 489)}
NEEDED_BEFORE = {
    1: ((0.313, 0.344), (0.337, 0.319), (0.331, 0.288)),
    2: ((0.347, 0.328), (0.357, 0.349), (0.374, 0.373)),
    4: ((0.371, 0.353), (0.419, 0.404), (0.509, 0.523)),
}
UNSEEN_BEFORE = {"nucleus 0.9": 240.0, "erase 0.9": 179.4, "nucleus 1.0": 461.8, "erase 1.0": 200.0}
BARE_BEFORE = {"erase 0.9": 179.4, "erase_bare 0.9": 245.8}
WITHIN = " (in print within the s.e.)"  # of differences
DIVERSE_BEFORE = {"erase 1.0": 5.52, "nucleus 0.9": 5.47, "nucleus 1.0": 5.84}


def column(results: Results, size: Size, part: str, *keys: str) -> list[float]:
    """One number a seed."""
    found = []
    for k in range(size.seeds):
        value = results[f"{k} {part}"]
        for key in keys:
            value = value[key]
        found.append(value)
    return found


def tables(results: Results, size: Size) -> dict[str, str]:
    """By place on the page."""
    made = {
        "model": model_table,
        "forced": forced_table,
        "verified": verified_table,
        "unseen": unseen_table,
        "needed": needed_table,
        "diverse": diverse_table,
        "bare": bare_table,
        "kinds": kinds_table,
        "mistakes": mistakes_table,
        "ablations": ablation_table,
    }
    return {f"brackets-{name}": make(results, size) for name, make in made.items()}


def least_nats(length: int, p: float, q: float) -> float:
    """The entropy of words of so many brackets (Definition 3.2.1), by symbol: the least -log p of any model."""

    def coin(a: float) -> float:
        return float(-a * np.log(a) - (1 - a) * np.log(1 - a))

    place, total = np.arange(length + 2), 0.0
    depth = (place == 0).astype(float)
    for left in range(length, 0, -1):
        opening = np.select([place == 0, place < left], [1.0, q], 0.0)
        total += depth[(place > 0) & (place < left)].sum() * coin(q) + (depth @ opening) * coin(p)
        up, down = depth * opening, depth * (1 - opening)
        depth = np.append(0, up[:-1]) + np.append(down[1:], 0)
    return total / length


def model_table(results: Results, size: Size) -> str:
    def of(key: str, scale: float = 1) -> str:
        return spread(column(results, size, "model", key), 4, scale)

    rows = [
        [
            "nats a symbol, words that were not learnt from",
            of("nats"),
            "",
            f"least of any model: {least_nats(size.length, RARE, OPENS):.5f}",
        ],
        ["words among its own, top_p = .9, %", of("in distribution", 100), "100", ""],
        ["unlikely prompts completed to words, top_p = .9, %", of("out", 100), "94.23", ""],
        ["held-out prefixes that the verifier judges right, %", of("probe", 100), "93 ± 3.9 (s.e.)", ""],
    ]
    return markdown(["", "here", "thesis", ""], rows)


def forced_table(results: Results, size: Size) -> str:
    columns = {name: column(results, size, "forced", name) for name in FORCED_BEFORE}
    names = {"nucleus": "nothing taken back, top_p = .9", "greedy": "nothing taken back, argmax"}
    rows = [[names.get(n, f"B = {n}, then top_p = .9"), spread(c), f"{FORCED_BEFORE[n]:.3f}"] for n, c in columns.items()]
    verdict = ordered(columns["nucleus"], *(columns[str(b)] for b in FORCED))
    return markdown(["", "here", "thesis"], [*rows, ["order of top_p = .9 and B = 1, 2, 4, 8", verdict, ""]])


def grid(size: Size) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return QUOTAS[: size.grid], STRIDES[: size.grid]


def accuracies(results: Results, size: Size, reach: str) -> dict[tuple[int, int], list[float]]:
    quotas, strides = grid(size)
    return {(q, b): column(results, size, f"{reach} {b}", "accuracy", str(q)) for q in (0, *quotas) for b in strides}


def verified_table(results: Results, size: Size) -> str:
    (quotas, strides), found = grid(size), {r: accuracies(results, size, r) for r in REACHES}
    rows = [[0, "", *(spread(found[r][0, strides[0]]) for r in REACHES), "0.331"]]
    rows += [
        [q, b, *(spread(found[r][q, b]) for r in REACHES), f"{VERIFIED_BEFORE[q][k]:.3f}"] for q in quotas for k, b in enumerate(strides)
    ]
    for words, pairs in (
        ("more than without, each", [((0, strides[0]), (q, b)) for q in quotas for b in strides]),
        ("rises with B, at each Q", [((q, a), (q, b)) for q in quotas for a, b in pairwise(strides)]),
        ("rises with Q, at each B", [((p, b), (q, b)) for p, q in pairwise(quotas) for b in strides]),
    ):
        rows.append([words, "", *(together([less(found[r][a], found[r][b]) for a, b in pairs]) for r in REACHES), ""])
    return markdown(["Q", "B", "reaches into the prompt", "does not", "thesis"], rows)


def needed_table(results: Results, size: Size) -> str:
    quotas, strides = grid(size)
    rows, verdicts = [], []
    taken = {(r, q, b): column(results, size, f"{r} {b}", "needed", str(q), "backtracks") for r in REACHES for q in quotas for b in strides}
    for q in quotas:
        for k, b in enumerate(strides):
            row: list[object] = [q, b]
            for reach in REACHES:
                own = [results[f"{s} {reach} {b}"]["needed"][str(q)] for s in range(size.seeds)]
                counted = [o for o in own if o["backtracks"]]
                row += [spread(taken[reach, q, b])]
                row += [spread([o[n] for o in counted]) if counted else "" for n in ("nucleus", "greedy")]
                if reach == "erase":
                    row += [spread([o["with it"] for o in counted]) if counted else ""]
                    after = [results[f"{s} {reach} {b}"]["accuracy"][str(q)] for s in range(size.seeds)]
                    whole = len(counted) == len(own)
                    verdicts += [less([o[n] for o in own], after) if whole else UNTESTED for n in ("nucleus", "greedy")]
            rows.append([*row, TAKEN_BEFORE[q][k], *(f"{v:.3f}" for v in NEEDED_BEFORE[q][k])])
    rows.append(["below Table 3.2", "", together(verdicts), *[""] * 9])
    for words, pairs in (
        ("taken back: more with Q, at each B", [((p, b), (q, b)) for p, q in pairwise(quotas) for b in strides]),
        ("taken back: less with B, at Q = 2 and 4", [((q, b), (q, a)) for q in quotas[1:] for a, b in pairwise(strides)]),
    ):
        said = [together([less(taken[r, *low], taken[r, *high]) for low, high in pairs]) for r in REACHES]
        rows.append([words, "", said[0], *[""] * 3, said[1], *[""] * 5])
    own = ["taken back", "top_p = .9", "argmax"]
    heads = ["Q", "B", *own, "with the refused symbol", f"not into the prompt: {own[0]}", *own[1:], f"thesis: {own[0]}", *own[1:]]
    return markdown(heads, rows)


def unseen_table(results: Results, size: Size) -> str:
    scale = 100 / size.unseen

    def of(name: str) -> list[float]:
        return column(results, size, "unseen", name)

    rows, verdicts = [], {r: [] for r in REACHES}
    for p in ("0.9", "1.0"):
        base, old = of(f"nucleus {p}"), UNSEEN_BEFORE
        rows.append([p, "no", spread(base, 4, scale), spread(base, 4, scale), f"{old[f'nucleus {p}'] / 100:.2f}", ""])
        calls = spread(of(f"erase {p} calls"), 3)
        rows.append([p, "Q = B = 4", *(spread(of(f"{r} {p}"), 4, scale) for r in REACHES), f"{old[f'erase {p}'] / 100:.2f}", calls])
        for r in REACHES:
            verdicts[r].append(less(of(f"{r} {p}"), base))
    rows.append(["fewer with it, at both", "", *(together(verdicts[r]) for r in REACHES), "", ""])
    return markdown(["top_p", "Algorithm 1", "reaches into the prompt", "does not", "thesis", "calls of the model a prompt"], rows)


def bare_table(results: Results, size: Size) -> str:
    scale = 100 / size.unseen
    columns = {f"{r}{b} 0.9": column(results, size, "unseen", f"{r}{b} 0.9") for r in REACHES for b in ("", "_bare")}
    rows = [
        [words, *(spread(columns[f"{r}{b} 0.9"], 4, scale) for r in REACHES), f"{BARE_BEFORE[f'erase{b} 0.9'] / 100:.2f}"]
        for words, b in (("regenerated by argmax", ""), ("left out", "_bare"))
    ]
    verdicts = [less(columns[f"{r} 0.9"], columns[f"{r}_bare 0.9"]) for r in REACHES]
    return markdown(["what is taken back is", "reaches into the prompt", "does not", "thesis"], [*rows, ["fewer by argmax", *verdicts, ""]])


def diverse_table(results: Results, size: Size) -> str:
    columns = {n: column(results, size, "diverse", n) for n in ("nucleus 0.9", "erase 1.0", "back 1.0", "nucleus 1.0")}
    words = {"nucleus": "no", "erase": "Q = B = 4, reaches into the prompt", "back": "Q = B = 4, does not"}
    rows = [[n.split()[1], words[n.split()[0]], spread(c), DIVERSE_BEFORE.get(n, "")] for n, c in columns.items()]
    for said, low, high in (
        ("at 1.0, fewer by Algorithm 1 than plain", "{} 1.0", "nucleus 1.0"),
        ("fewer plain at .9 than by Algorithm 1 at 1.0", "nucleus 0.9", "{} 1.0"),
    ):
        verdicts = [less(columns[low.format(r)], columns[high.format(r)]) for r in REACHES]
        rows.append([said, "", f"reaches: {verdicts[0]}; does not: {verdicts[1]}", "within the s.e."])
    return markdown(["top_p", "Algorithm 1", f"different strings of {TIMES}", "thesis (s.e. 3)"], rows)


def kinds_table(results: Results, size: Size) -> str:
    found = [results[f"{k} unseen"]["mistakes"] for k in range(size.seeds)]
    counts = sum((Counter(f["kinds"]) for f in found), Counter())
    total = sum(f["count"] for f in found)
    rows = [[kind, counts[kind], {KINDS[0]: "222 of 225"}.get(kind, ""), ""] for kind in KINDS]
    rows += [["ends too soon", "cannot: words have one length", "3 of 225", ""], ["all", total, "225", ""]]
    shares = [f["used up"] / f["count"] for f in found if f["count"]]
    verdict = AGREE if all(a == 1 for a in shares) else DISAGREE if less(shares, [1.0] * len(shares)) == AGREE else UNTESTED
    rows.append(["with the quota used up", sum(f["used up"] for f in found), "225 of 225", f"all of them: {verdict}"])
    return markdown(["the wrong symbol", "here, all seeds", "thesis", ""], rows)


def mistakes_table(results: Results, size: Size) -> str:
    heads = ["wrong symbol", "prefix", "symbol", "probability", "likeliest", "probability", "quota left"]
    rows = [[a, f"`{b}`", f"`{c}`", f"{d:.3f}", f"`{e}`", f"{f:.3f}", g] for a, b, c, d, e, f, g in results["0 unseen"]["mistakes"]["rows"]]
    return markdown(heads, rows)


def ablation_table(results: Results, size: Size) -> str:
    def of(name: str) -> list[float]:
        return column(results, size, "ablations", name)

    probe, coin, none = of("probe"), of("coin"), of("none")
    rows = [["none", "", spread(none), f"less than the probe: {less(none, probe)}"]]
    rows.append(["a coin", "", spread(coin), f"less than the probe: {less(coin, probe)}; more than none: {less(none, coin)}{WITHIN}"])
    rows.append(["the probe of the last layer, threshold .5", spread(of("probe alone"), 3, 100), spread(probe), ""])
    for t in THRESHOLDS:
        verdict = f"more than with .5: {less(probe, of(f'threshold {t}'))}" if t == THRESHOLDS[0] else "not in print"
        rows.append([f"threshold {t}", "", spread(of(f"threshold {t}")), verdict])
    first = f"more than of the last: {less(probe, of('layer 1'))}{WITHIN}"
    rows.append(["of the first layer", spread(of("layer 1 alone"), 3, 100), spread(of("layer 1")), first])
    for d in DEPTHS:
        verdict = f"less than the probe: {less(of(f'depth {d}'), probe)}{WITHIN}"
        rows.append([f"a perceptron of {d} layers", spread(of(f"depth {d} alone"), 3, 100), spread(of(f"depth {d}")), verdict])
    rows.append(["the truth", "100", spread(of("truth")), f"more than the probe: {less(probe, of('truth'))}{WITHIN}"])
    return markdown(["verifier", "held-out prefixes judged right, %", "completed to words", ""], rows)


def draw(results: Results, size: Size) -> dict[str, Figure]:
    """By name."""
    return {"representations": representations(results["picture"]), "strides": strides_picture(results, size)}


def representations(part: dict[str, Any]) -> Figure:
    """Figure 3.1."""
    x, labels = np.array(part["places"]), np.array(part["labels"], bool)
    figure = Figure(figsize=(5.2, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for own, name, colour in (
        (labels, "right prefixes", palette.LIGHT["muted"]),
        (~labels, "prefixes that end with a wrong symbol", palette.SERIES[1]),
    ):
        axes.scatter(*x[own].T, s=9, color=colour, label=name, linewidths=0, alpha=0.8)
    axes.set_xlabel(f"first principal component, {part['shares'][0]:.0%} of the variance")
    axes.set_ylabel(f"second, {part['shares'][1]:.0%}")
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    return figure


def strides_picture(results: Results, size: Size) -> Figure:
    """Tables 3.1 and 3.2 side by side: accuracy against the stride, here and in the thesis."""
    quotas, strides = grid(size)
    figure = Figure(figsize=(8.2, 3.6), layout="constrained")
    forced, verified = figure.subplots(1, 2, sharey=True)
    places = [0, *FORCED]
    mine = [column(results, size, "forced", "nucleus" if b == 0 else str(b)) for b in places]
    before = [FORCED_BEFORE["nucleus" if b == 0 else str(b)] for b in places]
    line(forced, places, mine, 0, "here")
    forced.plot(places, before, "o--", color=palette.SERIES[0], mfc="white", label="thesis")
    forced.set_title("B symbols of the prefix regenerated once", fontsize=10)
    for k, q in enumerate(quotas):
        mine = [accuracies(results, size, "erase")[q, b] for b in strides]
        beside = [b + 0.15 * (k - 1) for b in strides]  # ranges would lie on top of each other
        line(verified, beside, mine, k, f"Q = {q}")
        verified.plot(beside, VERIFIED_BEFORE[q][: len(strides)], "o--", color=palette.SERIES[k], mfc="white")
    verified.set_title("where the verifier refuses (dashed: thesis)", fontsize=10)
    for axes, ticks in ((forced, places), (verified, strides)):
        axes.set_xticks(ticks)
        axes.set_xlabel("stride B")
        axes.set_ylim(0, 1)
        axes.legend(frameon=False, fontsize=8, loc="lower right")  # below the data
    forced.set_ylabel("completed to words")
    return figure


def line(axes: Any, places: Any, columns: list[list[float]], colour: int, label: str) -> None:
    """Means over seeds, and the range of the seeds."""
    values = np.array(columns)
    axes.plot(places, values.mean(axis=1), "o-", color=palette.SERIES[colour], label=label)
    axes.vlines(places, values.min(axis=1), values.max(axis=1), color=palette.SERIES[colour], linewidth=1)
