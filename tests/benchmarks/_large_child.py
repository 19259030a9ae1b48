"""A fit of very many rows in a process of its own: `python -m benchmarks._large_child CELLS ROWS`."""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from ._fit_child import PROGRAM
from ._ising_data import every_pair

COUPLING = 0.4


def chains(cells: int, rows: int) -> np.ndarray:
    """Rows of an Ising chain without fields: a spin differs from the one before with probability 1 / (1 + exp(2 J)); in bytes."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random((rows, cells), np.float32) < 1 / (1 + np.exp(2 * COUPLING)), -1, 1).astype(np.int8)
    return np.cumprod(x, axis=1, dtype=np.int8)


def _child(cells: int, rows: int) -> dict[str, float]:
    import gmlmdsl as gm

    pairs = every_pair(cells)
    model = gm.parse(PROGRAM, n=cells, pairs=pairs).model()
    start = time.perf_counter()
    fit = model.fit(chains(cells, rows), mask="single", progress=False)
    errors = fit.standard_errors["J"]
    truth = np.where(pairs[:, 1] == pairs[:, 0] + 1, COUPLING, 0.0)
    apart = (fit.params["J"] - truth) / errors
    return {"fit": time.perf_counter() - start, "steps": len(fit.loss_trace), "apart": float((apart**2).mean()), "pairs": len(pairs)}


if __name__ == "__main__":
    print(json.dumps(_child(int(sys.argv[1]), int(sys.argv[2]))))
