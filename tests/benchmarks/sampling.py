"""Site updates per second: the derived kernel alone, through `Model.sample`, and thrml, in one run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

import gmlmdsl as gm

from ._measure import Check, Figure, Report, figure, in_turn, installed, missing, ratio
from ._samplers import CompiledSweeps, Sweeper, ThrmlSweeps, chain_energies
from ._tasks import CHAINS, TASKS, Task, ising, onsager_energy

KERNEL, THRML, SAMPLE = "gmlmdsl kernel", "thrml", "gmlmdsl Model.sample"
UNIT = "M/s"
REPEATS = 5
SWEEPS = 50  # of one timed call
DRAWS = (64, 320)  # the two lengths whose difference is the steady state of `Model.sample`
BURN, KEPT = 4, 16  # calls
GOALS = {"t1": 12, "t2": 12, "t3": 50, "disordered": 3}  # times as fast as thrml
ERRORS = 4  # standard errors within which means must agree


def run(name: str, quick: bool) -> Report:
    """One task."""
    task = TASKS[name](quick)
    sweepers: dict[str, Sweeper] = {KERNEL: CompiledSweeps(task, SWEEPS)}
    if installed("thrml"):
        sweepers[THRML] = ThrmlSweeps(task, SWEEPS)
    figures = [*_rates(task, sweepers, 3 if quick else REPEATS), *_sample_rate(task, quick)]
    if THRML not in sweepers:
        figures.append(missing(task.name, THRML, "site updates", UNIT, "thrml is not installed"))
    return Report(tuple(figures), tuple(_checks(task, sweepers, quick)))


def _rates(task: Task, sweepers: Mapping[str, Sweeper], repeats: int) -> list[Figure]:
    states = {name: s.advance(s.start(task.starts(0)), 0) for name, s in sweepers.items()}
    calls = {name: partial(s.advance, states[name], 1) for name, s in sweepers.items()}
    found = in_turn(calls, repeats)
    updates = task.n * CHAINS * SWEEPS / 1e6
    figures = []
    for name, runs in found.items():
        figures.append(figure(task.name, name, f"site updates, {task.words}", [updates / s for s in runs], UNIT, f"{CHAINS} chains"))
    if THRML in found:
        goal = 1 / GOALS[task.name]
        figures.append(ratio(task.name, f"{KERNEL} / {THRML}", "time of a site update", found[KERNEL], found[THRML], goal))
    for name, s in sweepers.items():
        figures.append(figure(task.name, name, "compile", [s.compile_seconds], "s", f"after {s.build_seconds:.2f} s of building"))
    return figures


def _sample_rate(task: Task, quick: bool) -> list[Figure]:
    """The marginal rate between two lengths, and what a call costs before its first draw."""
    model = gm.parse(task.program, **task.inputs).model()
    options: dict[str, Any] = {"warmup": 0, "chains": CHAINS, "keep_draws": False, "progress": False}
    calls = {str(n): partial(model.sample, task.params, "sweep", draws=n, **options) for n in DRAWS}
    calls[str(DRAWS[0])]()
    found = in_turn(calls, 1 if quick else 3)
    short, long = (statistics.median(found[str(n)]) for n in DRAWS)
    note = f"between {DRAWS[0]} and {DRAWS[1]} draws, which are not kept"
    if long <= short:
        return [missing(task.name, SAMPLE, "site updates", UNIT, "too noisy: the longer run took less time")]
    each = (long - short) / (DRAWS[1] - DRAWS[0])
    rate = figure(task.name, SAMPLE, "site updates", [task.n * CHAINS / each / 1e6], UNIT, note)
    return [rate, figure(task.name, SAMPLE, "fixed cost of a call", [max(short - DRAWS[0] * each, 0.0)], "s", "everything compiled before")]


def _checks(task: Task, sweepers: Mapping[str, Sweeper], quick: bool) -> list[Check]:
    """Both run the same chain from the same law of starts: means agree at every time, whether or not it has settled."""
    checks = []
    kept = KEPT // 2 if quick else KEPT
    if THRML in sweepers:
        ours, theirs = (chain_energies(sweepers[name], task, BURN, kept, seed) for name, seed in ((KERNEL, 1), (THRML, 2)))
        error = np.hypot(_standard_error(ours), _standard_error(theirs))
        checks.append(Check(task.name, "energy per site beside thrml's", float(ours.mean()), float(theirs.mean()), float(ERRORS * error)))
    if task.name == "t1":
        other = ising(quick, beta=0.3)
        compiled = sweepers[KERNEL]
        assert isinstance(compiled, CompiledSweeps)
        energies = chain_energies(compiled.with_task(other), other, BURN, kept, 3)
        allowed = float(ERRORS * _standard_error(energies))
        checks.append(Check(task.name, "energy per site at beta 0.3, exact", float(energies.mean()), onsager_energy(0.3), allowed))
    return checks


def _standard_error(chains: np.ndarray) -> float:
    return float(chains.std(ddof=1) / np.sqrt(len(chains)))
