"""Results from chains of models too large to enumerate: gap bounds and agreement of samplers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.stats

from .._diagnostics import fail, whole_number
from .._types import Given
from ..data import MOST_SEED, encode, generator, verified_seed
from ..graph import verify_is_model
from ..plan import verify_held
from ..program import ir
from ..sample import SamplingWarning
from ._quantity import Quantity
from .limits import DISAGREEMENT, GAP_CHAINS, MOST_STATISTICS

if TYPE_CHECKING:
    import pandas as pd

    from ..model import Model, Params

Array = np.ndarray
# Level of the autocorrelation at whose lag the gap is estimated. Lower autocorrelations are mostly
# noise.
LEVEL = float(np.exp(-1))


def chain_codes(model: Model, params: Params, sampler: str | None, draws: int, seed: int, given: Given | None) -> tuple[str, Array]:
    """Return the sampler's name, and the codes that 16 chains of it visit.

    Args:
        model: the model.
        params: parameters.
        sampler: the sampler's name, or "exact".
        draws: the number of draws of each chain.
        seed: the seed.
        given: one row of data of given variables.

    Returns:
        The name, and codes of shape (chains, draws, cells).
    """
    draws = whole_number("draws", draws, 100)
    host = model.graph
    functions = min(MOST_STATISTICS, int(host.sizes.sum()) + len(host.interacting_pairs))
    verify_held(GAP_CHAINS * draws * (5 * functions + 4 * host.n_cells), f"{draws:,} draws of {GAP_CHAINS} chains", "fewer `draws=`")
    exact = sampler == "exact" and sampler not in model.samplers
    name = "exact" if exact else model.sampler(sampler)[0]
    warmup = {} if exact else {"warmup": draws}
    with warnings.catch_warnings():
        # slow chains are what this function measures
        warnings.simplefilter("ignore", SamplingWarning)
        idata = model.sample(params, sampler=name, draws=draws, chains=GAP_CHAINS, seed=seed, given=given, progress=False, **warmup)
    held = {v.name: np.asarray(idata["posterior"][v.name]) for v in model.graph.variables}
    codes = encode(model.graph, {k: v.reshape(-1, *v.shape[2:]) for k, v in held.items()}).codes
    return name, codes.T.reshape(GAP_CHAINS, draws, -1)


def gap_by_chains(model: Model, params: Params, sampler: str | None, draws: int, seed: int, given: Given | None) -> Quantity:
    """Return the gap from the slowest autocorrelation among indicators; see `spectral_gap`.

    Args:
        model: the model.
        params: parameters.
        sampler: the sampler's name.
        draws: the number of draws of each chain.
        seed: the seed.
        given: one row of data of given variables.
    """
    if sampler == "exact" and sampler not in model.samplers:
        raise fail("E507", "independent draws are not a chain: they have no gap", help="name a sampler of the program")
    name, codes = chain_codes(model, params, sampler, draws, seed, given)
    body = model.sampler(name)[1].body
    half = GAP_CHAINS // 2
    # shape (functions, chains, draws)
    functions = np.moveaxis(indicators(model, codes, pairs=False), 2, 0)
    functions = functions[functions.std(axis=(1, 2)) > 0]
    if not len(functions):
        raise fail("E714", f"no cell moved in {draws:,} draws of sampler `{name}`: nothing can be said of its gap", help="draw more")
    # The function and the lag are chosen on some of the chains, and evaluated on the others.
    slowest, lag = _slowest(functions[:, :half])
    rho, error = _correlation(functions[slowest, half:], lag)
    source = f"spectral_gap({model.name}, sampler `{name}`, draws={draws})"
    if not rho > 2 * error:
        return Quantity(1.0, "upper bound", source, note="the slowest function found forgets within a draw")
    gap = 1 - rho ** (1 / lag)
    spread = error * rho ** (1 / lag - 1) / lag
    note = f"from the autocorrelation {rho:.3g} +- {error:.2g} at lag {lag} of the slowest indicator of a cell"
    if not _is_reversible(body):
        return Quantity(gap, "estimate", source, spread, f"{note}; a bound from above for reversible chains only")
    return Quantity(gap, "upper bound", source, spread, f"{note}; estimated")


def _is_reversible(body: Any) -> bool:
    """Return whether one run of a sampler is the block dynamics of one mask.

    Block dynamics are reversible, with eigenvalues of at least 0.
    """
    updates = list(ir.updates_in(body))
    return len(updates) == 1 and updates == list(body) and updates[0].drawn_mask is not None and not updates[0].independently


def _slowest(functions: Array) -> tuple[int, int]:
    """Return the function with the longest autocorrelation, and the lag up to which it lasts.

    The lag is the longest at which the autocorrelation is still above 1/e.
    """
    best = (0, 1)
    for k, f in enumerate(functions):
        if f.std() == 0:
            continue
        lag = best[1]
        while lag < f.shape[1] // 4 and _correlation(f, lag)[0] > LEVEL:
            best, lag = (k, lag), lag + max(1, lag // 8)
    return best


def _correlation(f: Array, lag: int) -> tuple[float, float]:
    """Return the autocorrelation of chains (chains, draws) and its standard error.

    The autocorrelation is about the chains' common mean. The error is from the jackknife over
    chains.
    """
    centred = f - f.mean()
    over = (centred[:, :-lag] * centred[:, lag:]).mean(axis=1)
    under = (centred**2).mean(axis=1)
    if under.sum() == 0:
        return 0.0, np.inf
    count = len(f)
    apart = (over.sum() - over) / np.maximum(under.sum() - under, 1e-300)
    return float(over.sum() / under.sum()), float(np.sqrt((count - 1) * apart.var()))


def indicators(model: Model, codes: Array, pairs: bool) -> Array:
    """Return indicators of values of cells, and of pairs of values of cells that share a factor.

    There is an indicator for each value but the first. The array has the shape (chains, draws,
    statistics).
    """
    host = model.graph
    cells = np.arange(host.n_random)
    columns = [(codes[..., c] == v)[..., None] for c in cells for v in range(1, int(host.sizes[c]))]
    for i, j in host.interacting_pairs if pairs else ():
        if len(columns) >= MOST_STATISTICS:
            break
        ends = ((codes[..., i] == a) & (codes[..., j] == b) for a in range(1, int(host.sizes[i])) for b in range(1, int(host.sizes[j])))
        columns += [e[..., None] for e in ends]
    return np.concatenate(columns[:MOST_STATISTICS], axis=-1).astype(np.float32)


@dataclass(frozen=True)
class Agreement:
    """A comparison of the draws of two samplers.

    Attributes:
        samplers: their names.
        names: the names of the statistics: the probabilities that a cell has a value, or that two
            cells have two values.
        means: shape (2, statistics).
        errors: standard errors from the variation among chains, shape (2, statistics).
        chains: the number of chains of each sampler.
        draws: the number of draws of each chain.
    """

    samplers: tuple[str, str]
    names: tuple[str, ...]
    means: Array
    errors: Array
    chains: int
    draws: int

    @cached_property
    def z(self) -> Array:
        """Differences in units of standard errors, shape (statistics,).

        A difference is 0 if neither sampler ever varied and both have the same mean.
        """
        apart, error = self.means[0] - self.means[1], np.hypot(*self.errors)
        return np.divide(apart, error, out=np.where(apart == 0, 0.0, np.copysign(np.inf, apart)), where=error > 0)

    @property
    def p_value(self) -> float:
        """The p-value of the largest |z| among all statistics (Bonferroni, Student's t)."""
        largest = np.abs(self.z).max(initial=0.0)
        return float(min(1.0, len(self.z) * 2 * scipy.stats.t.sf(largest, 2 * self.chains - 2)))

    @property
    def table(self) -> pd.DataFrame:
        """A table with one row per statistic, the largest difference first."""
        import pandas as pd

        a, b = self.samplers
        columns = {a: self.means[0], f"{a}_error": self.errors[0], b: self.means[1], f"{b}_error": self.errors[1], "z": self.z}
        return pd.DataFrame(columns, index=pd.Index(self.names, name="statistic")).sort_values("z", key=np.abs, ascending=False)

    def __repr__(self) -> str:
        worst = int(np.argmax(np.abs(self.z)))
        (a, b), z = self.samplers, self.z[worst]
        ends = (f"{m:.4g} +- {e:.2g}" for m, e in zip(self.means[:, worst], self.errors[:, worst], strict=True))
        text = f"`{a}` beside `{b}`: {len(self.names):,} probabilities, {self.chains} chains of {self.draws:,} draws each. The largest"
        text += f" difference is in P({self.names[worst]}): {' and '.join(ends)}, z = {z:.3g}; p = {self.p_value:.2g} for all of them."
        return f"{text} {'They disagree.' if self.p_value < DISAGREEMENT else 'Nothing says that they disagree.'}"


def sampler_agreement(
    model: Model, params: Params, samplers: Sequence[str], *, draws: int = 1000, seed: int = 0, given: Given | None = None
) -> Agreement:
    """Test whether two samplers draw from one distribution.

    The probabilities of values of cells and of interacting pairs are compared, with errors from
    independent chains.

    Args:
        model: the model.
        params: parameters.
        samplers: two names; "exact" stands for independent draws, if a plan is affordable.
        draws: the number of draws of each of 16 chains, after the same number of warm-up draws.
        seed: the seed, from which each sampler gets a seed of its own.
        given: one row of data of given variables.

    Raises:
        GmlmError: E507 unless two samplers are named; the errors of `Model.sample`.
    """
    verify_is_model(model)
    if not isinstance(samplers, list | tuple) or len(samplers) != 2:
        raise fail("E507", f"sampler_agreement takes the names of two samplers, got {samplers!r}", help='`samplers=["gibbs", "exact"]`')
    found = [chain_codes(model, params, s, draws, _seed_of(seed, k), given) for k, s in enumerate(samplers)]
    by_chain = np.stack([indicators(model, codes, pairs=True).mean(axis=1, dtype=np.float64) for _, codes in found])
    means, errors = by_chain.mean(axis=1), by_chain.std(axis=1, ddof=1) / np.sqrt(GAP_CHAINS)
    return Agreement((found[0][0], found[1][0]), tuple(_names(model)), means, errors, GAP_CHAINS, int(draws))


def _names(model: Model) -> list[str]:
    host = model.graph
    labels = [v.labels for v in host.variables for _ in range(v.size)]
    names = [f"{host.cell_name(c)} = {labels[c][v]}" for c in range(host.n_random) for v in range(1, len(labels[c]))]
    for i, j in host.interacting_pairs:
        if len(names) >= MOST_STATISTICS:
            break
        every = ((a, b) for a in range(1, len(labels[i])) for b in range(1, len(labels[j])))
        names += [f"{host.cell_name(i)} = {labels[i][a]}, {host.cell_name(j)} = {labels[j][b]}" for a, b in every]
    return names[:MOST_STATISTICS]


def _seed_of(seed: int, k: int) -> int:
    """Return the seed of one of two samplers.

    No other pair has this seed, except by chance for very large seeds.
    """
    own = 2 * verified_seed(seed) + k
    return own if own <= MOST_SEED else int(generator(seed, k).integers(MOST_SEED, dtype=np.uint64))
