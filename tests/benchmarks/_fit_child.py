"""One fit of F1 in a process of its own: `python -m benchmarks._fit_child SITES ROWS WHO`, WHO being `gmlmdsl` or `scikit-learn`."""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from ._ising_data import every_pair, ising_data, others

PROGRAM = """
input n : int
input pairs[e, 2] : int
index site = range(n)
graph G = edges(pairs, nodes = site)
model ising {
  var   x[i in site] : spin
  param h[i in site]
  param J[(i, j) in G.edges]
  factor h[i] * x[i]           for i in site
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
"""


def _ours(x: np.ndarray, pairs: np.ndarray) -> None:
    import gmlmdsl as gm

    gm.parse(PROGRAM, n=x.shape[1], pairs=pairs).model().fit(x, mask="single", progress=False)


def _theirs(x: np.ndarray, pairs: np.ndarray) -> None:
    from ._sklearn_peer import NodeWise

    NodeWise(x, others(x.shape[1], pairs), 1).fit()


def _child(n: int, rows: int, who: str) -> dict[str, float]:
    x, pairs = ising_data(n, rows).x, every_pair(n)
    call = _ours if who == "gmlmdsl" else _theirs
    if who == "gmlmdsl":
        import gmlmdsl as gm

        gm.Model  # noqa: B018 - loads JAX
    else:
        import sklearn.linear_model  # noqa: F401
    start = time.perf_counter()
    call(x, pairs)
    return {"first": time.perf_counter() - start}


if __name__ == "__main__":
    print(json.dumps(_child(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
