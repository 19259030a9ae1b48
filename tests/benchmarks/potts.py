"""A Potts model of an alignment by plmc's objective, beside plmc: processor seconds of whole processes to the same objective value.

The objective is that of plmc: minus the sum of all log conditionals of single cells, sequences weighted or not, plus .01 times the squared
fields and 16 times the squared couplings. Both objective values are computed here from the parameters, in float64.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from real_data import FOLDER, lacking

from . import _plmc_peer
from ._measure import Check, Figure, Report, figure, fresh_process, memory, missing, plain_environment, ratio, run_process
from ._plmc_peer import Potts
from ._potts_child import PENALTIES
from ._potts_data import codes, drawn, write_fasta

Array = np.ndarray
REPEATS = 5
OURS, PEER = "gmlmdsl", "plmc"
FIRST, LATER = f"{OURS}, a first process", f"{OURS}, a later process"
TRIED = 4  # times plmc's steps, where these are limited, to look for its objective value in
CLOSE = 1e-5  # part of the objective value by which ours may lie above plmc's: the digits of a sum in float32
FILE = "DHFR.a2m"


@dataclass(frozen=True)
class Task:
    """An alignment; `steps` is the most that plmc takes, None: until it ends by itself."""

    words: str
    rows: Callable[[], Array]
    weighted: bool = False
    steps: int | None = None
    file: str = ""


def family(columns: int | None = None) -> Array:
    """Codes of the DHFR alignment: the columns of its focus sequence, or the first of them."""
    import gmlmdsl as gm

    return codes(gm.read_alignment(FOLDER / FILE).x)[:, :columns]


TASKS = {
    "potts_24": Task("24 columns of DHFR", partial(family, 24), file=FILE),
    "potts_100": Task("100 simulated columns of 21 letters", partial(drawn, 100, 5000), steps=100),
    "potts_dhfr": Task("all of DHFR, weighted", family, weighted=True, steps=100, file=FILE),
}


def run(name: str, quick: bool) -> Report:
    """A first run tells how many steps ours takes to plmc's objective value; then processes of so many, and plmc's, in turn."""
    task = TASKS[name]
    if quick:
        task = Task("5 simulated columns", partial(drawn, 5, 400), task.weighted, task.steps)
    program = _plmc_peer.binary()
    if why := lacking(task.file) if task.file else "":
        return Report((missing(name, OURS, f"fit, {task.words}", "processor s", why),))
    with tempfile.TemporaryDirectory() as folder:
        return _Run(name, task, Path(folder), program).report(1 if quick else REPEATS, goals=not quick)


class _Run:
    """One task in a temporary folder: the alignment, the cache of compiled programs, what the processes write."""

    def __init__(self, name: str, task: Task, folder: Path, program: str | None):
        self.name, self.task, self.folder, self.program = name, task, folder, program
        self.x = task.rows()
        self.alignment = folder / "alignment.fasta"
        write_fasta(self.alignment, self.x)

    def report(self, repeats: int, goals: bool) -> Report:
        """See `run`."""
        figures: list[Figure] = []
        checks: list[Check] = []
        weights, theirs, steps, reached = self._weights(), None, self.task.steps or 0, 0.0
        if self.program is not None:
            self._plmc()
            theirs, effective = _plmc_peer.read_parameters(self.folder / "plmc.params")
            checks.append(Check(self.name, "effective sequences, plmc's", effective, float(weights.sum()), 1e-3 * float(weights.sum())))
            reached = objective(theirs, self.x, weights)
            steps = self._steps_to(reached, weights)
        calls: dict[str, Callable[[], dict[str, Any]]] = {
            FIRST: partial(self._ours, steps, "off"),
            LATER: partial(self._ours, steps, self.folder / "cache"),
        }
        calls[LATER]()
        if self.program is not None:
            calls[PEER] = self._plmc
        runs: dict[str, list[dict[str, Any]]] = {who: [] for who in calls}
        for _ in range(repeats):
            for who, call in calls.items():
                runs[who].append(call())
        ours = self._read()
        figures += self._figures(runs, {OURS: objective(ours, self.x, weights)} | ({PEER: reached} if theirs else {}), goals)
        if theirs is not None:
            checks += self._checks(ours, theirs, weights)
        return Report(tuple(figures), tuple(checks))

    def _ours(self, steps: int, cache: str | Path) -> dict[str, Any]:
        return fresh_process("_potts_child", self.alignment, self.folder / "ours.npz", int(self.task.weighted), steps, cache=cache)

    def _plmc(self) -> dict[str, Any]:
        assert self.program is not None
        words = _plmc_peer.command(
            self.program, self.alignment, self.folder / "plmc.params", PENALTIES, self.task.weighted, self.task.steps
        )
        took = run_process(words, plain_environment())
        return {"seconds": took.seconds, "processor": took.processor, "peak": took.peak}

    def _read(self) -> Potts:
        with np.load(self.folder / "ours.npz") as found:
            return Potts(found["h"], found["J"])

    def _steps_to(self, value: float, weights: Array) -> int:
        """After how many steps the objective is at or below a value; where it never is, all that were tried."""
        self._ours(TRIED * (self.task.steps or 0), self.folder / "cache")
        with np.load(self.folder / "ours.npz") as found:
            trace = found["trace"]
        trace = trace - trace[-1] + objective(self._read(), self.x, weights)  # without the constants of the priors
        below = np.flatnonzero(trace <= value)
        return int(below[0]) + 1 if len(below) else len(trace)

    def _weights(self) -> Array:
        import gmlmdsl as gm

        return gm.sequence_weights(self.x) if self.task.weighted else np.ones(len(self.x))

    def _figures(self, runs: Mapping[str, list[dict[str, Any]]], values: Mapping[str, float], goals: bool) -> list[Figure]:
        words, out = self.task.words, []
        for who, found in runs.items():
            note = f"{found[0]['steps']} steps, to plmc's objective value" if who != PEER and PEER in runs else ""
            out.append(figure(self.name, who, f"whole process, {words}", [f["processor"] for f in found], "processor s", note))
            out.append(figure(self.name, who, f"whole process, {words}, by the clock", [f["seconds"] for f in found], "s"))
            out.append(memory(self.name, who, words, [f["peak"] for f in found]))
        for who in (FIRST, LATER):
            if PEER in runs:
                ours, theirs = ([f["processor"] for f in runs[k]] for k in (who, PEER))
                out.append(ratio(self.name, f"{who} / {PEER}", f"processor seconds, {words}", ours, theirs, 1.0 if goals else None))
            else:
                out.append(
                    missing(self.name, PEER, f"whole process, {words}", "processor s", f"plmc is not on PATH, nor in {_plmc_peer.VARIABLE}")
                )
                break
        return out + [figure(self.name, who, f"objective value, {words}", [v], "nats", f"{v:.3f}") for who, v in values.items()]

    def _checks(self, ours: Potts, theirs: Potts, weights: Array) -> list[Check]:
        reached, found = objective(theirs, self.x, weights), objective(ours, self.x, weights)
        above = "how far our objective value lies above plmc's"
        together = rank_correlation(scores(ours.J, self.x.shape[1]), scores(theirs.J, self.x.shape[1]))
        return [
            Check(self.name, f"{above}, {self.task.words}", max(found - reached, 0.0), 0.0, CLOSE * abs(reached)),
            Check(self.name, f"rank correlation of APC scores, {self.task.words}", together, 1.0, 0.01),
        ]


def objective(of: Potts, x: Array, weights: Array) -> float:
    """plmc's objective in float64: sum of w_r (log sum exp(f_ri) - f_ri(x_ri)) + .01 |h|^2 + 16 |J|^2, one site at a time."""
    n, rows, total = len(of.h), np.arange(len(x)), 0.0
    at = np.zeros((n, n), int)
    at[np.triu_indices(n, 1)] = np.arange(len(of.J))
    for i in range(n):
        f = of.h[i] + np.zeros((len(x), 1))
        for j in range(n):
            if j != i:
                f += (of.J[at[j, i]] if j < i else of.J[at[i, j]].T)[x[:, j]]  # [value there, value here]
        most = f.max(axis=1)
        total += float(weights @ (most + np.log(np.exp(f - most[:, None]).sum(axis=1)) - f[rows, x[:, i]]))
    return total + PENALTIES[0] * float((of.h**2).sum()) + PENALTIES[1] * float((of.J**2).sum())


def scores(couplings: Array, n: int) -> Array:
    """Frobenius norms of couplings less the average product correction, as plmc's (Dunn et al. 2008); shape (pairs,)."""
    norms = np.zeros((n, n))
    i, j = np.triu_indices(n, 1)
    norms[i, j] = norms[j, i] = np.sqrt((couplings**2).sum(axis=(1, 2)))
    means = norms.sum(axis=1) / (n - 1)
    return norms[i, j] - means[i] * means[j] / means.mean()


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's, of numbers without ties."""
    first, second = (np.argsort(np.argsort(v)).astype(float) for v in (a, b))
    return float(np.corrcoef(first, second)[0, 1])
