"""Seconds to fit F1, a sparse Ising model, beside scikit-learn's node-wise regressions in the same run.

Two graphs: every pair, as where the graph is sought; and the true edges, as where it is known. `Model.fit` says whether a
minimum exists, and gives standard errors, where these are asked for; scikit-learn does neither. Of its two variants the quicker one counts.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import gmlmdsl as gm

from ._fit_child import PROGRAM
from ._ising_data import Spins, every_pair, ising_data, others
from ._measure import Check, Figure, Report, figure, fresh_process, in_turn, installed, memory, missing, ratio, repeats, seconds
from ._sklearn_peer import PROCESSES, NodeWise

Array = np.ndarray
FIT, ERRORS = "gmlmdsl Model.fit", "gmlmdsl Model.fit, then standard_errors"
PEERS = {f"scikit-learn, {PROCESSES} processes": PROCESSES, "scikit-learn, 1 process": 1}
NOTES = {
    FIT: "compiled before",
    ERRORS: "compiled before",
    **{name: "L-BFGS, one BLAS thread each" if k > 1 else "L-BFGS, BLAS threads as they come" for name, k in PEERS.items()},
}
WORSE = 0.1  # by how much more than scikit-learn's the error of ours may be


@dataclass(frozen=True)
class Size:
    """Of one benchmark: how many sites, and the goals, as parts of scikit-learn's time; `first` is of a first process, `later` of one after."""

    sites: int
    few: int  # with --quick, where goals mean nothing
    fit: float | None
    errors: float | None = None
    first: float | None = None
    later: float | None = None


SIZES = {"f1": Size(50, 8, 1 / 3, errors=1.25), "f1_100": Size(100, 9, 1 / 3, first=1.6, later=1.0), "f1_200": Size(200, 10, 1 / 4)}


def run(name: str, quick: bool) -> Report:
    """Every pair, warm and in fresh processes; the true edges too at the smallest size, where standard errors are computed."""
    size = SIZES[name]
    n, rows = (size.few, 1000) if quick else (size.sites, 10_000)
    goals = Size(n, n, None) if quick else size
    warm = _Warm(name, ising_data(n, rows), size.errors is not None, repeats(quick))
    figures, peer = warm.every(goals)
    if warm.errors:
        figures += warm.fits("known edges", warm.data.edges)[0]
    return Report((*figures, *_fresh(name, n, rows, peer, goals, repeats(quick))), tuple(warm.checks))


class _Warm:
    """Fits in this process, all in turn."""

    def __init__(self, name: str, data: Spins, errors: bool, count: int):
        self.name, self.data, self.errors, self.count = name, data, errors, count
        self.checks: list[Check] = []

    def every(self, size: Size) -> tuple[list[Figure], float | None]:
        """Every pair, beside the goals; and the median seconds of the quicker peer."""
        pairs = every_pair(len(self.data.fields))
        figures, runs = self.fits("every pair", pairs)
        peers = [k for k in runs if k in PEERS]
        if not peers:
            return figures, None
        best = min(peers, key=lambda k: statistics.median(runs[k]))
        for ours, most in ((FIT, size.fit), (ERRORS, size.errors)):
            if ours in runs:
                figures.append(ratio(self.name, f"{ours} / {best}", self._words("every pair", pairs), runs[ours], runs[best], most))
        return figures, statistics.median(runs[best])

    def fits(self, graph: str, pairs: Array) -> tuple[list[Figure], dict[str, list[float]]]:
        """Seconds of a first fit, then of all in turn; checks of the couplings."""
        n, words = len(self.data.fields), self._words(graph, pairs)
        model = gm.parse(PROGRAM, n=n, pairs=pairs).model()
        found: dict[str, Array] = {}

        def ours(errors: bool) -> None:
            fit = model.fit(self.data.x, mask="single", progress=False)
            found[FIT] = fit.params["J"]
            if errors:
                fit.standard_errors  # noqa: B018 - computes them

        def theirs(name: str, peer: NodeWise) -> None:
            found[name] = peer.fit()[0][pairs[:, 0], pairs[:, 1]]

        first = seconds(partial(ours, self.errors))
        figures = [figure(self.name, ERRORS if self.errors else FIT, f"first fit, {words}", [first], "s", "with compilation")]
        calls: dict[str, Callable[[], object]] = {FIT: partial(ours, False)}
        if self.errors:
            calls[ERRORS] = partial(ours, True)
        if installed("sklearn") and installed("threadpoolctl"):
            calls |= {name: partial(theirs, name, NodeWise(self.data.x, others(n, pairs), k)) for name, k in PEERS.items()}
        runs = in_turn(calls, self.count)
        figures += [figure(self.name, name, f"fit, {words}", taken, "s", NOTES[name]) for name, taken in runs.items()]
        if len(calls) < len(PEERS) + 1:
            figures.append(missing(self.name, "scikit-learn", f"fit, {words}", "s", "scikit-learn or threadpoolctl is not installed"))
        self.checks += _checks(self.name, self.data, pairs, words, found)
        return figures, runs

    def _words(self, graph: str, pairs: Array) -> str:
        return f"{graph}, {len(self.data.fields) + len(pairs)} parameters"


def _fresh(name: str, n: int, rows: int, peer: float | None, size: Size, count: int) -> list[Figure]:
    """First fits of fresh processes, in turn: without a cache, and with one that an earlier process has filled."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        calls = {
            ("gmlmdsl", "a first process"): partial(fresh_process, "_fit_child", n, rows, "gmlmdsl"),
            ("gmlmdsl", "a later process"): partial(fresh_process, "_fit_child", n, rows, "gmlmdsl", cache=cache),
        }
        calls["gmlmdsl", "a later process"]()
        if peer is not None:
            calls["scikit-learn, 1 process", "a process"] = partial(fresh_process, "_fit_child", n, rows, "scikit-learn")
        found: dict[tuple[str, str], list[dict]] = {key: [] for key in calls}
        for _ in range(count):
            for key, call in calls.items():
                found[key].append(call())
    figures: list[Figure] = []
    for (who, which), runs in found.items():
        words = f"every pair, {n} sites, {which}"
        figures.append(figure(name, who, f"first fit of {words}", [r["first"] for r in runs], "s", "imports, data left out"))
        figures.append(figure(name, who, f"all of {words}", [r["processor"] for r in runs], "processor s"))
        figures.append(memory(name, who, words, [r["peak"] for r in runs]))
        if who == "gmlmdsl" and peer is not None:
            most = size.first if which == "a first process" else size.later
            firsts = [r["first"] for r in runs]
            figures.append(ratio(name, f"{who} / the quicker scikit-learn, warm", f"first fit of {words}", firsts, [peer] * count, most))
    return figures


def _checks(name: str, data: Spins, pairs: Array, words: str, found: dict[str, Array]) -> list[Check]:
    """Our couplings lie as near to the truth as scikit-learn's; where that is absent, as near as the rows allow."""
    truth = data.matrix[pairs[:, 0], pairs[:, 1]]
    errors = {who: float(np.sqrt(np.mean((couplings - truth) ** 2))) for who, couplings in found.items()}
    expected = next((errors[p] for p in PEERS if p in errors), 2 / np.sqrt(len(data.x)))
    allowed = WORSE * expected if len(errors) > 1 else expected
    return [Check(name, f"root mean square error of J, {FIT}, {words}", errors[FIT], expected, allowed)]
