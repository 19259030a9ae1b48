"""Every pair of 16 votes of 435 members, missing ones summed out: processor seconds from a file to standard errors, in fresh processes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from real_data import FOLDER, lacking

from ._measure import Check, Figure, Report, figure, fresh_process, memory, missing, repeats
from ._votes_child import HOLE, read_votes

Array = np.ndarray
FILE = "house-votes-84.csv"
FIRST, LATER = "a first process", "a later process"
MOST, MOST_VALUE = 10.0, 0.1  # processor seconds of a process; seconds of one value
FEW = 60  # rows with --quick


def run(quick: bool) -> Report:
    """Processes without compiled programs and with those of an earlier one, in turn; in another, single values of the loss."""
    if why := lacking(FILE):
        return Report((missing("votes", "gmlmdsl Model.fit", "from file to standard errors", "processor s", why),))
    path, rows = FOLDER / FILE, FEW if quick else 0
    runs: dict[str, list[dict[str, Any]]] = {FIRST: [], LATER: []}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        timed = fresh_process("_votes_child", path, rows, "timed", cache=cache)
        for _ in range(repeats(quick)):
            runs[FIRST].append(fresh_process("_votes_child", path, rows))
            runs[LATER].append(fresh_process("_votes_child", path, rows, cache=cache))
    x = read_votes(str(path), rows)
    words = f"{len(x)} rows, {(x == HOLE).sum()} holes"
    figures = [f for which, found in runs.items() for f in _figures(which, words, found)]
    figures.append(figure("votes", "gmlmdsl Model.loss", f"one value, {words}", timed["times"], "s", most=MOST_VALUE))
    last = runs[LATER][-1]
    expected = penalised(x, np.array(last["h"]), np.array(last["J"]))
    return Report(
        tuple(figures), (Check("votes", "the objective at the end, by enumeration", last["objective"], expected, 1e-6 * expected),)
    )


def _figures(which: str, words: str, runs: list[dict[str, Any]]) -> list[Figure]:
    whole = f"from file to standard errors, {words}, {which}"
    times = [r["processor"] for r in runs]
    note = "" if all(r["finite"] for r in runs) else "errors that are not finite"
    return [
        figure("votes", "gmlmdsl Model.fit", whole, times, "processor s", note, MOST),
        figure("votes", "gmlmdsl Model.fit", f"{whole}, by the clock", [r["seconds"] for r in runs], "s"),
        memory("votes", "gmlmdsl Model.fit", which, [r["peak"] for r in runs]),
    ]


def penalised(x: Array, h: Array, J: Array) -> float:
    """The objective by enumeration of all configurations: minus the log conditionals of known cells, and minus the log priors.

    p(x_i | known others) is the share of configurations that agree with all known cells among those that agree with all but i.
    """
    n = x.shape[1]
    bits = 1 << np.arange(n)
    states = np.where(np.arange(2**n)[:, None] & bits, 1, -1)
    i, j = np.triu_indices(n, 1)
    energy = states @ h + sum(J[k] * states[:, i[k]] * states[:, j[k]] for k in range(len(J)))
    p, total = np.exp(energy - energy.max()), 0.0
    for row in x:
        holes = np.zeros(1, int)
        for bit in bits[row == HOLE]:
            holes = np.concatenate([holes, holes + bit])
        here = int(bits[row == 1].sum())
        both = p[here + holes].sum()
        total += sum(np.log1p(p[(here ^ bit) + holes].sum() / both) for bit in bits[row != HOLE])
    return float(total) + sum(float((v**2).sum()) / 2 + v.size * np.log(2 * np.pi) / 2 for v in (h, J))
