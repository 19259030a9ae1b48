"""Fits and chains over several devices beside one, in a process of its own; prints JSON.

`python tests/mesh_child.py DEVICES [RANK PROCESSES PORT]`: virtual devices of one process, or one device of each process.
Where `GMLM_REAL_ROWS` names a folder of real data, fits to these data are compared instead.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

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

from benchmarks import _potts_child, _votes_child  # noqa: E402

import gmlmdsl as gm  # noqa: E402
from gmlmdsl.derive import _packed_sweep  # noqa: E402
from gmlmdsl.evaluate import _objective  # noqa: E402
from gmlmdsl.files import _saved_states  # noqa: E402
from gmlmdsl.fit import LongFit, _optimise  # noqa: E402

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


LATTICE = """
input q : int
graph G = grid(16, 16, wrap = true)
model lattice {
  var x[i in G.nodes] : range(q)
  param h[a in range(q)]
  param J[(i, j) in G.edges]
  factor h[x[i]] for i in G.nodes
  factor J[i, j] * (x[i] == x[j]) for (i, j) in G.edges
}
sampler sweep { update x[i] for i in G.nodes }
sampler hot { temper(betas = [0.5, 1]) { update x[i] for i in G.nodes } }
"""


def lattices(mesh: jax.sharding.Mesh) -> dict[str, float]:
    """The shares of codes that differ: lattices whose colours are spread, and their chains too.

    The couplings are equal (two values are packed), have two signs, or are all different (tables).
    """
    rng, out = np.random.default_rng(2), {}
    _packed_sweep.CELLS_PER_TURN = 32  # a colour takes several turns on one device
    both = jax.make_mesh((2, len(mesh.devices.flat) // 2), ("chain", "data"))
    few = jax.process_count() > 1
    for name, q, J in (("equal", 2, 0.5), ("signs", 2, 0.5), ("glass", 2, 1.0), ("potts", 3, 0.5))[:: 3 if few else 1]:
        model = gm.parse(LATTICE, q=q).model()
        edges = model.graph.parameters[1].size
        J = {"signs": J * rng.choice([-1, 1], edges), "glass": J * rng.normal(size=edges)}.get(name, np.full(edges, J))
        params = {"h": np.linspace(0, 0.2, q), "J": J}
        for sampler in ("sweep",) if few else ("sweep", "hot"):
            options = {"draws": 3, "warmup": 2, "chains": 3, "seed": 3, "progress": False}
            alone = np.asarray(model.sample(params, sampler, **options)["posterior"]["x"].values)
            for where, axes in ((mesh, {"cell_axis": "data"}), (both, {"cell_axis": "data", "mesh_axis": "chain"})):
                with jax.set_mesh(where):
                    spread = model.sample(params, sampler, **axes, **options)
                out[f"draws {name} {sampler} {len(axes)}"] = float((alone != np.asarray(spread["posterior"]["x"].values)).mean())
    return out


def refitted(model: gm.Model, x: np.ndarray, mesh: jax.sharding.Mesh) -> dict[str, float]:
    """The largest relative differences of refits, and of the losses of rows that were left out."""
    fit = model.fit(x, mask="one", progress=False)
    runs = {"replicates": lambda **o: fit.bootstrap(3, **o).estimates, "losses of folds": lambda **o: fit.cross_validate(3, **o).losses}
    out = {}
    for name, run in runs.items():
        alone = run(progress=False)
        with jax.set_mesh(mesh):
            spread = run(progress=False, mesh_axis="data")
        out[name] = float(np.abs(alone - spread).max() / np.abs(alone).max())
    return out


def resumed(model: gm.Model, x: np.ndarray, mesh: jax.sharding.Mesh) -> float:
    """The difference of a fit that a signal to the last process ended, and that was continued, from one that was not."""
    _optimise.CALL_SECONDS = _saved_states.SAVED_EVERY = 0.0
    kind: Any = LongFit
    reached, options = kind.reached, {"mask": "one", "progress": False, "mesh_axis": "data"}

    def signalled(self: LongFit, step: int, *more: Any) -> None:
        if step == 3 and jax.process_index() == jax.process_count() - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        reached(self, step, *more)

    with tempfile.TemporaryDirectory() as folder, jax.set_mesh(mesh):
        whole = model.fit(x, **options)
        kind.reached = signalled
        try:
            model.fit(x, checkpoint=f"{folder}/run", **options)
            return 1.0
        except SystemExit as ended:
            kind.reached = reached
            states = len(list(Path(folder).glob("run/*.state")))
            found = model.fit(x, checkpoint=f"{folder}/run", **options)
            return apart(whole.params, found.params) + float(ended.code != 143 or (states == 0) == (jax.process_index() == 0))


def apart(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> float:
    """The largest difference of two dicts of arrays, relative to the largest entry."""
    return max(float(np.abs(a[k] - b[k]).max() / np.abs(a[k]).max()) for k in a)


def of_real_rows(folder: Path, mesh: jax.sharding.Mesh) -> dict[str, float]:
    """Fits to votes of the US House with holes, and to 24 columns of DHFR with sequence weights: the largest relative differences."""
    votes = _votes_child.read_votes(str(folder / "house-votes-84.csv"), 0)
    letters = gm.read_alignment(folder / "DHFR.a2m")
    sites = 24
    models = {
        "votes": (gm.parse(_votes_child.PROGRAM, n=votes.shape[1]).model(), votes, {"mask": "single", "missing": _votes_child.HOLE}),
        "DHFR": (
            gm.parse(_potts_child.PROGRAM, sites=sites, s_h=7.0, s_J=0.2).model(),
            letters.x[:, :sites],
            {"mask": "one", "weights": gm.sequence_weights(letters), "max_steps": 30},
        ),
    }
    out = {}
    for name, (model, x, options) in models.items():
        alone = model.fit(x, progress=False, **options)
        with jax.set_mesh(mesh):
            spread = model.fit(x, progress=False, mesh_axis="data", **options)
        out[f"params of {name}"] = apart(alone.params, spread.params)
        out[f"objective of {name}"] = abs(alone.objective / spread.objective - 1)
    return out


def main() -> None:
    """Every number is a difference between one device and the mesh."""
    warnings.simplefilter("ignore")
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    if folder := os.environ.get("GMLM_REAL_ROWS"):
        print(json.dumps(of_real_rows(Path(folder), mesh)))
        return
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
    terms = _objective.MOST_HELD_TERMS
    for name, (options, rows) in cases.items():
        for chunks in ("", " in chunks"):
            _objective.MOST_HELD_TERMS = 1 << 10 if chunks else terms
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
    out["fit that a signal ended"] = resumed(model, x, mesh)
    print(json.dumps(out | trained(mesh) | lattices(mesh) | refitted(model, x, mesh)))


if __name__ == "__main__":
    main()
