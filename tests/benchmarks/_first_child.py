"""README's first program in a process of its own: `python -m benchmarks._first_child program`, or `verbs`, what calls compile after it."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
import tempfile
import warnings
from itertools import product
from pathlib import Path
from typing import Any

from ._measure import ROOT, counted_programs

FENCE = re.compile(r"^```(gmlm|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FEW, MANY = 40, 90  # refits, folds, replicated data sets


def first_blocks() -> tuple[str, str]:
    """The program and the script that README begins with."""
    found = dict(reversed(FENCE.findall((ROOT / "README.md").read_text(encoding="utf-8"))))
    return found["gmlm"], found["python"]


def run_script() -> tuple[dict[str, Any], dict[str, int]]:
    """The names that the script binds, and the programs that each of its statements compiles, by the name that it binds."""
    program, script = first_blocks()
    names: dict[str, Any] = {}
    compiled: dict[str, int] = {}
    Path("votes.gmlm").write_text(program, encoding="utf-8")
    with counted_programs() as events:
        for statement in ast.parse(script).body:
            before = len(events)
            exec(compile(ast.Module([statement], []), "README.md", "exec"), names)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if isinstance(target, ast.Name):
                compiled[target.id] = len(events) - before
    return names, compiled


def verbs() -> dict[str, Any]:
    """What an equal program parsed anew compiles, and some verbs by few and then by more replicates; a moment of the draws, and exact."""
    import numpy as np

    import gmlmdsl as gm

    from ._autocorrelation import autocorrelation

    names, _ = run_script()
    fit, x, compiled = names["fit"], names["x"], {}

    def again() -> object:
        return gm.load("votes.gmlm", n=x.shape[1]).model().fit(x, mask="pairs", progress=False)

    calls = {
        "second fit of an equal program, parsed anew": lambda many: again(),
        "bootstrap": lambda many: fit.bootstrap(many, progress=False),
        "cross_validate": fit.cross_validate,
        "predictive": lambda many: fit.predictive("gibbs", draws=many),
    }
    with counted_programs() as events:
        for words, call in calls.items():
            before = len(events)
            call(FEW)
            then = len(events)
            call(MANY)
            compiled[words] = then - before, len(events) - then
    states = np.array(list(product([-1, 1], repeat=x.shape[1])))
    p = np.exp(np.asarray(fit.model.log_prob(fit.params, states), float))
    exact = p / p.sum() @ _pairs(states)
    drawn = autocorrelation(_pairs(names["draws"]["posterior"]["x"].values))
    return {"compiled": compiled, "mean": drawn.mean, "error": drawn.standard_error, "exact": float(exact)}


def _pairs(x: Any) -> Any:
    """The mean of x_i x_j over pairs, for spins in the last axis."""
    n = x.shape[-1]
    return ((x.sum(axis=-1) ** 2 - n) / (n * (n - 1))).astype(float)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = verbs() if sys.argv[1] == "verbs" else {"compiled": run_script()[1]}
        os.chdir(ROOT)
    print(json.dumps(found))
