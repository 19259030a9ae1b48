"""Seconds to fit F1, a sparse Ising model, beside scikit-learn's node-wise regressions in the same run.

Two graphs: every pair, as where the graph is sought; and the true edges, as where it is known. `Model.fit` also computes
standard errors and says whether a minimum exists, which scikit-learn does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gmlmdsl as gm

from ._ising_data import Spins, ising_data
from ._measure import Check, Figure, Report, figure, in_turn, installed, missing, seconds
from ._sklearn_peer import PROCESSES, NodeWise

Array = np.ndarray
PROGRAM = """
input n : int
input pairs[e, 2] : int
index site = range(n)
graph G = edges(pairs, nodes = site)
model ising {
  var   x[i in site] : spin
  param h[i in site]
  param J[(i, j) in G.edges]
  factor h[i] * x[i]           for i in site
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
"""
FIT, PEER = "gmlmdsl Model.fit", "scikit-learn"
WORSE = 0.1  # by how much more than scikit-learn's the error of ours may be


def run(quick: bool) -> Report:
    """Both graphs."""
    n, rows = (10, 1000) if quick else (50, 10_000)
    data = ising_data(n, rows)
    every, fewest = np.stack(np.triu_indices(n, 1), 1), data.edges
    figures: list[Figure] = []
    checks: list[Check] = []
    for words, pairs, repeats in (("every pair", every, 1), ("known edges", fewest, 1 if quick else 3)):
        found = _fit(data, pairs, f"{words}, {n + len(pairs)} parameters", repeats)
        figures += found.figures
        checks += found.checks
    return Report(tuple(figures), tuple(checks))


def _fit(data: Spins, pairs: Array, words: str, repeats: int) -> Report:
    model = gm.parse(PROGRAM, n=len(data.fields), pairs=pairs).model()
    found: dict[str, Array] = {}

    def ours() -> None:
        found[FIT] = model.fit(data.x, mask="single", progress=False).params["J"]

    figures = [figure("f1", FIT, f"first fit, {words}", [seconds(ours)], "s", "with compilation and standard errors")]
    calls: dict[str, Any] = {FIT: ours}
    if installed("sklearn") and installed("threadpoolctl"):
        peer = NodeWise(data.x, _others(len(data.fields), pairs))

        def theirs() -> None:
            found[PEER] = peer.fit()[0][pairs[:, 0], pairs[:, 1]]

        calls[PEER] = theirs
    notes = {FIT: "compiled before; with standard errors", PEER: f"L-BFGS, {PROCESSES} processes"}
    figures += [figure("f1", name, f"fit, {words}", runs, "s", notes[name]) for name, runs in in_turn(calls, repeats).items()]
    if PEER not in calls:
        figures.append(missing("f1", PEER, f"fit, {words}", "s", "scikit-learn or threadpoolctl is not installed"))
    return Report(tuple(figures), tuple(_checks(data, pairs, words, found)))


def _others(n: int, pairs: Array) -> list[Array]:
    """For each site, the other ends of its pairs."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return [np.sort(both[both[:, 0] == i, 1]) for i in range(n)]


def _checks(data: Spins, pairs: Array, words: str, found: dict[str, Array]) -> list[Check]:
    """Our couplings lie as near to the truth as scikit-learn's; where that is absent, as near as the rows allow."""
    truth = data.matrix[pairs[:, 0], pairs[:, 1]]
    errors = {name: float(np.sqrt(np.mean((couplings - truth) ** 2))) for name, couplings in found.items()}
    expected = errors.get(PEER, 2 / np.sqrt(len(data.x)))
    allowed = WORSE * expected if PEER in errors else expected
    ours = [name for name in errors if name != PEER]
    return [Check("f1", f"root mean square error of J, {name}, {words}", errors[name], expected, allowed) for name in ours]
