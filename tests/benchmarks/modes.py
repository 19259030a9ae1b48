"""Modes of two of PGMax's examples: an Ising lattice under random fields, and the deconvolution of binary images.

Every number of seconds is one process' processor time, from the declaration of the model to the mode, with what is compiled in between. Imports
are left out of both.
The scores are computed here, from the configurations of both.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ._measure import Check, Figure, Report, figure, fresh_process, missing, plain_environment, ratio, repeats, run_process

VARIABLE = "GMLM_PGMAX"  # names the Python of an environment with PGMax and JAX
PEER = Path(__file__).with_name("_pgmax_peer.py")
OURS, THEIRS = "gmlmdsl", "PGMax max-product"
COUPLING = 0.8
LATTICE = """
input n : int
input u[r in range(n), c in range(n), v in range(2)] : real
model lattice {
  var x[r in range(n), c in range(n)] : bit
  let s[r in range(n), c in range(n)] = 2 * x[r, c] - 1
  factor u[r, c, x[r, c]] for r in range(n), c in range(n)
  factor 0.8 * s[r, c] * s[(r + 1) % n, c] for r in range(n), c in range(n)
  factor 0.8 * s[r, c] * s[r, (c + 1) % n] for r in range(n), c in range(n)
}
"""
DECONVOLUTION = """
input images : int
input size : int
input features : int
input patch : int
index place = range(size - patch + 1)
index offset = range(patch)
input us[i in range(images), f in range(features), r in place, c in place] : real
input uw[f in range(features), a in offset, b in offset] : real
model deconvolution {
  var s[i in range(images), f in range(features), r in place, c in place] : bit
  var w[f in range(features), a in offset, b in offset] : bit
  var x[i in range(images), r in range(size), c in range(size)] : bit
  factor us[i, f, r, c] * s[i, f, r, c] for i in range(images), f in range(features), r in place, c in place
  factor uw[f, a, b] * w[f, a, b] for f in range(features), a in offset, b in offset
  require (x[i, r, c] == 1) == any(s[i, f, r - a, c - b] == 1 and w[f, a, b] == 1 for f in range(features), a in offset, b in offset
                                   if r >= a and c >= b and r - a <= size - patch and c - b <= size - patch)
    for i in range(images), r in range(size), c in range(size)
}
"""


def lattice(n: int) -> dict[str, np.ndarray]:
    """Gumbel fields of PGMax's example, by their own seed."""
    return {"field": np.random.default_rng(0).gumbel(size=(n, n, 2)), "coupling": np.array(COUPLING)}


def deconvolution(images: int, size: int, features: int, patch: int) -> dict[str, np.ndarray]:
    """Images that are unions of features at places, and log odds of both with Gumbel noise, as in PGMax's example."""
    rng = np.random.default_rng(0)
    m = size - patch + 1
    w, s = rng.random((features, patch, patch)) < 0.4, rng.random((images, features, m, m)) < 0.06
    seen = np.zeros((images, size, size), bool)
    for i, f, r, c in zip(*np.nonzero(s), strict=True):
        seen[i, r : r + patch, c : c + patch] |= w[f]

    def odds(p: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.log(p / (1 - p)) + rng.gumbel(size=shape) - rng.gumbel(size=shape)

    return {"us": odds(0.01, s.shape), "uw": odds(0.25, w.shape), "seen": seen}


def score(task: dict[str, np.ndarray], found: dict[str, Any]) -> float:
    """The unnormalised log p of a mode; -infinity of features and places that do not make the images."""
    if "field" in task:
        x = np.asarray(found["x"])
        s = 2 * x - 1
        return float(
            COUPLING * (s * np.roll(s, -1, 0) + s * np.roll(s, -1, 1)).sum() + np.take_along_axis(task["field"], x[..., None], 2).sum()
        )
    s, w = np.asarray(found["s"]), np.asarray(found["w"]) == 1
    made = np.zeros(task["seen"].shape, bool)
    for i, f, r, c in zip(*np.nonzero(s), strict=True):
        made[i, r : r + w.shape[1], c : c + w.shape[1]] |= w[f]
    return float((task["us"] * s).sum() + (task["uw"] * w).sum()) if (made == task["seen"]).all() else -np.inf


def ours(path: str, method: str) -> dict[str, Any]:
    """The mode by one method, in this process."""
    import gmlmdsl as gm
    import gmlmdsl.model  # JAX is imported before the clock starts, as by the peer.

    task = dict(np.load(path))
    began = time.process_time()
    if "field" in task:
        model, clamp = gm.parse(LATTICE, n=len(task["field"]), u=task["field"]).model(), None
    else:
        images, features = task["us"].shape[:2]
        size, patch = task["seen"].shape[1], task["uw"].shape[1]
        sizes = {"images": images, "size": size, "features": features, "patch": patch}
        model = gm.parse(DECONVOLUTION, **sizes, us=task["us"], uw=task["uw"]).model()
        clamp = {"x": task["seen"].astype(int)}
    mode = model.map({}, clamp=clamp, method=method)
    seconds = time.process_time() - began
    best = mode.configuration if isinstance(mode.configuration, dict) else {"x": mode.configuration}
    return {"took": seconds, "modes": {k: np.asarray(v).tolist() for k, v in best.items()}, "stated": float(mode.log_potential)}


def run(quick: bool) -> Report:
    """Fresh processes of both, in turn."""
    tasks = {
        "a lattice of 50 x 50 bits": (lattice(10 if quick else 50), ("max-product", "anneal")),
        "deconvolution of binary images": (deconvolution(*((1, 6, 1, 2) if quick else (4, 12, 2, 4))), ("max-product",)),
    }
    python = os.environ.get(VARIABLE)
    figures: list[Figure] = []
    checks: list[Check] = []
    for words, (task, methods) in tasks.items():
        runs: dict[str, list[dict[str, Any]]] = {f"{OURS} {method}": [] for method in methods} | {THEIRS: []}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "task.npz"
            np.savez(path, **task)  # type: ignore[arg-type]
            for _ in range(repeats(quick)):
                for method in methods:
                    runs[f"{OURS} {method}"].append(fresh_process("_modes_child", path, method))
                if python is not None:
                    runs[THEIRS].append(json.loads(run_process([python, PEER, path], plain_environment()).printed.splitlines()[-1]))
        if python is None:
            figures.append(missing("modes", THEIRS, words, "processor s", f"no environment with PGMax: {VARIABLE} is not set"))
            del runs[THEIRS]
        for who, found in runs.items():
            figures.append(figure("modes", who, f"{words}, seconds", [f["took"] for f in found], "processor s"))
            figures.append(figure("modes", who, f"{words}, log p of the mode", [score(task, f["modes"]) for f in found], ""))
        first = runs[f"{OURS} max-product"]
        if THEIRS in runs:
            figures.append(
                ratio("modes", f"{OURS} max-product / {THEIRS}", words, [f["took"] for f in first], [f["took"] for f in runs[THEIRS]], 1.0)
            )
            theirs, best = (
                score(task, runs[THEIRS][0]["modes"]),
                max(score(task, f["modes"]) for k, v in runs.items() if k != THEIRS for f in v),
            )
            checks.append(Check("modes", f"the better mode of both, {words}, is ours", max(best, theirs), best, 1e-3))
        for who, found in runs.items():
            if who != THEIRS:
                stated = found[0]["stated"]
                checks.append(
                    Check(
                        "modes", f"log p of the mode of {who}, {words}, stated and computed", stated, score(task, found[0]["modes"]), 1e-2
                    )
                )
    return Report(tuple(figures), tuple(checks))
