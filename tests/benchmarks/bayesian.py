"""Networks of the bnlearn repository, five sets of evidence each: every marginal, a mode and log p, beside pgmpy's marginals."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from ._measure import Check, Figure, Report, figure, fresh_process, missing, plain_environment, ratio, repeats, run_process

VARIABLE = "GMLM_PGMPY"  # names the Python of an environment with pgmpy
NETWORKS = [
    "asia",
    "cancer",
    "earthquake",
    "sachs",
    "survey",
    "child",
    "insurance",
    "alarm",
    "hailfinder",
    "hepar2",
    "win95pts",
    "pathfinder",
    "andes",
]
FEW = 7  # of them with --quick
MOST = 1.5  # times pgmpy's processor time
PEER = Path(__file__).with_name("_pgmpy_peer.py")
OURS, THEIRS = "gmlmdsl: marginals, mode and log p", "pgmpy: marginals"


def run(quick: bool) -> Report:
    """Fresh processes of both, in turn; the files come with pgmpy."""
    python = os.environ.get(VARIABLE)
    if python is None:
        return Report((missing("bayesian", OURS, "all networks", "processor s", f"no environment with pgmpy: {VARIABLE} is not set"),))
    names = NETWORKS[:FEW] if quick else NETWORKS
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        run_process([python, PEER, "files", folder], plain_environment())
        for _ in range(repeats(quick)):
            ours.append(fresh_process("_bayesian_child", folder, *names)["networks"])
            questions = Path(folder) / "questions.json"
            questions.write_text(json.dumps({n: ours[-1][n]["questions"] for n in names}), encoding="utf-8")
            took = run_process([python, PEER, "answers", folder, questions], plain_environment())
            theirs.append(json.loads(took.printed.splitlines()[-1]))
    return Report(tuple(_figures(names, ours, theirs)), tuple(_checks(names, ours[-1], theirs[-1])))


def _figures(names: list[str], ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[Figure]:
    out = []
    for name in [*names, "all networks"]:
        which = names if name == "all networks" else [name]
        for words, runs in ((OURS, ours), (THEIRS, theirs)):
            for part in ("read", "answers"):
                out.append(figure("bayesian", words, f"{name}, {part}", [sum(r[n][part] for n in which) for r in runs], "processor s"))
    sets = {"all networks": names, "all networks but andes": [n for n in names if n != "andes"]}
    for label, which in sets.items():
        for words, parts in (("answers", ("answers",)), ("read and answers", ("read", "answers"))):
            mine, peers = ([sum(r[n][p] for n in which for p in parts) for r in runs] for runs in (ours, theirs))
            out.append(ratio("bayesian", "gmlmdsl / pgmpy", f"{label}, {words}", mine, peers, MOST))
    return out


def _checks(names: list[str], ours: dict[str, Any], theirs: dict[str, Any]) -> list[Check]:
    """Marginals beside pgmpy's, and a mode's log p beside log p of its configuration."""
    out = []
    for name in names:
        mine, peers = ours[name], theirs[name]
        worst = max(
            abs(a - b)
            for one, other in zip(mine["laws"], peers["laws"], strict=True)
            for v in other
            for a, b in zip(one[v], other[v], strict=True)
        )
        out.append(Check("bayesian", f"{name}: largest difference of a marginal", worst, 0.0, 1e-5))
        apart = max(abs(mode - own) for mode, own, _ in mine["scores"])
        out.append(Check("bayesian", f"{name}: log p of the mode, stated and computed", apart, 0.0, 1e-3))
    return out
