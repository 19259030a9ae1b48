# The tables of heads, from kept output, beside what Li 2025 says in Section 2.2.4.
from collections.abc import Mapping
from typing import Any

import numpy as np
from heads import DEPTHS, NEEDED, TELLING, Size
from laboratory import AGREE, DISAGREE, UNTESTED, markdown, spread, yes

Results = Mapping[str, Any]
BEFORE = {1: "above 90", 4: "above 96"}  # accuracy of Figures 2.20 and 2.19, %


def tables(results: Results, size: Size) -> dict[str, str]:
    return {"heads-copying": copying_table(results, size), "heads-importance": importance_table(results, size)}


def of(results: Results, size: Size, name: str, key: str) -> list[Any]:
    """One of each seed."""
    return [results[f"{name}, {seed}"][key] for seed in range(size.seeds)]


def copying_table(results: Results, size: Size) -> str:
    rows = []
    for layers in DEPTHS:
        name = f"copying, {layers} layers"
        whole, none = (of(results, size, name, key) for key in ("whole", "without attention"))
        scores, lost = (np.array(of(results, size, name, key)) for key in ("scores", "lost"))
        telling = scores >= TELLING
        misleading = int((lost[telling] < NEEDED).sum())
        verdict = AGREE if misleading else DISAGREE if telling.any() else UNTESTED
        cells = [spread(whole, 3, 100), BEFORE[layers], spread(none, 3, 100), f"{telling.sum()} of {telling.size}", misleading, verdict]
        rows.append([layers, *cells])
    heads_of = ["layers", "copied right, %", "thesis", "without any attention, %", "heads that look interpretable", "of them not needed"]
    return markdown([*heads_of, "interpretable heads can mislead"], rows)


def importance_table(results: Results, size: Size) -> str:
    scores, lost = (np.array(of(results, size, "language", key)) for key in ("scores", "lost"))
    rank = of(results, size, "language", "rank correlation")
    telling = scores >= TELLING
    rows = [
        ["nats a symbol", spread(of(results, size, "language", "nats"), 4)],
        ["heads that look interpretable", f"{telling.sum()} of {telling.size}"],
        ["nats lost without a head that does, mean", f"{lost[telling].mean():.3g}" if telling.any() else ""],
        ["without one that does not", f"{lost[~telling].mean():.3g}" if (~telling).any() else ""],
        ["rank correlation of score and loss, 8 heads of a seed", spread(rank)],
        ["interpretable heads are more important", yes([0.0] * size.seeds, rank)],
    ]
    return markdown(["", "here"], rows)
