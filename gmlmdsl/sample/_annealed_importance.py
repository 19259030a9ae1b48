"""Annealed importance sampling of log Z, with its standard error.

It serves models that are too wide for exact sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import Span, fail, tell, whole_number, with_whole_numbers
from .._types import ArrayLike
from ..data import generator, keys_of, verified_seed
from ..derive import AbstractKernel, Target, bounded_jit, fold, log_potential, on_device
from ..graph import FactorGraph, Lowered, reaches_zero
from ..masks import lower_mask
from ..plan import BUDGET, plan_update, verify_held
from ..program import ir
from . import limits
from ._draw import SamplingWarning, masks_in, verify_chains
from ._run_chains import filled_up
from ._starts import law_of

Array = np.ndarray


@dataclass(frozen=True, repr=False)
class LogPartitionEstimate:
    """Estimate of log Z by annealed importance sampling.

    Attributes:
        kind: "annealed importance sampling".
        log_partition: log of the mean weight. Z is estimated without bias, so log Z tends to be too
            low, by about half the squared standard error.
        standard_error: the standard error of `log_partition` by the delta method: sqrt(Var(w) /
            chains) / mean w, plus the contribution of a count of possible starts. It is too small
            if few weights dominate the sum.
        effective_sample_size: (sum of w)^2 / (sum of w^2), from 1 to the number of chains.
        log_weights: log w of each chain, shape (chains,); fewer if too few possible starts were
            found.
        betas: the exponents of p, from 0 to 1.
        warnings: findings that a user should act on, as sentences.
    """

    kind: ClassVar[str] = "annealed importance sampling"

    log_partition: float
    standard_error: float
    effective_sample_size: float
    log_weights: Array
    betas: Array
    warnings: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        found = f"{self.kind}: log Z is about {self.log_partition:.6g}, standard error {self.standard_error:.2g}"
        size = f"effective sample size {self.effective_sample_size:.3g} of {len(self.log_weights)} chains, {len(self.betas)} betas"
        return "\n".join([f"{found}; {size}", *self.warnings])


@dataclass(frozen=True)
class AnnealingOptions:
    """Options of annealing; see `Model.annealed_log_partition`."""

    betas: ArrayLike
    steps_per_beta: int
    chains: int
    seed: int


@dataclass(frozen=True)
class Base:
    """Independent draws of the distribution at beta 0: uniform on the possible configurations.

    Attributes:
        codes: shape (cells, chains).
        log_size: the log of the number of possible configurations.
        variance: the variance of `log_size`, 0 if it is known.
    """

    codes: Array
    log_size: float
    variance: float


def estimate(lowered: Lowered, sampler: ir.Sampler | None, params: dict[str, jax.Array], options: AnnealingOptions) -> LogPartitionEstimate:
    """Anneal every chain from a uniform draw to p, and return the estimate of log Z.

    The weight of a chain is w = Z_0 prod over k of p(x_k-1)^(b_k - b_k-1), with p unnormalised. x_0
    is uniform on the possible configurations, whose number is Z_0. x_k follows from x_k-1 by steps
    that leave p^b_k invariant. The mean of w is Z for any betas, because every kernel leaves the
    distribution of its beta exactly invariant. `independently` and `temper` raise an error.

    Reference: Neal 2001, "Annealed importance sampling".

    Args:
        lowered: the model.
        sampler: the sampler, or None for single-site sweeps.
        params: parameters.
        options: the options.
    """
    options, betas = _verified(options)
    kernel = invariant_kernel(lowered, sampler, params)
    graph = lowered.graph
    verify_chains(kernel, graph.n_cells, int(options.chains), len(betas) * int(options.steps_per_beta))
    base = uniform_base(graph, params, options.chains, options.seed)
    target = Target(derive.graph_arrays(graph), params, None)
    log_weights = base.log_size + _annealed(kernel, target, base.codes, betas, options)
    return summarise(log_weights, betas, base.variance)


def summarise(log_weights: Array, betas: Array, variance: float = 0.0) -> LogPartitionEstimate:
    """Return the estimate from log weights.

    `variance` is that of a number which all weights share.
    """
    chains = len(log_weights)
    top = log_weights.max()
    w = np.exp(log_weights - top)
    effective = float(w.sum() ** 2 / (w**2).sum())
    error = float(np.sqrt(w.var(ddof=1) / chains / w.mean() ** 2 + variance))
    spread = _upper_spread(log_weights)
    expected = chains * float(np.exp(-(spread**2)))
    said: list[str] = []
    if not min(effective, expected) >= max(limits.LEAST_EFFECTIVE[0], limits.LEAST_EFFECTIVE[1] * chains):
        said.append(
            f"The weights degenerate: an effective sample size of {effective:.3g} from {chains} chains, where logs of weights that lie "
            f"{spread:.2g} above their median let one expect {expected:.2g} in the long run. The estimate of log Z is "
            "likely too low, and its standard error too small: use more betas, more steps_per_beta or more chains."
        )
    for text in said:
        tell(text, SamplingWarning)
    return LogPartitionEstimate(float(np.log(w.mean()) + top), error, effective, log_weights, betas, tuple(said))


def _upper_spread(log_weights: Array) -> float:
    """Return the root mean square distance from the median of the log weights above it.

    If log w is normal with standard deviation s, chains * exp(-s^2) weights are effective in the
    long run. The effective sample size of few chains is larger, because they miss the large
    weights. Small weights do no harm, however small, and are left out.
    """
    above = log_weights - np.median(log_weights)
    above = above[above > 0]
    return float(np.sqrt((above**2).mean())) if len(above) else 0.0


def _verified(options: AnnealingOptions) -> tuple[AnnealingOptions, Array]:
    options = with_whole_numbers(options, {"steps_per_beta": 1, "chains": 2})
    verified_seed(options.seed)
    return options, verified_betas(options.betas)


def verified_betas(betas: ArrayLike) -> Array:
    """Return the betas as they are on the device, in float64.

    An integer n stands for 0, 1/n, .., 1.

    Raises:
        GmlmError: E507.
    """
    if not isinstance(betas, list | tuple) and np.ndim(betas) == 0:
        betas = whole_number("betas", betas.item() if isinstance(betas, np.ndarray) else betas, 1)
        verify_held(limits.BYTES_PER_BETA * betas, f"{betas:,} betas", "fewer `betas=`")
        betas = np.linspace(0, 1, betas + 1)
    help = "`betas=1000` are 1000 even steps from 0 to 1; or list them: `betas=np.linspace(0, 1, 500) ** 2`"
    try:
        given = np.asarray(betas, float)
    except (TypeError, ValueError):
        raise fail("E507", f"betas must be a whole number or a list of numbers, got {betas!r}", help=help) from None
    if given.ndim != 1 or len(given) < 2 or given[0] != 0 or given[-1] != 1:
        ends = f"from {given[0]:g} to {given[-1]:g}" if given.ndim == 1 and len(given) else f"an array of shape {given.shape}"
        raise fail("E507", f"betas must run from 0 to 1, got {ends}", help=help)
    found = given.astype(derive.float_type()).astype(float)
    wrong = np.flatnonzero(~(np.diff(found) > 0))
    if len(wrong):
        k = int(wrong[0])
        message = f"betas must ascend, got {given[k]:.9g} and then {given[k + 1]:.9g} at place {k + 1}"
        raise fail("E507", message, help=f"{help}; neighbours must differ as {np.dtype(derive.float_type()).name} numbers")
    return found


def invariant_kernel(lowered: Lowered, sampler: ir.Sampler | None, params: dict[str, jax.Array]) -> AbstractKernel:
    """Return the kernel of a sampler, or of single-site sweeps, that keeps p at every beta."""
    if sampler is None:
        return derive.at_parameters(lowered.graph, derive.single_site_sweep(lowered.graph), params)
    planned = derive.build_kernel(lowered, sampler, params)
    assert not isinstance(sampler.body, ir.FormCall)  # `build_kernel` raises an error for them
    _verify_keeps(lowered, sampler.body)
    for mask in masks_in(sampler.body):
        lower_mask(lowered, mask).verify(lowered.graph.sizes, {k: np.asarray(v) for k, v in params.items()})
    return planned.kernel


def _verify_keeps(lowered: Lowered, body: Sequence[ir.Kernel]) -> None:
    """Raise E507 for kernels that do not leave p invariant at every beta.

    The update of a data-dependent mask is allowed: p(K | x) is not scaled by beta.
    """
    help = "name another sampler, or none: then every cell is redrawn in turn"
    ladder = ir.ladder_in(body)
    for kernel in ir.kernels_in(body):
        if kernel is ladder:
            _refuse("`temper` has betas of its own, and its replicas do not start in their distributions", kernel.span, help)
        if isinstance(kernel, ir.Update) and not plan_update(lowered, kernel).keeps:  # type: ignore[arg-type]
            _refuse("`independently` keeps no known distribution where cells of a block interact", kernel.span, help)


def _refuse(why: str, span: Span, help: str) -> None:
    raise fail("E507", f"estimates of log Z need updates that keep p at every beta: {why}", span, "does not keep p", help=help)


def uniform_base(graph: FactorGraph, params: Mapping[str, jax.Array], chains: int, seed: int) -> Base:
    """Return uniform draws of possible configurations, and the log of their total number.

    Small models are enumerated. Otherwise configurations are drawn uniformly and the possible ones
    kept. Their share of a fixed number of candidates, independent of which ones they are, gives an
    unbiased estimate of the number of possible configurations. If no factor is minus infinity and
    nothing is required, every candidate is possible, and the number is known.

    Args:
        graph: the factor graph.
        params: parameters.
        chains: the number of draws.
        seed: the seed.

    Raises:
        GmlmError: E509 if nothing, or too small a share, is possible.
    """
    rng = generator(seed, limits.START_STREAM)
    sizes, law = graph.sizes, law_of(graph, params)
    log_total = float(np.log(sizes.astype(float)).sum())
    if log_total <= np.log(BUDGET.states) + 1e-9:
        states = derive.all_states(graph)
        states = states[:, law.possible(states)]
        if not states.shape[1]:
            raise fail("E509", "no configuration has positive probability: log Z is minus infinity", help="loosen a `require`")
        return Base(states[:, rng.integers(0, states.shape[1], chains)], float(np.log(states.shape[1])), 0.0)
    padded = np.append(sizes, 1)
    zeros = bool(graph.requires) or any(reaches_zero(g, padded) for g in graph.factors)
    tries = max(chains, limits.CANDIDATES) if zeros else chains
    per_call = max(1, min(tries, limits.ANNEALED_AT_ONCE // max(1, graph.n_cells)))
    kept: list[Array] = []
    for start in range(0, tries, per_call):
        # every batch has the same size, so that one program is compiled
        found = rng.integers(0, sizes[:, None], (graph.n_cells, per_call), dtype=np.int32)
        good = law.possible(found) & (np.arange(per_call) < tries - start)
        kept.append(found[:, good])
    codes = np.concatenate(kept, axis=1)
    count = codes.shape[1]
    if count < min(limits.LEAST_POSSIBLE, chains):
        message = f"{count} of {tries} uniform configurations are possible: too few to draw from, or to count, the distribution at beta 0"
        help = "`log_partition` needs no draws and is exact where it is affordable; or loosen a `require` so that more is possible"
        raise fail("E509", message, help=help)
    return Base(codes[:, :chains], log_total + float(np.log(count / tries)), (1 - count / tries) / count)


def _annealed(kernel: AbstractKernel, target: Target, codes: Array, betas: Array, options: AnnealingOptions) -> Array:
    """Return the sum over k of (b_k - b_k-1) log p(x_k-1) of each chain, in float64.

    Chains run in batches, so that arrays stay small.
    """
    chains = codes.shape[1]
    per_chain = max(len(betas), codes.shape[0] * target.graph.most_values)
    batches = -(-chains // max(1, limits.ANNEALED_AT_ONCE // per_chain))
    size = filled_up(-(-chains // batches))
    steps, found = np.diff(betas), []
    below, count = on_device(betas[1:], derive.float_type()), on_device(options.steps_per_beta)
    for start in range(0, chains, size):
        # the last batch repeats a chain, so that one program is compiled
        numbers = np.minimum(np.arange(start, start + size), chains - 1)
        keys = keys_of(options.seed, numbers)
        log_p = np.asarray(_anneal(kernel, target, keys, on_device(codes[:, numbers]), below, count), float)
        found.append(steps @ log_p)
    return np.concatenate(found)[:chains]


@bounded_jit
def _anneal(kernel: AbstractKernel, target: Target, keys: jax.Array, codes: jax.Array, betas: jax.Array, count: jax.Array) -> jax.Array:
    """Return log p of each chain before its steps at each beta, shape (betas, chains).

    There are no steps at the last beta.
    """
    chains, last, ready = codes.shape[1], betas.shape[0] - 1, kernel.prepared(target)

    def one(state: derive.State, k: jax.Array) -> tuple[derive.State, jax.Array]:
        inside = target._replace(beta=jnp.full(chains, betas[k]))

        def step(j: jax.Array, state: derive.State) -> derive.State:
            return ready.step(inside, fold(keys, k * count + j), state)[0]

        log_p = log_potential(target.graph, target.params, state.codes)
        return jax.lax.fori_loop(0, jnp.where(k < last, count, 0), step, state), log_p

    return jax.lax.scan(one, kernel.init(codes), jnp.arange(betas.shape[0]))[1]
