# What `require` gives beside what filtering symbol by symbol and backtracking make of it, exactly: words of brackets, lists by a trigram.
# python examples/guided/constrained.py [--out PICTURE.png]
import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import gmlmdsl as gm
from gmlmdsl.report import _palette as palette

HERE = Path(__file__).resolve().parent
SAMPLERS = {"greedy filtering": "filter", "backtracking": "back", "best of 8": "best"}


def laws() -> tuple[list[str], np.ndarray, dict[str, gm.theory.OutputLaw]]:
    """The words, their law given that they are balanced, and the output law of each sampler."""
    program = gm.load(HERE / "constrained.gmlm")
    words, exact = program.model("words"), program.model("balanced_words")
    found = {name: gm.theory.output_law(words, {}, sampler) for name, sampler in SAMPLERS.items()}
    strings = gm.theory.output_law(words, {}, "reject").strings
    p = np.exp(np.asarray(exact.log_prob({}, strings), np.float64))
    return ["".join("()"[a] for a in s) for s in strings.tolist()], p, found


def table(names: list[str], p: np.ndarray, found: dict[str, gm.theory.OutputLaw]) -> str:
    """How far each law is from the exact one, what share of its words is balanced, and its calls."""
    rows = [f"{'':18}{'total variation':>16}{'balanced':>10}{'calls':>8}"]
    for name, law in found.items():
        own = np.array([law.probability(list(word)) for word in names])
        away = 0.5 * (np.abs(own - p).sum() + 1 - own.sum())
        rows.append(f"{name:18}{away:16.3f}{own.sum():10.3f}{law.expected_calls:8.1f}")
    return "\n".join(rows)


SYMBOLS, CELLS, DEEPEST = "[],01.", 12, 3
TEXT = ("[0,1]", "[[1,0],[0]]", "[1,1,[0,0]]", "[1,0,[1]]", "[0,1,1]", "[[0],1]")


def trigram(texts: tuple[str, ...], more: float = 0.05) -> dict[str, np.ndarray]:
    """Relative frequencies of first symbols, of second ones by the first, of the others by two before; `more` is added to each count."""
    rows = [[SYMBOLS.index(a) for a in text.ljust(CELLS, ".")] for text in texts]
    counts = {name: np.full((len(SYMBOLS),) * k, more) for k, name in enumerate(("first", "second", "next"), 1)}
    for row in rows:
        counts["first"][row[0]] += 1
        counts["second"][tuple(row[:2])] += 1
        for i in range(2, CELLS):
            counts["next"][tuple(row[i - 2 : i + 1])] += 1
    return {name: c / c.sum(axis=-1, keepdims=True) for name, c in counts.items()}


def begins(text: str) -> bool:
    """Whether some list of at most so many symbols, nested at most so deep, begins so; dots stand behind its end."""
    depth = 0
    for before, symbol in zip(" " + text, text, strict=False):
        if before == " ":
            good = symbol == "["
        elif depth == 0:
            good = symbol == "."
        else:
            good = symbol != "." and (symbol in "],") == (before not in "[,")
        depth += (symbol == "[") - (symbol == "]")
        if not good or depth > DEEPEST:
            return False
    return len(text) + depth + (text[-1:] in ("[", ",")) <= CELLS


def filtered(law: dict[str, np.ndarray], text: str = "", p: float = 1.0, q: float = 1.0) -> Iterator[tuple[str, float, float]]:
    """Every list that begins so, its probability under the trigram, and that where what no list begins with is left out at each symbol."""
    if len(text) == CELLS:
        yield text, p, q
        return
    row = law[("first", "second", "next")[min(len(text), 2)]][tuple(SYMBOLS.index(a) for a in text[-2:])]
    left = {a: r for a, r in zip(SYMBOLS, row, strict=True) if begins(text + a)}
    for symbol, r in left.items():
        yield from filtered(law, text + symbol, p * r, q * r / sum(left.values()))


def lists() -> tuple[list[str], np.ndarray, np.ndarray, float]:
    """All lists, their probabilities by `require`, those by filtering, and the share of the trigram's strings that are lists."""
    law = trigram(TEXT)
    names, p, q = zip(*filtered(law), strict=True)
    exact = np.exp(np.asarray(gm.load(HERE / "lists.gmlm", **law).model("lists").log_prob({}, list(names)), np.float64))
    return list(names), exact, np.array(q), float(sum(p))


def list_table(names: list[str], p: np.ndarray, q: np.ndarray, share: float) -> str:
    """How far filtering is from the exact law, its likeliest list, and the likeliest ones."""
    away = 0.5 * np.abs(p - q).sum()
    rows = [f"{len(names)} lists, {share:.3f} of what the trigram draws; filtering is {away:.3f} in total variation away"]
    rows += [f"{'':14}{'exact':>8}{'filtering':>11}"]
    shown = dict.fromkeys([*np.argsort(-q)[:1].tolist(), *np.argsort(-p)[:3].tolist()])
    return "\n".join([*rows, *(f"{names[k].rstrip('.'):14}{p[k]:8.3f}{q[k]:11.3f}" for k in shown)])


def draw(names: list[str], p: np.ndarray, found: dict[str, gm.theory.OutputLaw], of_lists: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The probability of each word by filtering beside the exact one, and that of each list against the exact one."""
    figure = Figure(figsize=(9.2, 3.9), layout="constrained")
    words, scattered = figure.subplots(1, 2, width_ratios=(1.35, 1))
    own = np.array([found["greedy filtering"].probability(list(word)) for word in names])
    order, n = np.argsort(-own, kind="stable"), len(names)
    words.bar(np.arange(n), own[order], 0.75, label="greedy filtering", color=palette.SERIES[0])
    words.stairs(p[order], np.arange(n + 1) - 0.5, baseline=None, color="black", linewidth=1.6, label="given that it is balanced")
    words.set_xticks(np.arange(n), [names[k] for k in order], rotation=90, family="monospace")
    words.set_ylabel("probability of the word")
    words.set_title("balanced words of a coin", fontsize=10)
    words.legend(frameon=False)
    exact, own = of_lists
    ends = [min(exact.min(), own.min()) / 2, 1.0]
    scattered.loglog(ends, ends, color="black", linewidth=1.2, label="no distortion")
    scattered.loglog(exact, own, ".", color=palette.SERIES[0], markersize=5, label="a list")
    scattered.set_xlabel("probability given that it is a list")
    scattered.set_ylabel("probability by greedy filtering")
    scattered.set_title("lists of a trigram", fontsize=10)
    scattered.legend(frameon=False)
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Laws of bracket words, and of lists.")
    parser.add_argument("--out", type=Path, default=Path("constrained.png"))
    options = parser.parse_args()
    computed, of_lists = laws(), lists()
    print(table(*computed))
    print(list_table(*of_lists))
    draw(*computed, of_lists[1:3]).savefig(options.out, dpi=130)
    print(f"wrote {options.out}")
