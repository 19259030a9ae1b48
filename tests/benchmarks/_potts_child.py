"""A fit by plmc's objective in a process of its own: `python -m benchmarks._potts_child FASTA OUT WEIGHTED STEPS`, all as numbers but files."""

from __future__ import annotations

import json
import sys
import time

import numpy as np

PENALTIES = 0.01, 16.0  # of squared fields and squared couplings
PROGRAM = """
input sites : int
input s_h : positive
input s_J : positive
domain aa = letters("-ACDEFGHIKLMNPQRSTVWY")
index site = range(sites)
graph G = complete(site)
model potts {
  var   x[i in site] : aa
  param h[i in site, a in aa]                  ~ normal(0, s_h)
  param J[(i, j) in G.edges, a in aa, b in aa] ~ normal(0, s_J)
  factor h[i, x[i]]          for i in site
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""


def _child(fasta: str, out: str, weighted: bool, steps: int) -> dict[str, float]:
    import gmlmdsl as gm

    gm.Model  # noqa: B018 - loads JAX
    start, spent = time.perf_counter(), time.process_time()
    alignment = gm.read_alignment(fasta, focus=False)
    weights = gm.sequence_weights(alignment) if weighted else None
    s_h, s_J = (float(np.sqrt(1 / (2 * p))) for p in PENALTIES)
    model = gm.parse(PROGRAM, sites=alignment.x.shape[1], s_h=s_h, s_J=s_J).model()
    fit = model.fit(alignment.x, mask="one", weights=weights, progress=False, max_steps=steps or None)
    took = {"fit": time.perf_counter() - start, "fit_processor": time.process_time() - spent}
    effective = len(alignment.x) if weights is None else float(weights.sum())
    trace = fit.loss_trace * effective
    np.savez(out, h=fit.params["h"], J=fit.params["J"], trace=trace + (fit.objective - trace[-1]))
    return took | {"steps": len(trace), "objective": fit.objective, "effective": effective}


if __name__ == "__main__":
    print(json.dumps(_child(sys.argv[1], sys.argv[2], bool(int(sys.argv[3])), int(sys.argv[4]))))
