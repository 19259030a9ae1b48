"""Two long runs whose memory must stay flat: a fit of rows on disk, and draws that stream to a file.

`python tests/long_runs.py rows --rows 10000000` and `python tests/long_runs.py stream --minutes 60` print
their numbers as JSON. The data of the first are made on the disk before it.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

import gmlmdsl as gm

PAIRS = """
input n : int
graph G = complete(range(n))
model pairs {
  var   x[i in G.nodes]      : bit
  param h[i in G.nodes]      ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
"""
LATTICE = """
graph G = grid(64, 64, wrap = true)
model ising { var x[i in G.nodes] : spin  param J  factor J * x[i] * x[j] for (i, j) in G.edges }
sampler sweep { update x[i] for i in G.nodes }
"""
PIECE = 100_000  # rows that are made at once
FEW, MANY = 2_000, 10**8  # draws of the run that is timed; the most draws of the long one


def memory() -> float:
    """Return the largest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_rows(path: Path, rows: int, cells: int) -> None:
    """Write rows of a Markov chain along the cells, one byte for each cell."""
    out = open_memmap(path, "w+", np.uint8, (rows, cells))
    for start in range(0, rows, PIECE):
        part = out[start : start + PIECE]
        rng = np.random.default_rng(start)
        part[:] = np.bitwise_xor.accumulate((rng.random(part.shape) < 0.3).astype(np.uint8), axis=1)
    out.flush()


def rows(count: int, cells: int, at_once: int, errors: bool) -> dict[str, float]:
    """Fit all pairs to rows on disk."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write_rows(path, count, cells)
        before, began = memory(), time.perf_counter()
        model = gm.parse(PAIRS, n=cells).model()
        fit = model.fit(np.load(path, mmap_mode="r"), rows_at_once=at_once, progress=False)
        found = {"rows": count, "cells": cells, "at_once": at_once, "seconds": time.perf_counter() - began, "MiB_before": before}
        found |= {"passes": len(fit.loss_trace) + 1, "MiB": memory(), "objective": fit.objective}
        if errors:
            found |= {"largest_error": max(float(e.max()) for e in fit.standard_errors.values()), "MiB_with_errors": memory()}
            found["seconds_with_errors"] = time.perf_counter() - began
        return found


def stream(minutes: float) -> dict[str, float]:
    """Draw into a Zarr store for some minutes, and report the memory in the second quarter of the time and in the last."""
    model, options = gm.parse(LATTICE).model(), {"warmup": 10, "chains": 32, "observe": {"m": lambda x: x.mean()}, "progress": False}
    held: list[float] = []

    def watch() -> None:
        while True:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            held.append(pages * resource.getpagesize() / 2**20)
            time.sleep(0.25)

    with tempfile.TemporaryDirectory() as folder:
        options |= {"keep_draws": False}
        ends = []
        for count in (FEW, FEW, 10 * FEW):  # the first run compiles, and the other two differ by draws alone
            model.sample({"J": 0.4}, draws=count, store=Path(folder) / "few.zarr", **options)
            ends.append(time.perf_counter())
        seconds = max((ends[2] - 2 * ends[1] + ends[0]) / (9 * FEW), 1e-6)
        draws = min(MANY, max(FEW, int(minutes * 60 / seconds)))
        threading.Thread(target=watch, daemon=True).start()
        began = time.perf_counter()
        model.sample({"J": 0.4}, draws=draws, store=Path(folder) / "many.zarr", **options)
        quarter, seen = len(held) // 4, list(held)
        second, last = (max(part) for part in (seen[quarter : 2 * quarter + 1], seen[3 * quarter :]))
        return {"draws": draws, "minutes": (time.perf_counter() - began) / 60, "MiB_second_quarter": second, "MiB_last_quarter": last}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    of_rows = kinds.add_parser("rows")
    of_rows.add_argument("--rows", type=int, default=2_000_000)
    of_rows.add_argument("--cells", type=int, default=50)
    of_rows.add_argument("--at-once", type=int, default=100_000)
    of_rows.add_argument("--errors", action="store_true", help="compute standard errors too, in one more pass")
    kinds.add_parser("stream").add_argument("--minutes", type=float, default=60.0)
    a = parser.parse_args()
    found = stream(a.minutes) if a.kind == "stream" else rows(a.rows, a.cells, a.at_once, a.errors)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
