"""Bridge sampling of log Z: chains at equilibrium at many powers of p, joined by their overlaps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # submodules of SciPy load at first use

from .. import derive
from .._diagnostics import tell, with_whole_numbers
from .._types import ArrayLike
from ..data import keys_of, verified_seed
from ..derive import AbstractKernel, Target, bounded_jit, fold, log_potential, on_device
from ..graph import Lowered
from ..plan import verify_held
from ..program import ir
from . import limits
from ._annealed_importance import Base, invariant_kernel, uniform_base, verified_betas
from ._draw import SamplingWarning, verify_chains

Array = np.ndarray


@dataclass(frozen=True, repr=False)
class BridgeEstimate:
    """Estimate of log Z by bridge sampling.

    Attributes:
        kind: "bridge sampling".
        log_partition: the estimate of log Z.
        standard_error: its standard error, from the differences between chains.
        betas: the powers of p, from 0 to 1, shape (betas,).
        log_partitions: the estimate of the log of the sum of p^beta over all configurations, at
            each beta, shape (betas,).
        overlaps: how much the distributions of log p at neighbouring betas overlap, from 0 (not at
            all) to 1 (they are equal), shape (betas - 1,).
        drift: by how much log Z would change if only the second half of each beta's draws counted,
            to first order; near 0 if all chains are at equilibrium.
        drift_error: the standard error of `drift`.
        warnings: findings that a user should act on, as sentences.
    """

    kind: ClassVar[str] = "bridge sampling"

    log_partition: float
    standard_error: float
    betas: Array
    log_partitions: Array
    overlaps: Array
    drift: float
    drift_error: float
    warnings: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        found = f"{self.kind}: log Z is about {self.log_partition:.6g}, standard error {self.standard_error:.2g}"
        beside = f"{len(self.betas)} betas, least overlap {self.overlaps.min():.2f}, drift {self.drift:.2g} +- {self.drift_error:.2g}"
        return "\n".join([f"{found}; {beside}", *self.warnings])


@dataclass(frozen=True)
class BridgeOptions:
    """Options of bridge sampling; see `JointModel.bridge_log_partition`."""

    betas: ArrayLike
    draws: int
    warmup: int
    chains: int
    seed: int


def bridge(lowered: Lowered, sampler: ir.Sampler | None, params: dict[str, jax.Array], options: BridgeOptions) -> BridgeEstimate:
    """Run every chain from beta 0 to beta 1, and join the draws of log p of all betas.

    Args:
        lowered: the model.
        sampler: the sampler, or None for single-site sweeps.
        params: parameters.
        options: the options.

    Raises:
        GmlmError: E507 for options or samplers that the method cannot use; E509 if too few
            configurations are possible; E601 if the draws or their weights take too much memory.
    """
    options = with_whole_numbers(options, {"draws": 2, "warmup": 0, "chains": 2})
    verified_seed(options.seed)
    betas = verified_betas(options.betas)
    count = len(betas) * options.draws * options.chains
    weights = 8 * limits.WEIGHT_COPIES * count * len(betas)
    verify_held(weights, f"the weights of {count:,} draws at {len(betas):,} betas", "fewer `betas=` or `draws=`")
    kernel, graph = invariant_kernel(lowered, sampler, params), lowered.graph
    verify_chains(kernel, graph.n_cells, options.chains, len(betas) * (options.warmup + options.draws))
    base = uniform_base(graph, params, options.chains, options.seed)
    # Possible starts may be fewer than the chains: they are taken in turn.
    codes = base.codes[:, np.arange(options.chains) % base.codes.shape[1]]
    target = Target(derive.graph_arrays(graph), params, None)
    keys, below = keys_of(options.seed, np.arange(options.chains)), on_device(betas, derive.float_type())
    log_p = _ladder(kernel, target, keys, on_device(codes), below, on_device(options.warmup), options.draws)
    return joined(np.asarray(log_p, float), betas, base)


@bounded_jit
def _ladder(
    kernel: AbstractKernel, target: Target, keys: jax.Array, codes: jax.Array, betas: jax.Array, warmup: jax.Array, draws: int
) -> jax.Array:
    """Return log p of the draws at each beta, shape (betas, draws, chains)."""
    chains, ready = codes.shape[1], kernel.prepared(target)

    def at_beta(state: derive.State, k: jax.Array) -> tuple[derive.State, jax.Array]:
        inside = target._replace(beta=jnp.full(chains, betas[k]))

        def step(j: jax.Array, state: derive.State) -> derive.State:
            return ready.step(inside, fold(keys, k * (warmup + draws) + j), state)[0]

        def draw(state: derive.State, j: jax.Array) -> tuple[derive.State, jax.Array]:
            state = step(warmup + j, state)
            return state, log_potential(target.graph, target.params, state.codes)

        state = jax.lax.fori_loop(0, warmup, step, state)
        return jax.lax.scan(draw, state, jnp.arange(draws))

    return jax.lax.scan(at_beta, kernel.init(codes), jnp.arange(betas.shape[0]))[1]


def joined(log_p: Array, betas: Array, base: Base) -> BridgeEstimate:
    """Return the estimate from draws of log p at each beta.

    Let draw n come from beta k(n), and let f_k be the log of the sum of p^b_k over all
    configurations. Given log p, the draw comes from beta k with the probability w_nk, which is
    proportional to exp(b_k log p_n - f_k). The estimate maximises the sum of log w_nk(n), given
    f_0, the log of the number of possible configurations. At the maximum the sum over n of w_nk is
    the number of draws at beta k. The standard error is a sandwich whose middle is the variance of
    the chains' scores, so draws of one chain may depend on each other.

    Args:
        log_p: shape (betas, draws, chains).
        betas: shape (betas,), from 0 to 1.
        base: the possible configurations at beta 0.

    Reference: Bennett 1976; Meng and Wong 1996, "bridge sampling"; Shirts and Chodera 2008 for many
    distributions.
    """
    count, draws, chains = log_p.shape
    f, w, hessian = _fitted(log_p, betas)
    scores = w.reshape(count * draws, chains, count - 1).sum(axis=0)  # of each chain, shape (chains, betas - 1)
    spread = (scores - scores.mean(axis=0)) / log_p.size
    last = scipy.linalg.lstsq(hessian, np.eye(count - 1)[-1])[0]
    error = float(np.sqrt(chains / (chains - 1) * ((spread @ last) ** 2).sum() + base.variance))
    both = np.stack([log_p[:-1], log_p[1:]], axis=1).reshape(count - 1, -1)
    shares = scipy.special.expit(np.diff(betas)[:, None] * both - np.diff(f)[:, None])
    overlaps = (4 * shares * (1 - shares)).mean(axis=1)
    drift, drift_error = _drift(log_p, betas)
    said = tuple(_findings(overlaps, betas, drift, drift_error, error))
    for text in said:
        tell(text, SamplingWarning)
    return BridgeEstimate(float(f[-1] + base.log_size), error, betas, f + base.log_size, overlaps, drift, drift_error, said)


def _fitted(log_p: Array, betas: Array) -> tuple[Array, Array, Array]:
    """Return the maximum f with f_0 = 0, w_nk there without k = 0, and the Hessian for each draw; see `joined`.

    Newton's method begins at the integral of the mean of log p over beta.
    """
    flat, mean, each = log_p.reshape(-1), log_p.mean(axis=(1, 2)), log_p[0].size

    def objective(f: Array) -> tuple[float, Array]:
        log_w = betas * flat[:, None] - f
        total = scipy.special.logsumexp(log_w, axis=1, keepdims=True)
        own = f.sum() * each - (betas * mean).sum() * each + total.sum()
        return float(own / len(flat)), np.exp(log_w - total)[:, 1:]

    f = np.concatenate([[0.0], np.cumsum(np.diff(betas) * (mean[1:] + mean[:-1]) / 2)])
    value, w = objective(f)
    for _ in range(limits.BRIDGE_STEPS):
        hessian = (np.diag(w.sum(axis=0)) - w.T @ w) / len(flat)
        step = np.append(0.0, scipy.linalg.lstsq(hessian, 1 / len(betas) - w.mean(axis=0))[0])
        if np.abs(step).max() < limits.BRIDGE_TOLERANCE:
            break
        length = 1.0
        while (found := objective(f - length * step))[0] > value and length > limits.BRIDGE_TOLERANCE:
            length /= 2
        f, (value, w) = f - length * step, found
    return f, w, (np.diag(w.sum(axis=0)) - w.T @ w) / len(flat)


def _drift(log_p: Array, betas: Array) -> tuple[float, float]:
    """Return the integral over beta of the change of mean log p between both halves of the draws.

    The derivative of log Z by beta is the mean of log p, so this is a change of log Z.
    """
    half = log_p.shape[1] // 2
    change = (log_p[:, -half:].mean(axis=1) - log_p.mean(axis=1)).T  # shape (chains, betas)
    of_chains = np.trapezoid(change, betas, axis=1)
    return float(of_chains.mean()), float(of_chains.std(ddof=1) / np.sqrt(len(of_chains)))


def _findings(overlaps: Array, betas: Array, drift: float, drift_error: float, error: float) -> list[str]:
    said: list[str] = []
    k = int(overlaps.argmin())
    if overlaps[k] < limits.LEAST_OVERLAP:
        said.append(
            f"log p at beta {betas[k]:.4g} and {betas[k + 1]:.4g} hardly overlaps ({overlaps[k]:.2g}, where 1 means equal distributions): "
            "the standard error is likely too small. Use more `betas` there."
        )
    if abs(drift) > max(limits.DRIFT_ERRORS * drift_error, limits.LEAST_DRIFT * error):
        said.append(
            f"The chains are not at equilibrium: log Z still changes by {drift:.2g} (+- {drift_error:.2g}) between halves of the draws. "
            "Use more `warmup`, more `betas` or another `sampler`."
        )
    return said
