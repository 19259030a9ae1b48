"""Fits and chains over several devices beside one, in a process of its own; prints JSON.

`python tests/mesh_child.py DEVICES [RANK PROCESSES PORT]`: virtual devices of one process, or one device of each process.
"""

from __future__ import annotations

import json
import os
import sys
import warnings

# The pool of XLA's threads must be larger than the number of virtual devices, or collective operations wait for each other.
os.environ["NPROC"] = "32"
devices = int(sys.argv[1])
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402

if len(sys.argv) > 2:
    rank, processes, port = (int(word) for word in sys.argv[2:])
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=processes, process_id=rank, heartbeat_timeout_seconds=20)

import gmlmdsl as gm  # noqa: E402
from gmlmdsl.evaluate import _objective  # noqa: E402

TEXT = """
input n : int
graph G = complete(range(n))
model votes {
  var x[i in G.nodes] : range(3)
  param h[i in G.nodes, a in range(3)] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i, x[i]] for i in G.nodes
  factor J[i, j] * (x[i] == x[j]) for (i, j) in G.edges
}
mask one   = subsets(x, size = 1)
mask two   = subsets(x, size = 2)
mask whole = everything(x)
sampler sweep { update x[i] for i in G.nodes }
sampler pairs { update x[K] where K ~ two }
sampler hot { temper(betas = [0.3, 1]) { update x[i] for i in G.nodes } }
"""


NETWORK = """
network net = transformer(layers = 1, heads = 2, width = 16, dropout = 0.1)
model text { var x[t in range(6)] : range(5)  conditional x ~ net() }
mask some = bernoulli(x, rate = 0.4)
"""


def trained(mesh: jax.sharding.Mesh) -> dict[str, float]:
    """The largest difference of the losses of 12 steps, and of the weights after them."""
    rng = np.random.default_rng(0)
    x = (rng.integers(0, 5, (60, 1)) + np.arange(6)) % 5
    model, t = gm.parse(NETWORK).model(), gm.Training(batch_size=8, steps=12)
    alone = model.fit(x, "some", seed=1, method=t, progress=False)
    with jax.set_mesh(mesh):
        spread = model.fit(x, "some", seed=1, method=t, progress=False, mesh_axis="data")
    weights = [[np.asarray(a) for a in jax.tree.leaves(eqx.filter(f.params, eqx.is_array))] for f in (alone, spread)]
    return {
        "losses of training": float(np.abs(np.subtract(alone.loss_trace, spread.loss_trace)).max()),
        "weights of training": max(float(np.abs(a - b).max()) for a, b in zip(*weights, strict=True)),
    }


def apart(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> float:
    """The largest difference of two dicts of arrays, relative to the largest entry."""
    return max(float(np.abs(a[k] - b[k]).max() / np.abs(a[k]).max()) for k in a)


def main() -> None:
    """Every number is a difference between one device and the mesh."""
    warnings.simplefilter("ignore")
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    model = gm.parse(TEXT, n=6).model()
    rng = np.random.default_rng(0)
    common = rng.integers(0, 3, (437, 1))  # a number of rows that no number of devices divides
    x = np.where(rng.random((437, 6)) < 0.4, common, rng.integers(0, 3, (437, 6)))
    holes = np.where(rng.random(x.shape) < 0.05, 9, x)
    out: dict[str, float] = {}
    cases = {
        "one": ({"mask": "one"}, x),
        "two": ({"mask": "two"}, x),
        "whole": ({"mask": "whole"}, x),
        "drawn masks": ({"mask": "two", "n_masks": 2, "seed": 5}, x),
        "weights": ({"mask": "one", "weights": rng.gamma(2.0, size=437)}, x),
        "missing cells": ({"mask": "one", "missing": 9}, holes),
        "ignored cells": ({"mask": "one", "missing": 9, "gaps": "ignore"}, holes),
    }
    terms = _objective.MOST_TERMS
    for name, (options, rows) in cases.items():
        for chunks in ("", " in chunks"):
            _objective.MOST_TERMS = 1 << 10 if chunks else terms
            alone = model.fit(rows, progress=False, **options)
            with jax.set_mesh(mesh):
                spread = model.fit(rows, progress=False, mesh_axis="data", **options)
                out[f"errors {name}{chunks}"] = apart(alone.standard_errors, spread.standard_errors)
            out[f"params {name}{chunks}"] = apart(alone.params, spread.params)
    params = {k: np.asarray(v) for k, v in alone.params.items()}
    for sampler in ("sweep", "pairs", "hot", "exact"):
        options = {"draws": 20, "warmup": 10, "chains": 6, "seed": 3, "progress": False}
        alone = model.sample(params, sampler, **options)
        with jax.set_mesh(mesh):
            spread = model.sample(params, sampler, mesh_axis="data", **options)
        a, b = (np.asarray(d["posterior"]["x"].values) for d in (alone, spread))
        out[f"draws {sampler}"] = float((a != b).mean())
    print(json.dumps(out | trained(mesh)))


if __name__ == "__main__":
    main()
