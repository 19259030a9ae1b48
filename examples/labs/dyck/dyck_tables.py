# The tables and pictures of Lab C, from kept output, beside the figures of Li 2025, Section 2.2.
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from dyck import DEEPEST, LENGTHS, PREFIX, SENTENCE, SETTINGS, SHOWN, UNITS, Size, names
from laboratory import AGREE, DISAGREE, LEAST_SEEDS, UNTESTED, less, markdown, ordered, spread, together
from matplotlib.figure import Figure
from scipy import stats

from gmlmdsl.report import _palette as palette

Results = Mapping[str, Any]
# Variation of the last layer on one prefix, of networks that learnt from whole words and from prefixes: Sections 2.2.3.2 and 2.2.3.4.
VARIATION_BEFORE = {"one-hot": (0.24, 0.34), "learnt": (2.27, 14.51), "learnt, places": (2.20, 11.92)}
RANDOM_BEFORE = 2.85
# Table 2.6, D = 4: of each layer the mean over sentences, and its sd.
TABLE = {
    "learnt": ((0.047, 0.006), (7.721, 0.908)),
    "learnt, 3 layers": ((0.070, 0.013), (5.072, 0.645), (24.063, 1.166)),
    "learnt, 3 kinds": ((0.182, 0.024), (9.313, 0.815)),
    "learnt, 3 layers, 3 kinds": ((0.225, 0.032), (8.426, 0.877), (25.749, 0.897)),
}
WELL = 0.97  # of the last brackets of words of the trained length, which all networks of the thesis get right


def column(results: Results, size: Size, name: str, *keys: str) -> list[float]:
    """One number a seed."""
    found = []
    for seed in range(size.seeds):
        value = results[f"{name}, {seed}"]
        for key in keys:
            value = value[key]
        found.append(value)
    return found


def tables(results: Results, size: Size) -> dict[str, str]:
    """By place on the page."""
    return {
        "dyck-exact": exact_table(results["exact"]),
        "dyck-balanced": balanced_table(results["balanced"]),
        "dyck-pruned": pruned_table(results["pruned"], size),
        "dyck-approximate": approximate_table(results["approximate"], size),
        "dyck-accuracy": accuracy_table(results, size),
        "dyck-balance": balance_table(results, size),
        "dyck-contrast": contrast_table(results, size),
        "dyck-variation": variation_table(results, size),
        "dyck-layers": layer_table(results, size),
    }


def exact_table(found: Mapping[str, float]) -> str:
    places = len(PREFIX) + 1
    rows = [
        [f"last brackets that uniform attention tells, of {found['asked']} words of 400 to 500 symbols", f"{found['uniform']:g}"],
        ["beta of the balanced construction", f"{found['beta False']:g}"],
        ["the same, as Equation 2.51 is printed", f"{found['beta True']:g}"],
        [f"variation of random causal attention, {SENTENCE} places", f"{found[f'random {SENTENCE}']:.3f}"],
        [f"{SENTENCE + 1} places", f"{found[f'random {SENTENCE + 1}']:.3f}"],
        [f"{places} places", f"{found[f'random {places}']:.3f}"],
        *([f"least nats a symbol, {k} kinds", f"{found[f'nats {k}']:.4f}"] for k in (2, 3)),
    ]
    return markdown(["quantity", "value"], rows)


def balanced_table(found: Mapping[str, Any]) -> str:
    """Theorem 2.2.1: balanced attention tells all, at any length, and attention that is not does not."""
    violations, rows = list(dict.fromkeys(key.split(", ")[0] for key in found)), []

    def of(violation: str, what: str) -> list[float]:
        return [value[what] for key, value in found.items() if key.split(", ")[0] == violation]

    names = list(next(iter(found.values())))
    for v in violations:
        cells = [spread(of(v, name), 3, 1 if name in ("beta", "spread") else 100) for name in names]
        worse = less(of(v, names[-3]), of(violations[0], names[-3])) if v != violations[0] else ""
        rows.append([v, *cells, worse])
    heads = ["violation", "28 symbols: last brackets told, %", "400 to 500: told, %"]
    heads += [f"behind {name.split()[1]} pairs, %" for name in names if name.startswith("pumped")]
    return markdown([*heads, "beta", "places attended to, share", "pumped: worse than balanced"], rows)


def pruned_table(found: Mapping[str, Any], size: Size) -> str:
    """Theorem 2.2.3: with more random units to prune, values come near any matrix."""

    def of(units: int, what: str) -> list[float]:
        return [found[f"{units}, {seed}"][what] for seed in range(size.seeds)]

    rows = [[u, spread(np.log10(of(u, "error"))), *(spread(of(u, k), 3, 100) for k in ("told", "other"))] for u in UNITS]
    few, many = UNITS[0], UNITS[-1]
    rises = [less(of(few, k), of(many, k)) for k in ("told", "other")]
    rows.append([f"less; more; more with {many} than with {few}", less(of(many, "error"), of(few, "error")), *rises])
    heads = [
        "random units for an entry",
        "log10 of the largest error of W_V",
        "400 to 500 symbols: last brackets told, %",
        "the same, kinds exchanged, %",
    ]
    return markdown(heads, rows)


def approximate_table(found: Mapping[str, Any], size: Size) -> str:
    """Theorem 2.2.2: |S| / P is at most C / N, and so is the violation that a g of bounded steepness allows."""

    def of(n: int, what: str) -> np.ndarray:
        return np.array([found[f"{n}, {seed}"][what] for seed in range(size.seeds)])

    def extent(values: np.ndarray) -> str:
        return f"{values.min():.3g} to {values.max():.3g}"

    rows: list[list[object]] = []
    for n in LENGTHS:
        ratio = n * of(n, "ratio")
        cells = [extent(ratio), extent(n * of(n, "bound") / ratio), extent(of(n, "steep"))]
        rows.append([n, spread(of(n, "violation") / of(LENGTHS[0], "violation")), *cells])
    inside = all((of(n, "ratio") <= of(n, "bound")).all() for n in LENGTHS)
    falls = ordered(*(np.log(of(n, "violation")).tolist() for n in reversed(LENGTHS)))
    rows += [["falls with N", falls, "", "", ""], ["Equation 2.54 holds, every N and seed", "", AGREE if inside else DISAGREE, "", ""]]
    heads = ["N", f"allowed violation, of that at N = {LENGTHS[0]}", "N × largest S / P there", "16 D R over that", "steepness of g"]
    return markdown(heads, rows)


def accuracy_table(results: Results, size: Size) -> str:
    """How well each setting does at the trained length and at 16 times that."""
    rows = []
    for name in names(size):
        least = results["exact"][f"nats {SETTINGS[name].get('kinds', 2)}"]
        away = np.array(column(results, size, name, "nats")) - least
        own = [column(results, size, name, how, which) for how in ("short", "long") for which in ("all", "closing")]
        well = [f"{sum(k >= WELL for k in found)} of {size.seeds}" for found in own[:2]]
        before = "above 99" if name == "uniform" else "at least 97"
        rows.append([name, spread(away, 2), *(spread(k, 3, 100) for k in own), before, *well, falls(own[1], own[3])])
    heads = ["first layer", "nats above the least", "28 symbols: likeliest of all, %", "of closing ones, %"]
    heads += ["400 to 500: likeliest of all, %", "of closing ones, %", "28 symbols: thesis, %", "seeds with 97 % at 28: of all"]
    heads += ["of closing ones", "worse at 400 to 500"]
    return markdown(heads, rows)


def falls(short: Sequence[float], long: Sequence[float]) -> str:
    """Length generalisation is far from optimal (Section 2.2.3.3)."""
    return less(long, short)


def balanced(size: Size) -> list[str]:
    """The settings that have a beta."""
    return [name for name in names(size) if SETTINGS[name]["first"]]


def balance_table(results: Results, size: Size) -> str:
    """beta under both readings, and how it goes with the accuracy at length."""
    rows = []
    for name in balanced(size):
        beta, long = column(results, size, name, "beta"), column(results, size, name, "long", "closing")
        printed = column(results, size, name, "beta as printed")
        rows.append([name, spread(beta), spread(printed), spread(long, 3, 100), rank_correlation(beta, long)])
    heads = ["first layer", "beta", "beta as printed", "400 to 500: of closing ones, %", "rank correlation of beta and accuracy over seeds"]
    return markdown(heads, rows)


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> str:
    """Spearman's, where neither is constant."""
    if len(one) < LEAST_SEEDS or len(set(one)) < 2 or len(set(other)) < 2:
        return "—"
    return f"{float(stats.spearmanr(one, other)[0]):.2f}"


def contrast_table(results: Results, size: Size) -> str:
    """Figure 2.13: what the regulariser does, at each weight."""
    tamed = [name for name in names(size) if SETTINGS[name].get("contrast")]
    lines = [("beta", ("beta",), 1), ("beta as printed", ("beta as printed",), 1)]
    lines += [("400 to 500: of closing ones, %", ("long", "closing"), 100), ("400 to 500: likeliest of all, %", ("long", "all"), 100)]
    rows = []
    for title, keys, scale in lines:
        plain, falls_ = column(results, size, "one-hot", *keys), scale == 1
        row = [title, "falls" if falls_ else "rises", spread(plain, 3, scale)]
        for name in tamed:
            own = column(results, size, name, *keys)
            row += [spread(own, 3, scale), less(own, plain) if falls_ else less(plain, own)]
        rows.append(row)
    heads = [head for name in tamed for head in (f"weight {SETTINGS[name]['contrast']:g}", "verdict")]
    return markdown(["", "thesis", "without", *heads], rows)


def variation_table(results: Results, size: Size) -> str:
    """How much attention differs between seeds, on the prefix of Section 2.2.3.2."""
    rows, own = [], {}
    for name in names(size):
        own[name] = results[f"variation, {name}"][-1]["prefix"]
        whole, prefixes = VARIATION_BEFORE.get(name, ("", ""))
        same = max(map(abs, own[name])) < 1e-9  # uniform attention: rounding is left
        rows.append([name, "0" if same else spread(own[name]), whole, prefixes])
    places = len(PREFIX) + 1
    rows.append([f"random, {places} places", f"{results['exact'][f'random {places}']:.3g}", RANDOM_BEFORE, ""])
    learnt = [own[name] for name in ("learnt", "learnt, places") if name in own]
    verdict = together([less(own["one-hot"], other) for other in learnt]) if learnt else UNTESTED
    rows.append(["one-hot below learnt", verdict, "", ""])
    random = results["exact"][f"random {places}"]
    rows.append(["one-hot below random", less(own["one-hot"], [random] * size.seeds), "", ""])
    if len(learnt) == 2:
        rows.append(["learnt with places below without", less(learnt[1], learnt[0]), "", ""])
    return markdown(["first layer", "last layer, here", "thesis, whole words", "thesis, prefixes"], rows)


def layer_table(results: Results, size: Size) -> str:
    """Table 2.6: the variation of each layer on sentences of 19 symbols."""
    rows = []
    for name in [n for n in TABLE if n in names(size)]:
        layers = results[f"variation, {name}"]
        cells = [f"{spread(k['sentences'])}, sd {k['sd']:.2g} ({a:g}, sd {b:g})" for k, (a, b) in zip(layers, TABLE[name], strict=True)]
        cells += [""] * (3 - len(cells))
        order = [k["sentences"] for k in layers]
        rows.append([SETTINGS[name].get("kinds", 2), DEEPEST, len(layers), *cells, ordered(*order)])
    return markdown(["k", "D", "layers", "layer 1 (thesis)", "layer 2 (thesis)", "layer 3 (thesis)", "rises from layer to layer"], rows)


def draw(results: Results, size: Size) -> dict[str, Figure]:
    return {"balance": balance_picture(results, size), "attention": attention_picture(results, size)}


def balance_picture(results: Results, size: Size) -> Figure:
    """Figure 2.13: accuracy at length against beta, a dot for each network."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for k, name in enumerate(n for n in balanced(size) if SETTINGS[n].get("attends", 1)):
        beta, long = column(results, size, name, "beta"), column(results, size, name, "long", "closing")
        marker = "osD^"[k % 4]
        axes.plot(beta, 100 * np.array(long), marker, color=palette.SERIES[k], label=name, markersize=6, linestyle="none")
    axes.set_xlabel("balance violation beta")
    axes.set_ylabel("closing brackets told\nat 400 to 500 symbols, %")
    axes.set_xlim(left=0)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def attention_picture(results: Results, size: Size) -> Figure:
    """The last layer's attention on the prefix: a row for each setting, a panel for each of two seeds."""
    shown = [name for name in SHOWN if name in names(size)]
    seeds = min(2, size.seeds)
    figure = Figure(figsize=(2.3 * len(shown), 2.4 * seeds), layout="constrained")
    panels = figure.subplots(seeds, len(shown), squeeze=False)
    ticks = ["S", *PREFIX]
    for column_, name in enumerate(shown):
        for seed in range(seeds):
            axes = panels[seed][column_]
            axes.imshow(np.array(results[f"picture, {name}"][seed]), cmap="Blues", vmin=0, vmax=1)
            axes.set_xticks(range(len(ticks)), ticks, fontsize=6)
            axes.set_yticks(range(len(ticks)), ticks, fontsize=6)
            axes.tick_params(length=0)
            axes.set_title(f"{name}, seed {seed}", fontsize=8)
            axes.grid(visible=False)
    return figure
