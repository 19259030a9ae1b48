# Bracket words: the law that `require` gives, beside what filtering symbol by symbol and backtracking make of it, exactly.
# python examples/guided/constrained.py [--out PICTURE.png]
import argparse
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


def draw(names: list[str], p: np.ndarray, found: dict[str, gm.theory.OutputLaw]) -> Figure:
    """The probability of each word under each law."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(found)
    for k, (name, law) in enumerate(found.items()):
        own = [law.probability(list(word)) for word in names]
        axes.bar(np.arange(len(names)) + (k - (len(found) - 1) / 2) * width, own, width, label=name, color=palette.SERIES[k])
    axes.step(np.append(np.arange(len(names)) - 0.5, len(names) - 0.5), np.append(p, p[-1]), where="post", color="black", label="exact")
    axes.set_xticks(np.arange(len(names)), names, rotation=90, family="monospace")
    axes.set_ylabel("probability")
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Laws of bracket words.")
    parser.add_argument("--out", type=Path, default=Path("constrained.png"))
    options = parser.parse_args()
    computed = laws()
    print(table(*computed))
    draw(*computed).savefig(options.out, dpi=130)
    print(f"wrote {options.out}")
