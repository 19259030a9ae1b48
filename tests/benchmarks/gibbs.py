"""Latent classes and their probabilities together: a sampler of ours in NumPyro's Gibbs kernel, beside NumPyro's DiscreteHMCGibbs."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.infer import NUTS, DiscreteHMCGibbs, Gibbs

import gmlmdsl as gm

from ._autocorrelation import autocorrelation
from ._measure import Check, Report, figure, repeats

PROGRAM = """
model classes {
  latent z : range(3)
  var    x[i in range(6)] : bit
  param share[c in range(3)] ~ normal(0, 1)
  param b[c in range(3), i in range(6)] ~ normal(0, 2)
  factor share[z]
  factor b[z, i] * x[i] for i in range(6)
}
sampler turn { update z }  # gmlm: allow W807
"""
ERRORS = 4  # standard errors that moments may be apart


def run(quick: bool) -> Report:
    """Processor time of an effective draw of log p; both run the same NUTS on the same posterior, and compiling counts in neither."""
    rows, draws, warmup = (20, 60, 30) if quick else (100, 3000, 500)
    x = data(rows)
    ours, theirs = _sampled(_ours(x), draws, warmup, quick), _sampled(_theirs(x), draws, warmup, quick)
    words = f"{rows} rows of 6 bits, 3 classes, {draws:,} draws after {warmup:,}"
    kinds = (("gmlmdsl kernel in numpyro.infer.Gibbs", ours), ("numpyro DiscreteHMCGibbs", theirs))
    figures = [
        f
        for name, found in kinds
        for f in (
            figure("gibbs", name, f"processor time of a draw; {words}", [t / draws for t, _ in found], "s"),
            figure("gibbs", name, f"processor time of an effective draw of log p; {words}", [t / a.effective for t, a in found], "s"),
        )
    ]
    ratios = [t / a.effective / (u / b.effective) for (t, a), (u, b) in zip(theirs, ours, strict=True)]
    figures.append(figure("gibbs", "numpyro / gmlmdsl", "processor time of an effective draw of log p", ratios, "ratio"))
    (_, a), (_, b) = ours[-1], theirs[-1]
    error = float(np.hypot(a.standard_error, b.standard_error))
    return Report(tuple(figures), (Check("gibbs", "the mean of log p(x, z), theirs for expected", a.mean, b.mean, ERRORS * error),))


def data(rows: int) -> np.ndarray:
    """Rows of three kinds, alike in number."""
    rng = np.random.default_rng(0)
    chance = np.array([[0.9, 0.9, 0.8, 0.1, 0.2, 0.1], [0.1, 0.2, 0.1, 0.9, 0.8, 0.9], [0.5, 0.1, 0.9, 0.5, 0.1, 0.9]])
    return (rng.random((rows, 6)) < chance[np.arange(rows) % 3]).astype(int)


def _parameters() -> tuple[jax.Array, jax.Array]:
    """Sites of the parameters, the same in both."""
    share = numpyro.sample("share", dist.Normal(0, 1).expand((3,)).to_event(1))
    return share, numpyro.sample("b", dist.Normal(0, 2).expand((3, 6)).to_event(2))


def _ours(x: np.ndarray) -> Any:
    kernel = gm.parse(PROGRAM).model().numpyro_kernel("turn", x=x)

    def program() -> None:
        share, b = _parameters()
        kernel.sites({"share": share, "b": b})

    return Gibbs([(kernel, kernel.names), (NUTS(program), None)]), x


def _theirs(x: np.ndarray) -> Any:
    """The same law: z of each row given share and b has logits share + sum of log(1 + exp b), and x_i given z the logit b[z, i]."""

    def program() -> None:
        share, b = _parameters()
        with numpyro.plate("rows", len(x)):
            z = numpyro.sample("z", dist.Categorical(logits=share + jax.nn.softplus(b).sum(axis=1)))
            numpyro.sample("x", dist.Bernoulli(logits=b[z]).to_event(1), obs=x)

    return DiscreteHMCGibbs(NUTS(program)), x


def _sampled(kernel_and_rows: Any, draws: int, warmup: int, quick: bool) -> list[tuple[float, Any]]:
    """Processor seconds of all draws, and the autocorrelation of log p(x, z | parameters), of each of some runs.

    One compiled scan of the kernel's own steps serves warm-up and draws: what NumPyro's loop around it costs, compiling above all, is not timed.
    """
    kernel, x = kernel_and_rows

    @jax.jit
    def go(state: Any) -> tuple[Any, jax.Array]:
        def step(state: Any, _: None) -> tuple[Any, jax.Array]:
            state = kernel.sample(state, (), {})
            return state, _log_p(state.z, jnp.asarray(x))

        return jax.lax.scan(step, state, length=warmup)

    found = []
    for seed in range(repeats(quick)):
        state = jax.block_until_ready(go(kernel.init(jax.random.key(seed), warmup, None, (), {}))[0])
        start, values = time.process_time(), []
        for _ in range(draws // warmup):
            state, value = go(state)
            values.append(np.asarray(value))
        found.append((time.process_time() - start, autocorrelation(np.concatenate(values)[None])))
    return found


def _log_p(values: Any, x: jax.Array) -> jax.Array:
    """log p(x, z | parameters)."""
    z = jax.nn.one_hot(values["z"], 3)
    log_z = jax.nn.logsumexp(values["share"] + jax.nn.softplus(values["b"]).sum(axis=1))
    return jnp.einsum("rc,ci,ri->", z, values["b"], x.astype(float)) + (z * values["share"]).sum() - len(x) * log_z
