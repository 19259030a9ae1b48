# The tables and the picture of Lab E, from kept output, beside the figures of Li 2025, Section 3.2.2.
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import numpy as np
from laboratory import less, markdown, spread, together
from matplotlib.figure import Figure
from testcase_task import KINDS
from testcases import BEST, CANDIDATES, DEPTHS, QUOTAS, SETTINGS, TEMPERATURES, THRESHOLDS, TOP_P, Size, key

from gmlmdsl.report import _palette as palette

Results = dict[str, Any]
Values = list[float]
NUCLEUS = 0.66  # the thesis's accuracy at top_p = .95 and temperature 1, nothing verified
GRID_BEFORE = {  # by top_p, the temperatures .6, .8, 1, 1.2
    0.7: (0.101, 0.239, 0.353, 0.531),
    0.8: (0.212, 0.351, 0.511, 0.627),
    0.9: (0.284, 0.466, 0.634, 0.630),
    0.95: (0.337, 0.523, 0.660, 0.584),
    1.0: (0.399, 0.562, 0.504, 0.269),
}
GREEDY_BEFORE = 0.013
BACK_BEFORE = (0.714, 0.676, 0.639, 0.604, 0.440, 0.334, 0.622, 0.604, 0.622, 0.692)  # of SETTINGS
CALLS_BEFORE = (39443, 38555, 31274, 31091, 24916, 24217, 32923, 27287, None, None)
BARE_BEFORE = {0.1: 0.711, 0.5: 0.663}
BLOCKS_BEFORE = {2: (0.684, 39364), 4: (0.623, 65496), 8: (0.559, 122933)}
DEPTHS_BEFORE = {2: 0.687, 4: 0.699}
TRUTH_BEFORE = {4: 0.719, 10: 0.717}
COIN_BEFORE = 0.663
LAYERS_BEFORE = {"lowest": 0.700, "best": 0.714, "last": 0.688}  # layers 3, 27 and 31 of 32
WITHIN = " (in print within the s.e.)"  # of differences
SHIFTED_BEFORE = {"none": 0.606, "0.1": 0.710, "0.5": 0.687}
MAIN = SETTINGS[0]  # quota 4, stride 4, threshold .1 at the best top_p and temperature


class Lacking(Exception):
    """No result of a part."""


class Numbers:
    """Of results, one number a seed; accuracies are shares of the cases that were asked for."""

    def __init__(self, results: Results, size: Size):
        self.results, self.size = results, size
        self.asked = 10 * size.times * size.cases

    def of(self, part: str, *keys: str) -> Values:
        found = []
        for k in range(self.size.seeds):
            if (name := f"{k} {part}") not in self.results:
                raise Lacking(name)
            value = self.results[name]
            for own in keys:
                value = value[own]
            found.append(value)
        return found

    def has(self, part: str) -> bool:
        return all(f"{k} {part}" in self.results for k in range(self.size.seeds))

    @property
    def candidates(self) -> tuple[int, ...]:
        """The n of blocks that there are results of."""
        return CANDIDATES[: self.size.grid] if self.has("candidates") else ()

    def share(self, part: str, name: str) -> Values:
        return [v / self.asked for v in self.of(part, name, "right")]

    def calls(self, part: str, name: str) -> Values:
        return [v / (10 * self.size.times) for v in self.of(part, name, "calls")]

    def plain(self, top_p: float, temperature: float) -> Values:
        return self.share(f"plain {top_p}", key(temperature))

    def back(self, setting: Any) -> Values:
        return self.share("backtracking", key(*setting))

    def tuned(self, top_p: float, temperature: float) -> Values:
        """Algorithm 1 elsewhere in the grid."""
        return self.share("tuned", key(top_p, temperature))

    @property
    def cells(self) -> list[tuple[float, float]]:
        """The grid of top_p and temperatures."""
        return list(product(TOP_P[-self.size.grid :], TEMPERATURES[-self.size.grid :]))

    @property
    def main(self) -> Values:
        return self.back(MAIN)

    @property
    def nucleus(self) -> Values:
        return self.plain(*self.size.best)

    @property
    def settings(self) -> tuple[Any, ...]:
        return SETTINGS[: 2 * self.size.grid]


def tables(results: Results, size: Size) -> dict[str, str]:
    """By place on the page."""
    numbers = Numbers(results, size)
    made = {
        "model": model_table,
        "text": text_table,
        "main": main_table,
        "layers": layers_table,
        "thresholds": thresholds_table,
        "depths": depths_table,
        "truth": truth_table,
        "grid": grid_table,
        "calls": calls_table,
        "shifted": shifted_table,
        "bare": bare_table,
    }
    return {f"testcases-{name}": _made(make, numbers) for name, make in made.items()}


def _made(make: Callable[[Numbers], str], numbers: Numbers) -> str:
    """A table, of kept output that lacks parts too."""
    try:
        return make(numbers)
    except Lacking as lacking:
        return f"Not measured: the kept output lacks `{lacking}`. The command above goes on with it."


def model_table(n: Numbers) -> str:
    kinds = {kind: sum(k.get(kind, 0) for k in n.of("model", "kinds")) for kind in KINDS}
    rows = [
        ["nats a string, text that was not learnt from", spread(n.of("model", "nats"), 4)],
        ["answers without a mistake, names that were learnt, %", spread(n.of("model", "learnt"), 3, 100)],
        ["the same, the ten names that were not, %", spread(n.of("model", "tested"), 3, 100)],
        ["right cases among those asked for, the ten names, %", spread(n.of("model", "cases"), 3, 100)],
        ["distinct cases among those of the corpus itself, as many, %", spread(n.of("model", "corpus"), 3, 100 / n.asked)],
        ["held-out prefixes that the verifier judges right, % (thesis: 96)", spread(n.of("model", "probe"), 3, 100)],
        *([f"first mistakes: {kind}", count] for kind, count in kinds.items() if count),
    ]
    return markdown(["", "here"], rows)


def text_table(n: Numbers) -> str:
    n.of("model", "texts")
    return "\n\n".join(f"```text\n{text}\n```" for text in n.results["0 model"]["texts"])


def settings_words(setting: Any) -> list[object]:
    return [*setting[:2], setting[2], *setting[3:]]


def main_table(n: Numbers) -> str:
    """Table 3.6, group by group."""
    before, rows = dict(zip(SETTINGS, BACK_BEFORE, strict=True)), []
    plain = {(p, t): GRID_BEFORE[p][TEMPERATURES.index(t)] for p in TOP_P for t in TEMPERATURES}
    for group in dict.fromkeys(s[3:] for s in n.settings):
        own = [s for s in n.settings if s[3:] == group and s[2] == THRESHOLDS[0] and s[0] == 4 and (s[1] == 4 or group != BEST)]
        for s in own:
            short = (s[0], 4, *s[2:])
            verdict = "" if s == short else f"less than B = 4: {less(n.back(s), n.back(short))}{WITHIN}"
            rows.append([s[0], s[1], *group, "", spread(n.back(s)), f"{before[s]:.3f}", verdict])
        if group[0] not in TOP_P[-n.size.grid :] or group[1] not in TEMPERATURES[-n.size.grid :]:
            continue
        base = n.plain(*group)
        verdict = together([less(base, n.back(s)) for s in own])
        rows.append([0, "", *group, "", spread(base), f"{plain[group]:.3f}", f"less than Algorithm 1: {verdict}"])
    for k in n.candidates:
        found, old = n.share("candidates", key("blocks", k)), BLOCKS_BEFORE[k][0]
        verdict = f"less than Algorithm 1: {less(found, n.main)}; "
        verdict += f"more than none: {less(n.nucleus, found)}{WITHIN}" if old > NUCLEUS else f"less than none: {less(found, n.nucleus)}"
        rows.append([0, "", *BEST, k, spread(found), f"{old:.3f}", verdict])
    greedy = n.share("backtracking", "greedy")
    verdict = less(greedy, n.nucleus)
    rows.append([0, "", "argmax", "", "", spread(greedy), f"{GREEDY_BEFORE:.3f}", f"less than drawn: {verdict}"])
    rows += tuned_rows(n) if n.has("tuned") else []
    return markdown(["Q", "B", "top_p", "temperature", "n of blocks", "distinct right", "thesis", ""], rows)


def tuned_rows(n: Numbers) -> list[list[object]]:
    """What verifies nothing, and Algorithm 1, each where its mean is largest in the grid; in print that is the same place for both."""
    plain = max(n.cells, key=lambda cell: np.mean(n.plain(*cell)))
    own = max(n.cells, key=lambda cell: np.mean(n.tuned(*cell)))
    base = n.plain(*plain)
    found: list[list[object]] = [
        [
            0,
            "",
            *plain,
            "",
            spread(base),
            f"{NUCLEUS:.3f}",
            f"at its best of the grid, less than Algorithm 1 at {BEST[0]} and {BEST[1]}: {less(base, n.main)}",
        ]
    ]
    for cell in dict.fromkeys((plain, own)):
        words = "Algorithm 1, at its best of the grid" if cell == own else "Algorithm 1 there"
        verdict = f"{words}, more than plain at its best: {less(base, n.tuned(*cell))}"
        found.append([*MAIN[:2], *cell, "", spread(n.tuned(*cell)), f"{BACK_BEFORE[0]:.3f}", verdict])
    return found


def layers_table(n: Numbers) -> str:
    before = {1: LAYERS_BEFORE["lowest"], n.size.layers - 1: LAYERS_BEFORE["best"]}
    rows: list[list[object]] = []
    for k in range(1, n.size.layers):
        found, old = n.share("layers", key(k)), f"{before[k]:.3f}" if k in before else ""
        alone = spread(n.of("layers", key(k), "alone"), 3, 100)
        rows.append([k, alone, spread(found), old, f"more than of the last: {less(n.main, found)}{WITHIN}"])
    last = f"{n.size.layers}, the last"
    rows.append([last, spread(n.of("model", "probe"), 3, 100), spread(n.main), f"{LAYERS_BEFORE['last']:.3f}", ""])
    if n.has("verifiers"):
        rows.append(["a coin", "", *coin_cells(n)])
    none = f"less than of the last: {less(n.nucleus, n.main)}{WITHIN}"
    rows.append(["none", "", spread(n.nucleus), f"{NUCLEUS:.3f}", none])
    return markdown(["layer", "held-out prefixes judged right, %", "distinct right", "thesis", ""], rows)


def coin_cells(n: Numbers) -> list[str]:
    """Distinct right cases of a coin, here and in print, and its verdicts."""
    coin = n.share("verifiers", "coin")
    verdict = f"less than learnt: {less(coin, n.main)}; more than none: {less(n.nucleus, coin)}{WITHIN}"
    return [spread(coin), f"{COIN_BEFORE:.3f}", verdict]


def thresholds_table(n: Numbers) -> str:
    before, rows = dict(zip(SETTINGS, BACK_BEFORE, strict=True)), []
    for s in n.settings:
        other = (*s[:2], THRESHOLDS[1], *s[3:])
        if s[2] == THRESHOLDS[0] and other in before:
            verdict = less(n.back(other), n.back(s))
            rows.append([*s[:2], *s[3:], spread(n.back(s)), spread(n.back(other)), f"{before[s]:.3f}", f"{before[other]:.3f}", verdict])
    heads = ["Q", "B", "top_p", "temperature", "threshold .1", "threshold .5", "thesis: .1", "thesis: .5", "more with .1"]
    return markdown(heads, rows)


def depths_table(n: Numbers) -> str:
    rows = [[1, spread(n.of("model", "probe"), 3, 100), "96", spread(n.main), f"{BACK_BEFORE[0]:.3f}", ""]]
    for d in DEPTHS[: n.size.grid]:
        name = key("depth", d)
        found = n.share("verifiers", name)
        alone = spread(n.of("verifiers", name, "alone"), 3, 100)
        rows.append([d, alone, "97", spread(found), f"{DEPTHS_BEFORE[d]:.3f}", f"less than of one layer: {less(found, n.main)}{WITHIN}"])
    rows.append(["a coin", "", "50", *coin_cells(n)])
    rows.append(["none", "", "", spread(n.nucleus), f"{NUCLEUS:.3f}", f"less than of one layer: {less(n.nucleus, n.main)}"])
    return markdown(["layers", "held-out prefixes judged right, %", "thesis", "distinct right", "thesis", ""], rows)


def truth_table(n: Numbers) -> str:
    truth = {q: n.share("verifiers", key("truth", q)) for q in QUOTAS}
    more, fewer = (
        f"{words}{WITHIN}" for words in (f"more than learnt: {less(n.main, truth[4])}", f"less than Q = 4: {less(truth[10], truth[4])}")
    )
    rows = [["the truth", q, 4, spread(truth[q]), f"{TRUTH_BEFORE[q]:.3f}", {4: more, 10: fewer}[q]] for q in QUOTAS]
    # "Almost reached": nearer to the truth than to none. In print it has .054 of .059.
    middle = np.add(truth[4], n.nucleus) / 2
    almost = f"nearer to the truth than to none: {less(middle.tolist(), n.main)}"
    rows.append(["learnt", 4, 4, spread(n.main), f"{BACK_BEFORE[0]:.3f}", almost])
    for s, before in list(zip(SETTINGS, BACK_BEFORE, strict=True))[8:]:
        if s in n.settings:
            verdict = f"less than Q = B = 4: {less(n.back(s), n.main)}{WITHIN * (s[0] == 10)}"
            rows.append(["learnt", *s[:2], spread(n.back(s)), f"{before:.3f}", verdict])
    rows.append(["a coin", 4, 4, *coin_cells(n)])
    rows.append(["none", 0, "", spread(n.nucleus), f"{NUCLEUS:.3f}", f"less than learnt: {less(n.nucleus, n.main)}"])
    return markdown(["verifier", "Q", "B", "distinct right", "thesis", ""], rows)


def grid_table(n: Numbers) -> str:
    top_ps, temperatures = TOP_P[-n.size.grid :], TEMPERATURES[-n.size.grid :]
    rows: list[list[object]] = []
    for p in top_ps:
        own = [n.plain(p, t) for t in temperatures]
        rows.append([p, *map(spread, own), rises(n, p)])
        rows.append(["thesis", *(f"{GRID_BEFORE[p][TEMPERATURES.index(t)]:.3f}" for t in temperatures), ""])
    return markdown(["top_p", *(f"temperature {t}" for t in temperatures), "each step as in the thesis"], rows)


def rises(n: Numbers, top_p: float) -> str:
    """Whether each step of the temperature has the direction that the thesis has."""
    temperatures = TEMPERATURES[-n.size.grid :]
    found = []
    for a, b in pairwise(temperatures):
        low, high = (n.plain(top_p, t) for t in (a, b))
        up = GRID_BEFORE[top_p][TEMPERATURES.index(a)] < GRID_BEFORE[top_p][TEMPERATURES.index(b)]
        found.append(less(low, high) if up else less(high, low))
    return together(found)


def methods(n: Numbers) -> dict[str, tuple[str, str, float | None, int | None]]:
    """By words: the part and the key of a run, and what the thesis has, accuracy and calls of 100 prompts."""
    found: dict[str, tuple[str, str, float | None, int | None]] = {
        "nothing verified": (f"plain {n.size.best[0]}", key(n.size.best[1]), NUCLEUS, 38231),
        "argmax": ("backtracking", "greedy", GREEDY_BEFORE, 38400),
        "Algorithm 1, threshold .1": ("backtracking", key(*MAIN), BACK_BEFORE[0], CALLS_BEFORE[0]),
        "Algorithm 1, threshold .5": ("backtracking", key(*SETTINGS[1]), BACK_BEFORE[1], CALLS_BEFORE[1]),
        "Algorithm 1, the truth": ("verifiers", key("truth", 4), TRUTH_BEFORE[4], None),
        "Algorithm 1, a coin": ("verifiers", "coin", COIN_BEFORE, None),
    }
    for k in n.candidates:
        found[f"best of {k} for each block of 12 symbols"] = ("candidates", key("blocks", k), *BLOCKS_BEFORE[k])
    found["best of 2 answers"] = ("candidates", "best", None, None)
    found["rejection of symbols, 8 tries"] = ("candidates", "tokens", None, None)
    found["rejection of answers, 8 tries"] = ("candidates", "whole", None, None)
    return {words: run for words, run in found.items() if n.has(run[0])}


def calls_table(n: Numbers) -> str:
    """Table 3.13's last columns, and distinct right cases for 1,000 calls."""
    rows = []
    for words, (part, name, share, calls) in methods(n).items():
        right = n.of(part, name, "right")
        each = [1000 * r / c for r, c in zip(right, n.of(part, name, "calls"), strict=True)]
        lost = sum(n.of(part, name, "lost"))
        before = "" if share is None else f"{share:.3f}"
        cells = [words, spread(n.share(part, name)), before, spread(n.calls(part, name)), "" if calls is None else f"{calls / 100:.0f}"]
        rows.append([*cells, spread(each), "" if calls is None or share is None else f"{800_000 * share / calls:.1f}", lost or ""])
    rows.append([*_better(n), "", "", "", ""])
    heads = ["at top_p = .95", "distinct right", "thesis", "calls a prompt", "thesis", "right for 1,000 calls", "thesis", "found nothing"]
    return markdown(heads, rows)


def _better(n: Numbers) -> list[str]:
    """For as many calls, Algorithm 1 finds more than what verifies nothing, and than blocks: by the rate at the end."""

    def rate(words: str) -> Values:
        part, name, *_ = methods(n)[words]
        return [r / c for r, c in zip(n.of(part, name, "right"), n.of(part, name, "calls"), strict=True)]

    own = rate("Algorithm 1, threshold .1")
    plain = less(rate("nothing verified"), own)
    blocks = together([less(rate(f"best of {k} for each block of 12 symbols"), own) for k in n.candidates])
    return ["Algorithm 1 has the higher rate", f"than nothing verified: {plain}", "", f"than blocks: {blocks}"]


def shifted_table(n: Numbers) -> str:
    """Table 3.15."""
    base = n.share("shifted", "none")
    runs = {"none": (n.nucleus, NUCLEUS), "0.1": (n.main, BACK_BEFORE[0]), "0.5": (n.back(SETTINGS[1]), BACK_BEFORE[1])}
    rows, drops = [], {}
    for name, (own, before) in runs.items():
        found = n.share("shifted", name)
        drops[name] = np.subtract(own, found).tolist()
        verdict = f"less with telling names: {less(found, own)}" if name == "none" else f"more than none there: {less(base, found)}"
        rows.append([name, spread(own), spread(found), spread(drops[name]), f"{before:.3f}", f"{SHIFTED_BEFORE[name]:.3f}", verdict])
    rows.append(["loses less than none", "", "", *[""] * 3, together([less(drops[t], drops["none"]) for t in ("0.1", "0.5")])])
    heads = ["threshold", "new names", "telling names", "difference", "thesis: in distribution", "thesis: telling", ""]
    return markdown(heads, rows)


def bare_table(n: Numbers) -> str:
    """Table 3.17."""
    rows = []
    for s in SETTINGS[:2]:
        own, bare, k = n.back(s), n.share("backtracking", key("bare", s[2])), THRESHOLDS.index(s[2])
        rows.append([s[2], spread(own), spread(bare), f"{BACK_BEFORE[k]:.3f}", f"{BARE_BEFORE[s[2]]:.3f}", less(bare, own)])
    heads = ["threshold", "regenerated by argmax", "left out", "thesis: by argmax", "thesis: left out", "more by argmax"]
    return markdown(heads, rows)


def draw(results: Results, size: Size) -> dict[str, Figure]:
    """By name."""
    return {"calls": calls_picture(Numbers(results, size))}


def calls_picture(n: Numbers) -> Figure:
    """Figures 3.3 and 3.4: distinct right cases against calls of the network, as more prompts are asked."""
    panels = (False, True) if n.candidates else (False,)
    figure = Figure(figsize=(8.2 if n.candidates else 5.2, 3.8), layout="constrained")
    for axes, wide in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for words, colour, dashed in shown(n, wide):
            if words not in methods(n):
                continue
            part, name, *_ = methods(n)[words]
            along = np.mean([v for v in n.of(part, name, "along")], axis=0)
            axes.plot(*np.vstack([[0, 0], along]).T, "--" if dashed else "-", color=palette.SERIES[colour], label=words, marker="o", ms=2.5)
        axes.set_xlabel("calls of the network")
        axes.set_xlim(left=0)
        axes.locator_params(axis="x", nbins=6)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=7)
    figure.axes[0].set_ylabel("distinct right test cases")
    return figure


def shown(n: Numbers, wide: bool) -> list[tuple[str, int, bool]]:
    """Words, colour and whether dashed: without what takes many calls, or with blocks and whole answers."""
    found = [("nothing verified", 0, True), ("Algorithm 1, threshold .1", 1, False)]
    if wide:
        blocks = [f"best of {k} for each block of 12 symbols" for k in n.candidates]
        return [*found, *((words, colour, True) for colour, words in enumerate(blocks, 2))]
    return [*found, ("argmax", 2, True), ("Algorithm 1, threshold .5", 3, False), ("Algorithm 1, the truth", 4, False)]
