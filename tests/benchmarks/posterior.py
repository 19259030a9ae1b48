"""NUTS on the NumPyro model of a program, beside NumPyro, Stan and PyMC by hand: processor time for each effective draw.

All are pseudolikelihoods under masks of one cell, not calibrated, with the same priors and settings.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.diagnostics import effective_sample_size
from numpyro.distributions import Normal
from numpyro.infer import MCMC, NUTS

import gmlmdsl as gm

from ._measure import Check, Figure, Report, figure, missing, plain_environment, repeats, run_process

Array = np.ndarray
VARIABLE = "GMLM_NUTS"  # names the Python of an environment with PyStan and PyMC
PEER = Path(__file__).with_name("_nuts_peer.py")
PEERS = {"Stan": "stan", "PyMC": "pymc"}
SLOWER = 4  # they take so many times fewer draws
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "come-from-other-tools.md"  # it has the program for Stan
RING = """
graph G = chain(6, wrap = true)
model ring {
  var x[i in G.nodes] : spin
  param h ~ normal(0, 10)
  param J ~ normal(0, 10)
  factor h * x[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
GLASS = """
graph G = complete(24)
model glass {
  var x[i in G.nodes] : spin
  param h[i in G.nodes] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
CHAINS, MOST_RATIO = 4, 1.1
ALLOWED = 4  # standard errors


@dataclass(frozen=True)
class Task:
    """A program, rows for it, the same model by hand, and how long its chains are."""

    name: str
    program: str
    rows: int
    spins: int
    by_hand: Callable[[Array], None]
    draws: int

    @cached_property
    def x(self) -> Array:
        """Spins that lean on one another a little: the signs of normal numbers with something in common."""
        rng = np.random.default_rng(7)
        return np.sign(rng.normal(0.1, 1, (self.rows, self.spins)) + 0.4 * rng.normal(size=(self.rows, 1))).astype(np.float32)


def ring(x: Array) -> None:
    """One field, one coupling."""
    h, J = numpyro.sample("h", Normal(0, 10)), numpyro.sample("J", Normal(0, 10))
    field = h + J * (jnp.roll(x, 1, axis=1) + jnp.roll(x, -1, axis=1))
    numpyro.factor("loss", jax.nn.log_sigmoid(2 * x * field).sum())


def glass(x: Array) -> None:
    """A field for each spin, a coupling for each pair."""
    n = x.shape[1]
    i, j = np.triu_indices(n, 1)
    h = numpyro.sample("h", Normal(0, 1).expand([n]).to_event(1))
    J = numpyro.sample("J", Normal(0, 1).expand([len(i)]).to_event(1))
    whole = jnp.zeros((n, n)).at[i, j].set(J)
    numpyro.factor("loss", jax.nn.log_sigmoid(2 * x * (h + x @ (whole + whole.T))).sum())


TASKS = (
    Task("ring of 6 spins, 500 rows", RING, 500, 6, ring, 4000),
    Task("24 spins all coupled, 2,000 rows", GLASS, 2000, 24, glass, 1000),
)


def run(quick: bool) -> Report:
    """Every task, by both models in turn."""
    figures: list[Figure] = []
    checks: list[Check] = []
    for task in TASKS:
        x = task.x[:200] if quick else task.x
        model = gm.parse(task.program).model().to_numpyro(x.astype(int), calibrate=None)
        draws = 50 if quick else task.draws
        samplers = {"gmlmdsl": Sampler(model, draws), "NumPyro by hand": Sampler(lambda x=x, t=task: t.by_hand(jnp.asarray(x)), draws)}
        for seed in range(2 + repeats(quick)):  # the first warms up, the second compiles what goes on from there
            for sampler in samplers.values():
                sampler.run(seed)
        figures += _figures(task.name, samplers)
        checks += _checks(task.name, samplers)
        if task.program == GLASS:
            found = _of_peers(task, x, draws, samplers["gmlmdsl"])
            figures, checks = figures + list(found.figures), checks + list(found.checks)
    return Report(tuple(figures), tuple(checks))


class Sampler:
    """NUTS with NumPyro's defaults on one model; what each run took but the first, which compiles."""

    def __init__(self, model: Any, draws: int):
        self.mcmc = MCMC(NUTS(model), num_warmup=300, num_samples=draws, num_chains=CHAINS, chain_method="vectorized", progress_bar=False)
        self.seconds: list[float] = []
        self.steps: list[float] = []
        self.effective: list[float] = []
        self.means: list[Array] = []

    def run(self, seed: int) -> None:
        """One run; all but the first go on where the one before ended, without a warm-up, and compile nothing."""
        keys = jax.random.key(seed)
        if seed:
            self.mcmc.post_warmup_state = self.mcmc.last_state
            keys = jax.random.split(keys, CHAINS)
        began = time.process_time()
        self.mcmc.run(keys, extra_fields=("num_steps",))
        jax.block_until_ready(self.mcmc.get_samples())
        took = time.process_time() - began
        draws = {k: np.asarray(v, float) for k, v in self.mcmc.get_samples(group_by_chain=True).items()}
        self.means.append(np.concatenate([v.mean(axis=(0, 1)).ravel() for v in draws.values()]))
        self.spread = np.concatenate([v.std(axis=(0, 1)).ravel() for v in draws.values()])
        least = min(float(np.min(effective_sample_size(v))) for v in draws.values())
        if seed > 1:
            self.seconds.append(took)
            self.effective.append(least)
            self.steps.append(float(np.asarray(self.mcmc.get_extra_fields()["num_steps"]).sum()))


def _figures(name: str, samplers: dict[str, Sampler]) -> list[Figure]:
    out, each = [], {}
    for who, s in samplers.items():
        each[who] = [1e6 * t / e for t, e in zip(s.seconds, s.effective, strict=True)]
        note = f"{CHAINS} chains side by side; processor time, warm-up apart; the least of the parameters' effective draws"
        out.append(figure("posterior", who, f"{name}: for each effective draw", each[who], "us", note))
        out.append(
            figure("posterior", who, f"{name}: for each gradient", [1e6 * t / n for t, n in zip(s.seconds, s.steps, strict=True)], "us")
        )
    ours, theirs = (each[who] for who in ("gmlmdsl", "NumPyro by hand"))
    ratios: Sequence[float] = [a / statistics.median(theirs) for a in ours]
    return [*out, figure("posterior", "gmlmdsl", f"{name}: times NumPyro by hand", ratios, "x", most=MOST_RATIO)]


def _checks(name: str, samplers: dict[str, Sampler]) -> list[Check]:
    """The means of the two agree, in standard deviations of the posterior, the worst of all parameters."""
    a, b = samplers["gmlmdsl"], samplers["NumPyro by hand"]
    apart = float((np.abs(np.mean(a.means, axis=0) - np.mean(b.means, axis=0)) / b.spread).max())
    error = np.sqrt(sum(1 / (len(s.means) * min(s.effective)) for s in (a, b)))
    return [Check("posterior", f"{name}: largest difference of means, in standard deviations", apart, 0.0, ALLOWED * float(error))]


def _of_peers(task: Task, x: Array, draws: int, ours: Sampler) -> Report:
    """The same posterior by Stan and PyMC: chains one after another on one core, seconds without the warm-up."""
    python = os.environ.get(VARIABLE)
    if not python:
        why = f"no environment with PyStan and PyMC: {VARIABLE} is not set"
        return Report(tuple(missing("posterior", who, f"{task.name}: for each effective draw", "us", why) for who in PEERS))
    figures: list[Figure] = []
    checks: list[Check] = []
    mine = statistics.median(1e6 * t / e for t, e in zip(ours.seconds, ours.effective, strict=True))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "rows.npy", x)
        (folder / "program.stan").write_text(stan_program())
        for who, tool in PEERS.items():
            words = [python, PEER, tool, folder / "rows.npy", folder / "program.stan", -(-draws // SLOWER), folder]
            seconds = json.loads(run_process(words, plain_environment()).printed.splitlines()[-1])
            drawn = [dict(np.load(path)) for path in sorted(folder.glob(f"{tool}?.npz"))]
            # arrays (chains, entries, draws), as of NumPyro after the last two axes change places
            least = [min(float(np.min(effective_sample_size(v.swapaxes(1, 2)))) for v in d.values()) for d in drawn]
            each = [1e6 * t / e for t, e in zip(seconds, least, strict=True)]
            note = f"{CHAINS} chains one after another on one core, warm-up apart"
            figures.append(figure("posterior", who, f"{task.name}: for each effective draw", each, "us", note))
            figures.append(figure("posterior", "gmlmdsl", f"{task.name}: times {who}", [mine / e for e in each], "x"))
            means = np.mean([np.concatenate([d[p].mean(axis=(0, 2)) for p in ("J", "h")]) for d in drawn], axis=0)
            apart = float((np.abs(np.mean(ours.means, axis=0) - means) / ours.spread).max())
            error = np.sqrt(1 / (len(ours.means) * min(ours.effective)) + 1 / sum(least))
            words_of = f"{task.name}: largest difference of means from {who}, in standard deviations"
            checks.append(Check("posterior", words_of, apart, 0.0, ALLOWED * float(error)))
    return Report(tuple(figures), tuple(checks))


def stan_program() -> str:
    """The program for Stan, as the page shows it."""
    found = re.search(r"```text\n(data \{.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]
