"""Networks of 25 binary items: processor seconds of a bootstrap refit, and of a path of penalties chosen by the extended BIC."""

from __future__ import annotations

import time
from collections.abc import Callable

import gmlmdsl as gm

from ._measure import Figure, Report, figure, repeats
from .inclusion import rows

PROGRAM = """
input n : int
graph G = complete(n)
model items {
  var   x[i in G.nodes] : bit
  param h[i in G.nodes]
  param J[(i, j) in G.edges]
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
MOST_REFIT, MOST_PATH = 0.05, 4.0  # processor seconds


def run(quick: bool) -> Report:
    """First calls compile; later ones have other seeds."""
    n, count, resamples = (5, 100, 4) if quick else (25, 1000, 100)
    x = rows(count, n)
    model = gm.parse(PROGRAM, n=n).model()
    fit = model.fit(x, mask="one", progress=False)
    words = f"{n} items, {count:,} rows"
    calls: dict[str, tuple[Callable[[int], object], int, float]] = {
        f"a refit of {resamples} resamples": (lambda seed: fit.bootstrap(resamples, seed=seed), resamples, MOST_REFIT),
        "a path by EBIC, one regression for each item": (lambda _: model.fit_path(x, mask="one", gamma=0.25, rule="and"), 1, MOST_PATH),
        "a path by EBIC, all items at once": (lambda _: model.fit_path(x, mask="one", gamma=0.25), 1, MOST_PATH),
    }
    figures: list[Figure] = []
    for what, (call, parts, most) in calls.items():
        took = []
        for seed in range(1 + repeats(quick)):
            began = time.process_time()
            call(seed)
            took.append((time.process_time() - began) / parts)
        figures.append(figure("items", "gmlmdsl", f"{what}, {words}, first call", took[:1], "processor s", "with compilation"))
        figures.append(figure("items", "gmlmdsl", f"{what}, {words}", took[1:], "processor s", most=most))
    return Report(tuple(figures))
