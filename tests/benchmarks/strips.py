"""Cells, strips, strips both ways, and clusters: how fast the critical Ising model forgets, in sweeps and in seconds.

The energy per site must be Kaufman's for the same finite torus, within its standard error.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from references.kaufman import torus as exact_torus

import gmlmdsl as gm
from gmlmdsl import derive

from ._autocorrelation import ENOUGH, Autocorrelation, autocorrelation
from ._measure import Check, Figure, Report, figure, in_turn, missing
from ._tasks import CHAINS, torus

Array = np.ndarray
BETA = 0.44
REPEATS = 5
ERRORS = 4  # standard errors within which means must agree
PROGRAM = """
input L : int
graph G = grid(L, L, wrap = true)
model ising {
  var x[i in G.nodes] : spin
  param J
  factor J * x[i] * x[j] for (i, j) in G.edges
}
sampler cells  { update x[i] for i in G.nodes }
sampler rows   { update x[r] for r in G.rows }
sampler both   { update x[r] for r in G.rows  update x[c] for c in G.columns }
sampler clusters { update x[K] where K ~ percolation(G.edges) }
"""


@dataclass(frozen=True)
class Plan:
    """A lattice of `side` x `side`; `warmup` and `kept` steps of every chain by sampler, recorded `per_call` at a time."""

    side: int
    warmup: dict[str, int]
    kept: dict[str, int]
    per_call: int


# A sweep of cells forgets |magnetisation| within some hundred sweeps here: its chains must be long.
FULL = Plan(
    64,
    {"cells": 8000, "rows": 2500, "both": 1000, "clusters": 500},
    {"cells": 32000, "rows": 12500, "both": 5000, "clusters": 3000},
    250,
)
QUICK = Plan(8, dict.fromkeys(("cells", "rows", "both", "clusters"), 400), dict.fromkeys(("cells", "rows", "both", "clusters"), 4000), 200)
WORDS = {"cells": "cells in turn", "rows": "rows", "both": "rows, then columns", "clusters": "one cluster"}


def run(quick: bool) -> Report:
    """Every sampler of the program; one that this version refuses is not measured."""
    plan = QUICK if quick else FULL
    model = gm.parse(PROGRAM, L=plan.side).model()
    chains: dict[str, Chains] = {}
    figures: list[Figure] = []
    for name in WORDS:
        try:
            chains[name] = Chains(model, name, plan)
        except gm.GmlmError as error:
            why = error.diagnostics[0].message
            figures.append(missing("strips", WORDS[name], f"one step, {_lattice(plan)}", "ms", why))
    calls = {name: partial(c.record, c.start(0), 0) for name, c in chains.items()}
    for call in calls.values():
        call()
    seconds = in_turn(calls, 2 if quick else REPEATS)
    energies, magnetisations = {}, {}
    for name, c in chains.items():
        energies[name], magnetisations[name] = (autocorrelation(a) for a in c.series())
        figures += _figures(c, [s / plan.per_call for s in seconds[name]], energies[name], magnetisations[name])
    return Report(tuple(figures), tuple(_checks(plan, energies, magnetisations)))


class Chains:
    """32 chains of one sampler, which record energy per site and |magnetisation| after every step."""

    def __init__(self, model: gm.Model, name: str, plan: Plan):
        self.name, self.plan = name, plan
        start = time.perf_counter()
        self.kernel = derive.build_kernel(model.lowered, model.sampler(name)[1], {"J": np.asarray(BETA)}).kernel
        self.target = derive.Target(derive.graph_arrays(model.graph), {"J": jnp.asarray(BETA, jnp.float32)}, None)
        self.edges = jnp.asarray(torus(plan.side)[0])
        state, key = self.start(0), jax.random.key(0)
        self._run = _recorded.lower(self.kernel, self.target, state, key, self.edges, plan.per_call).compile()
        self.compile_seconds = time.perf_counter() - start

    def start(self, seed: int) -> derive.State:
        """Half of the chains from uniform spins, half from spins that are all alike: both sides of what they settle in."""
        rng = np.random.default_rng(seed)
        codes = rng.integers(0, 2, (self.plan.side**2, CHAINS), dtype=np.int32)
        codes[:, ::2] = rng.integers(0, 2, CHAINS // 2, dtype=np.int32)
        return self.kernel.init(jnp.asarray(codes))

    def record(self, state: derive.State, call: int) -> tuple[derive.State, Array, Array]:
        """`per_call` steps: the state, and both series of shape (steps, chains)."""
        state, (bonds, sums) = jax.block_until_ready(self._run(self.kernel, self.target, state, jax.random.key(call), self.edges))
        cells = self.plan.side**2
        return state, -np.asarray(bonds, float) / cells, np.abs(np.asarray(sums, float)) / cells

    def series(self, seed: int = 1) -> tuple[Array, Array]:
        """Energy per site and |magnetisation| of shape (chains, kept steps), after the warm-up."""
        state, parts = self.start(seed), []
        burn, kept = (steps[self.name] // self.plan.per_call for steps in (self.plan.warmup, self.plan.kept))
        for call in range(burn + kept):
            state, energy, magnetisation = self.record(state, seed * 10_000 + call)
            if call >= burn:
                parts.append((energy, magnetisation))
        energies, magnetisations = (np.concatenate(p).T for p in zip(*parts, strict=True))
        return energies, magnetisations


@partial(jax.jit, static_argnames="count")
def _recorded(
    kernel: derive.AbstractKernel, target: derive.Target, state: derive.State, key: jax.Array, edges: jax.Array, count: int
) -> tuple[derive.State, tuple[jax.Array, jax.Array]]:
    """`count` steps, with the sum over edges of x_i x_j and the sum of x after each: whole numbers, so without rounding."""
    ready = kernel.prepared(target)

    def one(carried: Any, key: jax.Array) -> tuple[Any, tuple[jax.Array, jax.Array]]:
        carried = ready.move(target, jax.random.split(key, CHAINS), carried)[0]
        x = 2 * ready.leave(target, carried).codes - 1
        return carried, ((x[edges[:, 0]] * x[edges[:, 1]]).sum(axis=0), x.sum(axis=0))

    carried, found = jax.lax.scan(one, ready.enter(target, state), jax.random.split(key, count))
    return ready.leave(target, carried), found


def _figures(chains: Chains, seconds: Sequence[float], energy: Autocorrelation, magnetisation: Autocorrelation) -> list[Figure]:
    """What one sampler does: a step of all chains takes `seconds`."""
    words, plan = WORDS[chains.name], chains.plan
    each = statistics.median(seconds)
    length = f"{CHAINS} chains of {plan.kept[chains.name]:,} steps"
    out = [
        figure("strips", words, f"one step, {_lattice(plan)}", [1000 * s for s in seconds], "ms", f"{CHAINS} chains"),
        figure("strips", words, "compile", [chains.compile_seconds], "s"),
        figure("strips", words, "energy per site", [energy.mean], "J", f"standard error {energy.standard_error:.2g}"),
    ]
    for what, found in (("energy", energy), ("abs(magnetisation)", magnetisation)):
        short = "" if found.enough else f"; too few steps: {ENOUGH} times it are wanted"
        note = f"standard error {found.error:.2g}, {length}{short}"
        out.append(figure("strips", words, f"integrated autocorrelation time, {what}", [found.time], "steps", note))
        rate = CHAINS / (2 * found.time * each)
        out.append(figure("strips", words, f"effective draws per second, {what}", [rate], "1/s"))
    return out


def _checks(plan: Plan, energies: Mapping[str, Autocorrelation], magnetisations: Mapping[str, Autocorrelation]) -> list[Check]:
    """Energies beside the exact one; |magnetisation|, of which none is known, beside that of the first sampler."""
    expected = exact_torus(plan.side, plan.side, BETA).energy
    checks = []
    for name, found in energies.items():
        checks.append(Check("strips", f"energy per site, {WORDS[name]}, Kaufman", found.mean, expected, ERRORS * found.standard_error))
    first, *others = magnetisations
    for name in others:
        a, b = magnetisations[name], magnetisations[first]
        allowed = ERRORS * float(np.hypot(a.standard_error, b.standard_error))
        checks.append(Check("strips", f"abs(magnetisation), {WORDS[name]}, beside {WORDS[first]}", a.mean, b.mean, allowed))
    return checks


def _lattice(plan: Plan) -> str:
    return f"{plan.side} x {plan.side} wrapped, beta {BETA:g}"
