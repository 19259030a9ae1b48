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

import gmlmdsl as gm

from . import _plmc_peer
from ._measure import Check, Figure, Report, figure, fresh_process, memory, missing, plain_environment, ratio, repeats, run_process
from ._plmc_peer import Potts
from ._potts_child import PENALTIES
from ._potts_data import codes, drawn, write_fasta

Array = np.ndarray
OURS, PEER = "gmlmdsl", "plmc"
FIRST, LATER = f"{OURS}, a first process", f"{OURS}, a later process"
TRIED = 2  # times plmc's steps, where these are limited, to look for its objective value in
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
    later: bool = False  # whether a process that finds compiled programs is timed too
    runs: int = 5  # the most, where one takes minutes


def family(columns: int | None = None) -> Array:
    """Codes of the DHFR alignment: the columns of its focus sequence, or the first of them."""
    return codes(gm.read_alignment(FOLDER / FILE).x)[:, :columns]


TASKS = {
    "potts_24": Task("24 columns of DHFR", partial(family, 24), file=FILE, later=True),
    "potts_100": Task("100 simulated columns of 21 letters", partial(drawn, 100, 5000), steps=100, runs=3),
    "potts_dhfr": Task("all of DHFR, weighted", family, weighted=True, steps=100, file=FILE, runs=1),
}


def run(name: str, quick: bool) -> Report:
    """A first run tells how many steps ours takes to plmc's objective value; then processes of so many, and plmc's, in turn."""
    task = TASKS[name]
    if quick:
        task = Task("5 simulated columns", partial(drawn, 5, 400), task.weighted, task.steps, later=task.later)
    program = _plmc_peer.binary()
    if why := lacking(task.file) if task.file else "":
        return Report((missing(name, OURS, f"fit, {task.words}", "processor s", why),))
    with tempfile.TemporaryDirectory() as folder:
        return _Run(name, task, Path(folder), program).report(min(repeats(quick), task.runs), goals=not quick)


class _Run:
    """One task in a temporary folder: the alignment, the cache of compiled programs, what the processes write."""

    def __init__(self, name: str, task: Task, folder: Path, program: str | None):
        self.name, self.task, self.folder, self.program = name, task, folder, program
        self.x = task.rows()
        self.alignment = folder / "alignment.fasta"
        write_fasta(self.alignment, self.x)
        self.weights = gm.sequence_weights(self.x) if task.weighted else np.ones(len(self.x))

    def report(self, count: int, goals: bool) -> Report:
        """See `run`."""
        runs: dict[str, list[dict[str, Any]]] = {FIRST: []} | ({LATER: []} if self.task.later else {})
        if self.program is None:
            steps = self.task.steps or 0
            if self.task.later:
                self._ours(steps, self.folder / "cache")
        else:
            runs[PEER] = [self._plmc()]
            theirs, effective = _plmc_peer.read_parameters(self.folder / "plmc.params")
            reached = objective(theirs, self.x, self.weights)
            steps = self._steps_to(reached)
        for k in range(count):
            for who in runs:
                if who != PEER:
                    runs[who].append(self._ours(steps, self.folder / "cache" if who == LATER else "off"))
                elif k:  # the one that said how far to go counts
                    runs[who].append(self._plmc())
        ours = self._read()
        values = {OURS: objective(ours, self.x, self.weights)}
        if self.program is None:
            why = f"plmc is not on PATH, nor in {_plmc_peer.VARIABLE}"
            absent = missing(self.name, PEER, f"whole process, {self.task.words}", "processor s", why)
            return Report((*self._figures(runs, values, goals), absent))
        figures = self._figures(runs, values | {PEER: reached}, goals)
        return Report(tuple(figures), tuple(self._checks(ours, theirs, values[OURS] - reached, reached, effective)))

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

    def _steps_to(self, value: float) -> int:
        """After how many steps the objective is at or below a value; where it never is, all that were tried."""
        steps = 0
        for most in (1, TRIED) if self.task.steps else (0,):
            self._ours(most * (self.task.steps or 0), self.folder / "cache")
            with np.load(self.folder / "ours.npz") as found:
                trace = found["trace"]
            trace = trace - trace[-1] + objective(self._read(), self.x, self.weights)  # without the constants of the priors
            below, steps = np.flatnonzero(trace <= value), len(trace)
            if len(below):
                return int(below[0]) + 1
        return steps

    def _figures(self, runs: Mapping[str, list[dict[str, Any]]], values: Mapping[str, float], goals: bool) -> list[Figure]:
        words, out = self.task.words, []
        for who, found in runs.items():
            note = f"{found[0]['steps']} steps, to plmc's objective value" if who != PEER and PEER in runs else ""
            out.append(figure(self.name, who, f"whole process, {words}", [f["processor"] for f in found], "processor s", note))
            out.append(figure(self.name, who, f"whole process, {words}, by the clock", [f["seconds"] for f in found], "s"))
            out.append(memory(self.name, who, words, [f["peak"] for f in found]))
        for who in runs:
            if who != PEER and PEER in runs:
                ours, theirs = ([f["processor"] for f in runs[k]] for k in (who, PEER))
                out.append(ratio(self.name, f"{who} / {PEER}", f"processor seconds, {words}", ours, theirs, 1.0 if goals else None))
        return out + [figure(self.name, who, f"objective value, {words}", [v], "nats", f"{v:.3f}") for who, v in values.items()]

    def _checks(self, ours: Potts, theirs: Potts, above: float, reached: float, effective: float) -> list[Check]:
        total, n, words = float(self.weights.sum()), self.x.shape[1], self.task.words
        together = rank_correlation(scores(ours.J, n), scores(theirs.J, n))
        return [
            Check(self.name, f"effective sequences of plmc, {words}", effective, total, 1e-3 * total),
            Check(self.name, f"how far our objective value lies above plmc's, {words}", max(above, 0.0), 0.0, CLOSE * abs(reached)),
            Check(self.name, f"rank correlation of APC scores, {words}", together, 1.0, 0.01),
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
