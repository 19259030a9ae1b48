"""The collective operations of compiled programs on some virtual devices, in a process of its own; prints JSON.

`python tests/collectives_child.py DEVICES`. A program's text has one line for each operation. The body of a loop stands
there once: what it holds is done in every round.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings

os.environ["NPROC"] = "32"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={sys.argv[1]}"

import equinox as eqx
import jax
import numpy as np
from mesh_child import NETWORK, TEXT

import gmlmdsl as gm
from gmlmdsl.derive import _bounded_jit

BYTES = {"pred": 1, "s8": 1, "u8": 1, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}
KINDS = "all-gather|all-reduce|reduce-scatter|collective-permute|all-to-all"
LATTICE = "graph G = grid(64, 64, wrap = true)  model ising { var x[i in G.nodes] : spin  param J  "
LATTICE += "factor J * x[i] * x[j] for (i, j) in G.edges }  sampler sweep { update x[i] for i in G.nodes }"


def collectives(text: str) -> list[tuple[str, int]]:
    """Each collective operation of a compiled program: its kind, and the bytes of its result on a device."""
    found = []
    for shapes, kind in re.findall(rf"= (.+?) ({KINDS})(?:-start)?\(", text):
        sizes = [BYTES[t] * int(np.prod([int(n) for n in dims.split(",") if n])) for t, dims in re.findall(r"(\w+)\[([\d,]*)\]", shapes)]
        found.append((kind, sum(sizes)))
    return found


def main() -> None:
    """Run a fit, chains, a lattice and a training; print the collectives of each program by its name."""
    warnings.simplefilter("ignore")
    mesh, programs, run = jax.make_mesh((jax.device_count(),), ("data",)), {}, _bounded_jit._run

    def recorded(program: jax.stages.Wrapped, arrays: list[jax.Array]) -> object:
        programs[getattr(program, "__name__", "")] = collectives(program.lower(arrays).compile().as_text() or "")
        return run(program, arrays)

    _bounded_jit._run = recorded
    rng, out = np.random.default_rng(0), {}
    model = gm.parse(TEXT, n=6).model()
    rows = rng.integers(0, 3, (500, 6))
    text = gm.parse(NETWORK.replace("dropout = 0.1", "dropout = 0")).model()
    words = rng.integers(0, 5, (60, 6))
    lattice = gm.parse(LATTICE).model()
    params = {k: np.asarray(v) * 0.1 for k, v in model.init_params().items()}
    chains = {"draws": 3, "warmup": 2, "chains": 32, "progress": False}
    calls = {
        "rows": lambda: model.fit(rows, "one", progress=False, mesh_axis="data"),
        "chains": lambda: model.sample(params, "sweep", mesh_axis="data", **chains),
        "lattice": lambda: lattice.sample({"J": 0.4}, keep_draws=False, cell_axis="data", **chains),
        "training": lambda: text.fit(words, "some", method=gm.Training(batch_size=8, steps=2), progress=False, mesh_axis="data"),
    }
    with jax.set_mesh(mesh):
        for name, call in calls.items():
            programs.clear()
            call()
            out[name] = dict(programs)
    weights = sum(a.size for a in jax.tree.leaves(eqx.filter(text.init_params(0), eqx.is_inexact_array)))
    print(json.dumps({"programs": out, "parameters": sum(p.size for p in model.graph.parameters), "weights": weights, "cells": 64 * 64}))


if __name__ == "__main__":
    main()
