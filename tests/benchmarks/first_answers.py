"""README's first program, load, fit and sample, in fresh processes: processor time beside that of importing the libraries, and what is compiled."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from ._first_child import FEW, MANY
from ._measure import Check, Figure, Report, figure, fresh_process, memory, plain_environment, ratio, repeats, run_process

LIBRARIES = "import jax, optax, equinox, arviz"
FIRST, LATER = "a first process", "a later process"
GOALS = {FIRST: 2.2, LATER: 1.3}
MOST = {"second fit": 0, "fit": 3, "draws": 2}  # programs; of everything else 1
WORDS = {"fit": "README's fit", "draws": "README's sample"}
ERRORS = 4  # standard errors within which the moment of the draws must lie


def run(quick: bool) -> Report:
    """Imports, a process without compiled programs, one with those of an earlier one: in turn."""
    found: dict[str, list[dict[str, Any]]] = {FIRST: [], LATER: []}
    imports: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        caches = [Path(folder) / f"cache{k}" for k in range(repeats(quick))]
        for cache in caches:
            imports.append(run_process([sys.executable, "-W", "ignore", "-c", LIBRARIES], plain_environment()))
            found[FIRST].append(fresh_process("_first_child", "program", cache=cache))
            found[LATER].append(fresh_process("_first_child", "program", cache=cache))
        more = fresh_process("_first_child", "verbs")
    figures = [
        figure("first_answers", LIBRARIES, "processor time", [i.processor for i in imports], "processor s"),
        memory("first_answers", LIBRARIES, "imports", [i.peak for i in imports]),
    ]
    for which, runs in found.items():
        figures += _figures(which, runs, [i.processor for i in imports])
    figures += [_counted(words, [few], f"{MANY} replicates after {FEW}: {many} more") for words, (few, many) in more["compiled"].items()]
    moment = Check("first_answers", "mean of x_i x_j over draws beside exact", more["mean"], more["exact"], ERRORS * more["error"])
    return Report(tuple(figures), (moment,))


def _figures(which: str, runs: list[dict[str, Any]], imports: list[float]) -> list[Figure]:
    times = [r["processor"] for r in runs]
    out = [
        figure("first_answers", "gmlmdsl", f"README's program, {which}", times, "processor s"),
        figure("first_answers", "gmlmdsl", f"README's program, {which}, by the clock", [r["seconds"] for r in runs], "s"),
        memory("first_answers", "gmlmdsl", f"README's program, {which}", [r["peak"] for r in runs]),
        ratio("first_answers", "gmlmdsl / imports alone", f"README's program, {which}", times, imports, GOALS[which]),
    ]
    if which == FIRST:
        out += [_counted(name, [r["compiled"][name] for r in runs]) for name in WORDS]
    return out


def _counted(words: str, counts: list[int], note: str = "") -> Figure:
    """How many programs a call compiled, beside the goal."""
    most = next((k for start, k in MOST.items() if words.startswith(start)), 1)
    words = f"compiled by {WORDS.get(words, words)}"
    return figure("first_answers", "gmlmdsl", words, counts, "programs", note if most == 1 else "", most)
