"""Modes of three of PGMax's examples: an Ising lattice under random fields, the deconvolution of binary images, and digits of a Boltzmann machine.

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
from real_data import FOLDER, lacking

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
MACHINE = """
input hidden : int
input pixels : int
input w[j in range(hidden), i in range(pixels)] : real
input u[j in range(hidden), v in range(2)] : real
input b[i in range(pixels), v in range(2)] : real
model machine {
  var h[j in range(hidden)] : bit
  var x[i in range(pixels)] : bit
  factor u[j, h[j]] for j in range(hidden)
  factor b[i, x[i]] for i in range(pixels)
  factor w[j, i] * h[j] * x[i] for j in range(hidden), i in range(pixels)
}
"""
WEIGHTS = "rbm_mnist.npz"  # of PGMax's repository, examples/example_data


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


def machine(quick: bool) -> dict[str, np.ndarray] | None:
    """The weights of PGMax's example, and biases with Gumbel noise; small random ones of a quick run; None without the file."""
    rng = np.random.default_rng(0)
    if quick:
        w, u, b = rng.normal(size=(5, 9)), rng.normal(size=5), rng.normal(size=9)
    elif lacking(WEIGHTS):
        return None
    else:
        with np.load(FOLDER / WEIGHTS) as kept:
            w, u, b = (kept[name].astype(float) for name in ("W", "bh", "bv"))

    def noisy(bias: np.ndarray) -> np.ndarray:
        return np.stack([np.zeros_like(bias), bias], axis=1) + rng.gumbel(size=(len(bias), 2))

    return {"w": w, "u": noisy(u), "b": noisy(b)}


def score(task: dict[str, np.ndarray], found: dict[str, Any]) -> float:
    """The unnormalised log p of a mode; -infinity of features and places that do not make the images."""
    if "field" in task:
        x = np.asarray(found["x"])
        s = 2 * x - 1
        return float(
            COUPLING * (s * np.roll(s, -1, 0) + s * np.roll(s, -1, 1)).sum() + np.take_along_axis(task["field"], x[..., None], 2).sum()
        )
    if "b" in task:
        h, x = np.asarray(found["h"]), np.asarray(found["x"])
        own = sum(np.take_along_axis(task[k], v[:, None], 1).sum() for k, v in (("u", h), ("b", x)))
        return float(own + h @ task["w"] @ x)
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
    elif "b" in task:
        hidden, pixels = task["w"].shape
        model, clamp = gm.parse(MACHINE, hidden=hidden, pixels=pixels, **task).model(), None
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
    tasks: dict[str, tuple[dict[str, np.ndarray] | None, tuple[str, ...]]] = {
        "a lattice of 50 x 50 bits": (lattice(10 if quick else 50), ("max-product", "anneal")),
        "deconvolution of binary images": (deconvolution(*((1, 6, 1, 2) if quick else (4, 12, 2, 4))), ("max-product",)),
        "a digit of a Boltzmann machine of 784 and 500 bits": (machine(quick), ("max-product",)),
    }
    found = [
        Report((missing("modes", OURS, words, "processor s", lacking(WEIGHTS)),)) if task is None else compared(words, task, methods, quick)
        for words, (task, methods) in tasks.items()
    ]
    return Report(tuple(f for r in found for f in r.figures), tuple(c for r in found for c in r.checks))


def compared(words: str, task: dict[str, np.ndarray], methods: tuple[str, ...], quick: bool) -> Report:
    """Times and scores of one task by each method, and by PGMax."""
    python, figures = os.environ.get(VARIABLE), list[Figure]()
    runs: dict[str, list[dict[str, Any]]] = {f"{OURS} {method}": [] for method in methods} | {THEIRS: []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.npz"
        np.savez(path, **task)  # type: ignore[arg-type]
        for _ in range(repeats(quick)):
            for method in methods:
                runs[f"{OURS} {method}"].append(fresh_process("_modes_child", path, method))
            if python is not None:
                runs[THEIRS].append(json.loads(run_process([python, PEER, path], plain_environment()).printed.splitlines()[-1]))
    scores = {who: [score(task, f["modes"]) for f in found] for who, found in runs.items()}
    checks = [
        Check("modes", f"log p of the mode of {who}, {words}, stated and computed", found[0]["stated"], scores[who][0], 1e-2)
        for who, found in runs.items()
        if who != THEIRS
    ]
    if python is None:
        figures.append(missing("modes", THEIRS, words, "processor s", f"no environment with PGMax: {VARIABLE} is not set"))
        del runs[THEIRS]
    for who, found in runs.items():
        figures.append(figure("modes", who, f"{words}, seconds", [f["took"] for f in found], "processor s"))
        figures.append(figure("modes", who, f"{words}, log p of the mode", scores[who], "nats"))
    if THEIRS in runs:
        both = ([f["took"] for f in runs[who]] for who in (f"{OURS} max-product", THEIRS))
        figures.append(ratio("modes", f"{OURS} max-product / {THEIRS}", words, *both, 1.0))
        best = max(v for who, found in scores.items() if who != THEIRS for v in found)
        checks.append(Check("modes", f"the better mode of both, {words}, is ours", max(best, scores[THEIRS][0]), best, 1e-3))
    return Report(tuple(figures), tuple(checks))
