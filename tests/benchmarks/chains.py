"""A hidden Markov model and a linear-chain conditional random field beside a forward algorithm written by hand in JAX."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ._chain_models import CRF, HMM
from ._measure import Check, Figure, Report, figure, fresh_process, memory, ratio, repeats

MOST_FIRST, MOST_RATIO = 5.0, 2.0  # processor seconds of a first fit; times the hand-written program
Sizes = tuple[str, dict[str, int], str]
FULL: tuple[Sizes, ...] = (
    (HMM, {"states": 64, "length": 1000, "symbols": 20, "rows": 1}, "64 states, 1000 steps"),
    (CRF, {"length": 12, "symbols": 12, "rows": 200}, "200 rows of 12 tags"),
    (CRF, {"length": 20, "symbols": 30, "rows": 1000}, "1000 rows of 20 tags"),
)
QUICK: tuple[Sizes, ...] = (
    (HMM, {"states": 3, "length": 20, "symbols": 4, "rows": 2}, "3 states, 20 steps"),
    (CRF, {"length": 5, "symbols": 4, "rows": 30}, "30 rows of 5 tags"),
)


def run(quick: bool) -> Report:
    """First fits in fresh processes without a cache and with one, in turn; then values and gradients, in turn with those by hand."""
    figures: list[Figure] = []
    checks: list[Check] = []
    for kind, sizes, words in QUICK if quick else FULL:
        found = _kind(kind, [f"{k}={v}" for k, v in sizes.items()], f"{kind}, {words}", repeats(quick), goals=not quick)
        figures += found.figures
        checks += found.checks
    return Report(tuple(figures), tuple(checks))


def _kind(kind: str, sizes: list[str], words: str, count: int, goals: bool) -> Report:
    runs: dict[str, list[dict[str, Any]]] = {"a first process": [], "a later process": []}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        warm = fresh_process("_chain_child", kind, "warm", *sizes, cache=cache)
        for _ in range(count):
            runs["a first process"].append(fresh_process("_chain_child", kind, "fit", *sizes))
            runs["a later process"].append(fresh_process("_chain_child", kind, "fit", *sizes, cache=cache))
    figures: list[Figure] = []
    for which, found in runs.items():
        taken = [f["fit"] for f in found]
        note, most = f"{found[0]['steps']} steps", MOST_FIRST if goals and which == "a first process" else None
        figures.append(figure("chains", "gmlmdsl Model.fit", f"{words}, first fit of {which}", taken, "processor s", note, most))
        figures.append(memory("chains", "gmlmdsl Model.fit", f"{words}, {which}", [f["peak"] for f in found]))
    for who, times in warm["times"].items():
        figures.append(figure("chains", who, f"{words}, value and gradient", [1000 * t for t in times], "ms", "compiled before"))
    ours, theirs = warm["times"].values()
    figures.append(ratio("chains", "gmlmdsl / by hand", f"{words}, value and gradient", ours, theirs, MOST_RATIO if goals else None))
    figures.append(memory("chains", "both", f"{words}, value and gradient", [warm["peak"]]))
    checks = [
        Check("chains", f"{words}, {what}, beside that by hand", a, b, 1e-9 * max(1.0, abs(b))) for what, (a, b) in warm["found"].items()
    ]
    return Report(tuple(figures), tuple(checks))
