"""Votes of the US House with holes, from file to standard errors: `python -m benchmarks._votes_child FILE ROWS [timed]`; 0 rows are all."""

from __future__ import annotations

import csv
import json
import sys
from typing import Any

import numpy as np

from ._measure import in_turn

REPEATS = 5
HOLE = 9
PARTIES = ("republican", "democrat")
PROGRAM = """
input n : int
index vote = range(n)
graph G = complete(vote)
model votes {
  var   x[i in vote] : spin
  param h[i in vote]         ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i]           for i in vote
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
"""


def read_votes(path: str, rows: int) -> np.ndarray:
    """1 for yes, -1 for no, 9 where nothing is known; the first column is the party."""
    with open(path, newline="", encoding="utf-8") as file:
        lines = [[v.strip() for v in line[1:]] for line in csv.reader(file) if line and line[0] in PARTIES]
    return np.array([[{"y": 1, "n": -1}.get(v, HOLE) for v in line] for line in lines])[: rows or None]


def _child(path: str, rows: int, timed: bool) -> dict[str, object]:
    import gmlmdsl as gm

    x = read_votes(path, rows)
    model = gm.parse(PROGRAM, n=x.shape[1]).model()
    fit = model.fit(x, mask="single", missing=HOLE, progress=False)
    finite = all(np.isfinite(v).all() for v in fit.standard_errors.values())
    found = {"objective": fit.objective, "finite": finite} | {k: v.tolist() for k, v in fit.params.items()}
    return found | {"times": _times(model, fit.params, x)} if timed else found


def _times(model: Any, params: Any, x: np.ndarray) -> list[float]:
    """Seconds of one value of the loss by all masks of one cell, compiled before, in the precision of a fit."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        at = {k: jnp.asarray(v) for k, v in params.items()}
        value = jax.jit(lambda p: model.loss(p, x, "single", missing=HOLE))
        calls = {"value": lambda: jax.block_until_ready(value(at))}
        calls["value"]()
        return in_turn(calls, REPEATS)["value"]


if __name__ == "__main__":
    print(json.dumps(_child(sys.argv[1], int(sys.argv[2]), len(sys.argv) > 3)))
