"""Networks of 25 binary items: processor seconds of a bootstrap refit, and of a path of penalties chosen by the extended BIC.

IsingFit chooses by the same rule from the same penalties as `criterion="elasso"`. Its seconds are those of the call in a fresh process of R.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import gmlmdsl as gm

from ._measure import ROOT, Check, Figure, Report, figure, missing, ratio, repeats, run_process
from .inclusion import rows

VARIABLE = "GMLM_ISINGFIT"  # names the folder of an R library that has IsingFit
PEER = ROOT / "examples" / "labs" / "elasso" / "isingfit.R"
THRESHOLD = "1e-7"  # of glmnet, its default
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
MOST_APART = 0.01  # of two slopes: glmnet ends its iterations, and its grid of penalties, earlier
Array = np.ndarray


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
    beside = _beside_isingfit(model, x, f"a path by the rule of IsingFit, {words}", quick)
    return Report((*figures, *beside.figures), beside.checks)


def _beside_isingfit(model: gm.Model, x: Array, words: str, quick: bool) -> Report:
    """Both in turn, after a first call; what it takes was compiled for the path with a regression for each item."""
    library, ours, theirs, apart = os.environ.get(VARIABLE), [], [], 0.0
    model.fit_path(x, mask="one", criterion="elasso")
    for _ in range(repeats(quick)):
        began = time.process_time()
        path = model.fit_path(x, mask="one", criterion="elasso")
        ours.append(time.process_time() - began)
        if library:
            took, slopes = _theirs(x, library)
            theirs.append(took)
            apart = max(apart, float(np.abs(path.params[0]["J"] - slopes).max()))
    figures = [figure("items", "gmlmdsl", words, ours, "processor s")]
    if not library:
        why = f"no R library with IsingFit: {VARIABLE} is not set"
        return Report((*figures, missing("items", "IsingFit", words, "processor s", why)))
    figures.append(figure("items", "IsingFit", words, theirs, "processor s"))
    figures.append(ratio("items", "gmlmdsl / IsingFit", words, ours, theirs, None))
    return Report(tuple(figures), (Check("items", f"{words}: the largest difference of a slope", apart, 0, MOST_APART),))


def _theirs(x: Array, library: str) -> tuple[float, Array]:
    """Processor seconds of IsingFit, and the slope of each pair by the rule "and"."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "rows.csv"
        np.savetxt(source, x, fmt="%d", delimiter=",")
        took = run_process(["Rscript", PEER, THRESHOLD, source], {**os.environ, "R_LIBS": library})
        each = np.loadtxt(f"{source}.slopes", delimiter=",")
    mean = np.where((each != 0) & (each.T != 0), (each + each.T) / 2, 0.0)
    return float(took.printed.split()[-1]), mean[np.triu_indices(len(mean), 1)]
