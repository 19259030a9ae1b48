"""NUTS on the NumPyro model of a program, beside one written by hand for the same loss: processor time for each effective draw.

Both are pseudolikelihoods under masks of one cell, not calibrated, with the same priors, seeds and settings.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.diagnostics import effective_sample_size
from numpyro.distributions import Normal
from numpyro.infer import MCMC, NUTS

import gmlmdsl as gm

from ._measure import Check, Figure, Report, figure, repeats

Array = np.ndarray
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
