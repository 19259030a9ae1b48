"""Convergence diagnostics for discrete draws.

They report stuck chains, unvisited categories, and ESS and R-hat of every category. R-hat and ESS
of integer codes depend on the numbering of nominal categories, and they do not detect a constant
chain. Here both are computed on the 0/1 indicator of each category, and a constant chain is
reported as stuck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._diagnostics import listed
from . import limits

_DETAILS = "See https://arxiv.org/abs/1903.08008 for details."


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """Convergence diagnostics of the draws of discrete chains.

    Axes: `cell` in the order given, `category` padded with NaN (or False) to the largest domain.
    Clamped cells are NaN throughout and are never reported.

    Attributes:
        cells: name of each cell.
        categories: names of the categories of each cell.
        clamped: (cell,) whether the user fixed the cell at a value.
        frequency: (cell, category) share of all draws.
        ess: (cell, category) bulk effective sample size of the indicator; NaN if it is constant.
        r_hat: (cell, category) split R-hat of the indicator; NaN if it is constant, infinite if
            every chain is constant but they differ, NaN for one chain.
        worst_category: (cell,) category of the largest R-hat, or of the smallest ESS for one chain;
            -1 if no category has one.
        stuck: (chain, cell) whether every draw of the chain has the same value and the cell is not
            clamped.
        visited: (chain, cell, category) whether the chain visited the category.
        flip_rate: (cell,) share of successive draws that differ.
        chi_square: (cell,) corrected statistic of `chain_by_category_test`, with its `degrees` and
            `p_value`.
        block_flip_rate: flip rate by block, as counted by the sampler.
        worst_cells: indices of the cells without clamped ones, worst first: stuck, then by R-hat,
            then by ESS.
        warnings: findings that a user should know, each with a remedy; empty if there are none.
    """

    cells: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    clamped: np.ndarray
    frequency: np.ndarray
    ess: np.ndarray
    r_hat: np.ndarray
    worst_category: np.ndarray
    stuck: np.ndarray
    visited: np.ndarray
    flip_rate: np.ndarray
    chi_square: np.ndarray
    degrees: np.ndarray
    p_value: np.ndarray
    block_flip_rate: Mapping[str, float]
    n_draws: int
    worst_cells: tuple[int, ...]
    warnings: tuple[str, ...]

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return self.stuck.shape[0]

    @property
    def min_ess(self) -> np.ndarray:
        """(cell,) smallest ESS over the categories of each cell."""
        return _over_categories(np.fmin, self.ess)

    @property
    def max_r_hat(self) -> np.ndarray:
        """(cell,) largest R-hat over the categories of each cell."""
        return _over_categories(np.fmax, self.r_hat)

    def table(self, most: int = 10) -> tuple[list[str], list[list[object]]]:
        """Return headers and rows of the `most` worst cells, for a terminal or a report."""
        headers = ["cell", "worst category", "frequency", "ess", "r_hat", "flip rate", "stuck chains"]
        ess, r_hat = self.min_ess, self.max_r_hat
        rows: list[list[object]] = []
        for i in self.worst_cells[:most]:
            k = int(self.worst_category[i])
            name, share = (self.categories[i][k], float(self.frequency[i, k])) if k >= 0 else ("none", math.nan)
            stuck = ", ".join(map(str, np.flatnonzero(self.stuck[:, i]))) or "none"
            rows.append([self.cells[i], name, share, float(ess[i]), float(r_hat[i]), float(self.flip_rate[i]), stuck])
        return headers, rows

    def __str__(self) -> str:
        headers, rows = self.table()
        cells = [headers, *([f"{v:.4g}" if isinstance(v, float) else str(v) for v in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(v.rjust(w) if j else v.ljust(w) for j, (v, w) in enumerate(zip(row, widths, strict=True))) for row in cells]
        head = f"{self.n_chains} chains of {self.n_draws} draws; the worst {len(rows)} of {len(self.worst_cells)} cells:"
        return "\n".join([head, *lines, *(f"warning: {w}" for w in self.warnings)])


def diagnose(
    codes: np.ndarray,
    cells: Sequence[str],
    categories: Sequence[Sequence[str]],
    *,
    clamped: np.ndarray | None = None,
    flip_rates: Mapping[str, float | np.ndarray] | None = None,
) -> Diagnosis:
    """Check discrete draws for all detectable failures of convergence.

    Args:
        codes: (chain, draw, cell) category of each cell, counted from 0.
        cells: name of each cell.
        categories: names of the categories of each cell; their number is the size of its domain.
        clamped: (cell,) cells that the user fixed at a value; none by default.
        flip_rates: by block, the share of its updates that changed a cell (a number, or an array
            that is averaged).

    Returns:
        A `Diagnosis`.

    Raises:
        ValueError: `codes` does not have the shape that the names require, or contains a code
            outside a domain.

    Reference: Vehtari, Gelman, Simpson, Carpenter and Buerkner, "Rank-normalization, folding, and
    localization" (2021); Deonovic and Smith, "Convergence diagnostics for MCMC draws of a
    categorical variable" (2017).
    """
    codes = np.asarray(codes)
    _verify(codes, cells, np.array([len(c) for c in categories], dtype=int))
    pieces = ((some, codes[:, :, some]) for some in _pieces(codes.shape))
    return diagnose_pieces(pieces, codes.shape, cells, categories, clamped=clamped, flip_rates=flip_rates)


def diagnose_pieces(
    pieces: Iterable[tuple[slice, np.ndarray]],
    shape: tuple[int, ...],
    cells: Sequence[str],
    categories: Sequence[Sequence[str]],
    *,
    clamped: np.ndarray | None = None,
    flip_rates: Mapping[str, float | np.ndarray] | None = None,
) -> Diagnosis:
    """Check discrete draws that are read some cells at a time, such as draws on a disk.

    Args:
        pieces: the cells of each piece, which together are all cells, and their codes (chain, draw,
            cell of the piece).
        shape: the numbers of chains, draws and cells.
        cells: as in `diagnose`.
        categories: as in `diagnose`.
        clamped: as in `diagnose`.
        flip_rates: as in `diagnose`.
    """
    n_chains, n_draws, n_cells = shape
    sizes = np.array([len(c) for c in categories], dtype=int)
    free = ~np.asarray(clamped, dtype=bool) if clamped is not None else np.ones(n_cells, dtype=bool)
    found = _Cells(n_chains, sizes)
    for piece, codes in pieces:
        for part in _pieces(codes.shape):
            here = slice(piece.start + part.start, piece.start + part.stop)
            found.examine(codes[:, :, part], here, free[here])
    blocks = {name: float(np.mean(rate)) for name, rate in (flip_rates or {}).items()}
    draft = Diagnosis(
        cells=tuple(cells),
        categories=tuple(tuple(c) for c in categories),
        clamped=~free,
        frequency=found.frequency,
        ess=found.ess,
        r_hat=found.r_hat,
        worst_category=_worst_category(found.ess, found.r_hat),
        stuck=found.stuck,
        visited=found.visited,
        flip_rate=np.where(free, found.flip_rate, np.nan),
        chi_square=found.chi_square,
        degrees=found.degrees,
        p_value=found.p_value,
        block_flip_rate=blocks,
        n_draws=n_draws,
        worst_cells=_worst_cells(found.ess, found.r_hat, found.stuck, free),
        warnings=(),
    )
    return replace(draft, warnings=_warnings(draft, found.inflation))


def _verify(codes: np.ndarray, cells: Sequence[str], sizes: np.ndarray) -> None:
    if codes.ndim != 3 or codes.shape[2] != len(cells) or len(cells) != len(sizes):
        raise ValueError(f"`codes` must have shape (chain, draw, {len(cells)}), got {codes.shape}, with categories of {len(sizes)} cells")
    if codes.size and (codes.min() < 0 or (codes.max(axis=(0, 1)) >= sizes).any()):
        raise ValueError("`codes` must be 0-based and smaller than the number of categories of the cell")


def _inside(sizes: np.ndarray, width: int | None = None) -> np.ndarray:
    return np.arange(sizes.max(initial=0) if width is None else width) < sizes[:, None]


def _pieces(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yield slices of cells such that one chain's draws of them are few.

    Computations on draws take several times the memory of the draws.
    """
    step = max(1, limits.DIAGNOSED_AT_ONCE // max(1, shape[1]))
    for start in range(0, shape[2], step):
        yield slice(start, min(start + step, shape[2]))


class _Cells:
    """The diagnostics of each cell, see `Diagnosis`, filled piece by piece.

    Args:
        chains: the number of chains.
        sizes: (cell,) numbers of categories.
    """

    def __init__(self, chains: int, sizes: np.ndarray):
        count, width = len(sizes), int(sizes.max(initial=0))
        self.sizes = sizes
        self.frequency, self.ess, self.r_hat = (np.full((count, width), np.nan) for _ in range(3))
        self.visited, self.stuck = (np.zeros((chains, count, width), bool), np.zeros((chains, count), bool))
        self.flip_rate, self.chi_square, self.p_value, self.inflation = (np.full(count, np.nan) for _ in range(4))
        self.degrees = np.zeros(count, np.int64)

    def examine(self, codes: np.ndarray, here: slice, free: np.ndarray) -> None:
        """Fill in the diagnostics of some cells.

        Args:
            codes: (chain, draw, cell) codes of these cells.
            here: the cells.
            free: (cell,) whether these cells are not clamped.
        """
        n_chains, n_draws, _ = codes.shape
        sizes, width = self.sizes[here], self.ess.shape[1]
        counts = _counts(codes, width)
        ess, r_hat = _indicator_diagnostics(codes, sizes, width, free & (counts.max(axis=(0, 2), initial=0) > 0))
        same = _same(codes)
        inflation = variance_inflation(counts, same)
        chi_square, degrees, p_value = chain_by_category_test(counts, inflation)
        stuck = (counts == n_draws).any(axis=2) & free
        all_stuck = stuck.all(axis=0)
        ess[all_stuck] = np.nan
        for values in (chi_square, p_value):
            values[~free | all_stuck] = np.nan
        self.frequency[here] = np.where(_inside(sizes, width), counts.sum(axis=0) / max(n_chains * n_draws, 1), np.nan)
        self.ess[here], self.r_hat[here], self.stuck[:, here], self.visited[:, here] = (ess, r_hat, stuck, counts > 0)
        self.flip_rate[here], self.inflation[here] = 1 - same.mean(axis=0), inflation
        self.chi_square[here], self.degrees[here], self.p_value[here] = chi_square, degrees, p_value


def _counts(codes: np.ndarray, width: int) -> np.ndarray:
    """Return the (chain, cell, category) number of draws."""
    out = np.zeros((codes.shape[0], codes.shape[2], width), np.int64)
    for chain, found in zip(codes, out, strict=True):
        places = chain.astype(np.int64) + np.arange(chain.shape[1]) * width
        found[:] = np.bincount(places.ravel(), minlength=chain.shape[1] * width).reshape(-1, width)
    return out


def _same(codes: np.ndarray) -> np.ndarray:
    """Return the (chain, cell) share of successive draws that are equal; NaN for a single draw."""
    if codes.shape[1] < 2:
        return np.full((codes.shape[0], codes.shape[2]), np.nan)
    return np.stack([(chain[1:] == chain[:-1]).mean(axis=0) for chain in codes])


def _indicator_diagnostics(codes: np.ndarray, sizes: np.ndarray, width: int, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ess = np.full((len(sizes), width), np.nan)
    r_hat = ess.copy()
    # The two indicators of a two-valued cell are complements: one of them suffices.
    cell, category = np.nonzero((np.arange(width) < np.where(sizes == 2, 1, sizes)[:, None]) & wanted[:, None])
    step = max(1, limits.DIAGNOSED_AT_ONCE // max(1, codes.shape[0] * codes.shape[1]))
    for start in range(0, len(cell), step):
        i, k = cell[start : start + step], category[start : start + step]
        indicators = codes[:, :, i] == k
        ess[i, k] = effective_sample_size(indicators)
        r_hat[i, k] = split_r_hat(indicators)
    for values in (ess, r_hat):
        if width > 1:
            values[sizes == 2, 1] = values[sizes == 2, 0]
    return ess, r_hat


def _over_categories(pick: Callable[..., np.ndarray], values: np.ndarray) -> np.ndarray:
    """Return the (cell,) smallest or largest value over the categories, NaN only if all are NaN."""
    best = np.full(values.shape[0], np.nan)
    for column in values.T:
        best = pick(best, column)
    return best


def _worst_category(ess: np.ndarray, r_hat: np.ndarray) -> np.ndarray:
    badness = np.where(np.isnan(r_hat), -np.inf, r_hat)
    only_ess = np.isnan(r_hat).all(axis=1)
    badness[only_ess] = np.where(np.isnan(ess[only_ess]), -np.inf, -ess[only_ess])
    none = (badness == -np.inf).all(axis=1)
    return np.where(none, -1, badness.argmax(axis=1)) if badness.shape[1] else np.full(len(badness), -1)


def _worst_cells(ess: np.ndarray, r_hat: np.ndarray, stuck: np.ndarray, free: np.ndarray) -> tuple[int, ...]:
    largest = np.nan_to_num(_over_categories(np.fmax, r_hat), nan=0, posinf=np.inf)
    smallest = np.nan_to_num(_over_categories(np.fmin, ess), nan=np.inf, posinf=np.inf)
    order = np.lexsort((smallest, -largest, -stuck.sum(axis=0)))
    return tuple(int(i) for i in order if free[i])


def _warnings(found: Diagnosis, inflation: np.ndarray) -> tuple[str, ...]:
    moving = np.where(np.isfinite(inflation), inflation, np.inf)[:, None]
    said = [
        _too_few(found),
        _large_r_hat(found),
        _small_ess(found),
        _stuck_chains(found),
        _never_visited(found),
        _visited_by_some(found, np.nan_to_num(found.frequency) * found.n_draws / moving),
        _unequal_chains(found),
        _still_blocks(found),
    ]
    return tuple(w for w in said if w)


def _worst_named(found: Diagnosis, which: np.ndarray, values: np.ndarray) -> str:
    order = [i for i in found.worst_cells if which[i]]
    shown = ", ".join(f"`{found.cells[i]}` ({values[i]:.3g})" for i in order[: limits.MOST_SHOWN])
    return shown + (f" and {len(order) - limits.MOST_SHOWN} more" if len(order) > limits.MOST_SHOWN else "")


def _too_few(found: Diagnosis) -> str | None:
    if found.n_draws < limits.MIN_DRAWS:
        return "The number of samples is too small to check convergence reliably. Run at least 100 draws per chain."
    if found.n_chains == 1:
        return "Only one chain was sampled, this makes it impossible to run some convergence checks. Run 4 chains."
    if found.n_chains < limits.MIN_CHAINS:
        return "We recommend running at least 4 chains for robust computation of convergence diagnostics."
    return None


def _large_r_hat(found: Diagnosis) -> str | None:
    values = found.max_r_hat
    large = values > limits.MAX_R_HAT
    if found.n_draws < limits.MIN_DRAWS or not large.any():
        return None
    return (
        "The rhat statistic is larger than 1.01 for some cells. This indicates problems during sampling. "
        f"{_DETAILS} Largest: {_worst_named(found, large, values)}. Run more warmup and draws, or larger blocks."
    )


def _small_ess(found: Diagnosis) -> str | None:
    values = found.min_ess / found.n_chains
    small = values < limits.MIN_ESS_PER_CHAIN
    if found.n_draws < limits.MIN_DRAWS or not small.any():
        return None
    return (
        "The effective sample size per chain is smaller than 100 for some cells. A higher number is needed for reliable rhat "
        f"and ess computation. {_DETAILS} Smallest: {_worst_named(found, small, values)}. "
        "Run more draws, a larger `thin`, or larger blocks."
    )


def _stuck_chains(found: Diagnosis) -> str | None:
    cells = np.flatnonzero(found.stuck.any(axis=0))
    if not len(cells) or found.n_draws < 2:
        return None
    apart = [i for i in cells if found.stuck[:, i].all() and found.visited[:, i].any(axis=0).sum() > 1]
    note = f" Chains are stuck at different values at {listed([found.cells[i] for i in apart], limits.MOST_SHOWN)}." if apart else ""
    named = ", ".join(f"`{found.cells[i]}` ({_chains(np.flatnonzero(found.stuck[:, i]))})" for i in cells[: limits.MOST_SHOWN])
    more = f" and {len(cells) - limits.MOST_SHOWN} more cells" if len(cells) > limits.MOST_SHOWN else ""
    return (
        f"Some chains are stuck: every draw has the same value at {named}{more}.{note} Their estimates and errors mean nothing. "
        "Use larger blocks or another sampler; clamp a cell whose value is certain."
    )


def _chains(numbers: np.ndarray) -> str:
    return f"chain{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _category_names(found: Diagnosis, which: np.ndarray) -> str:
    return listed([f"{found.cells[i]} = {found.categories[i][k]}" for i, k in zip(*np.nonzero(which), strict=True)], limits.MOST_SHOWN)


def _watched(found: Diagnosis) -> np.ndarray:
    """Return the (cell, category) pairs that should be visited.

    Cells with a stuck chain are left out, because they have their own warning.
    """
    sizes = np.array([len(c) for c in found.categories], dtype=int)
    return _inside(sizes) & ~(found.clamped | found.stuck.any(axis=0))[:, None]


def _never_visited(found: Diagnosis) -> str | None:
    missed = _watched(found) & ~found.visited.any(axis=0)
    if not missed.any():
        return None
    return (
        f"Some categories were never visited in any chain: {_category_names(found, missed)}. Where the model does not forbid them, "
        "run more draws, or larger blocks."
    )


def _visited_by_some(found: Diagnosis, expected: np.ndarray) -> str | None:
    missed = _watched(found) & found.visited.any(axis=0) & ~found.visited.all(axis=0) & (expected > limits.MIN_EXPECTED_VISITS)
    if not missed.any():
        return None
    return (
        f"Some categories were visited in some chains only: {_category_names(found, missed)}. The chains explore different parts; "
        "run more warmup, larger blocks or another sampler."
    )


def _unequal_chains(found: Diagnosis) -> str | None:
    unequal = found.p_value < limits.FALSE_ALARM / max(1, len(found.worst_cells))
    if found.n_draws < limits.MIN_DRAWS or not unequal.any():
        return None
    return (
        "The chains visit the categories of some cells unequally often (chi-square test corrected for autocorrelation). "
        f"P-values: {_worst_named(found, unequal, found.p_value)}. Run more warmup and draws, or larger blocks."
    )


def _still_blocks(found: Diagnosis) -> str | None:
    slow = [f"{name} ({rate:.2g})" for name, rate in found.block_flip_rate.items() if rate < limits.MIN_FLIP_RATE]
    if not slow:
        return None
    return (
        f"The flip rate is smaller than 0.001 for some blocks: {listed(slow, limits.MOST_SHOWN)}. Their cells hardly ever change. "
        "Use larger blocks, or a sampler that moves strongly coupled cells together."
    )


# ESS, R-hat and a chain-by-category test for sequences of categories, over many cells at once


def effective_sample_size(draws: np.ndarray) -> np.ndarray:
    """Return the bulk effective sample size S / tau of 0/1 sequences.

    tau is computed by Geyer's initial monotone sequence on split chains: tau = -1 + 2 sum_j min_{i
    <= j} (rho_2i + rho_2i+1), up to the first pair that is not positive. Rank normalisation, which
    bulk ESS applies first, is an affine map of two values and thus has no effect.

    Args:
        draws: (chain, draw, sequence).

    Returns:
        (sequence,) ESS, at most S log10 S; NaN if a sequence is constant or a chain has fewer than
        8 draws.

    Reference: Vehtari et al. (2021), section 3.2; Geyer, "Practical Markov chain Monte Carlo"
    (1992).
    """
    halves = _split(draws)
    _, n_halves, n = halves.shape
    if n < 4:
        return np.full(halves.shape[0], np.nan)
    means = halves.mean(axis=2, keepdims=True)
    length = 1 << (2 * n - 1).bit_length()
    power = (np.abs(np.fft.rfft(halves - means, length, axis=2)) ** 2).sum(axis=1)
    covariance = np.fft.irfft(power, length, axis=1)[:, :n] / (n * n_halves)
    within = covariance[:, :1] * n / (n - 1)
    total = covariance[:, :1] + means[:, :, 0].var(axis=1, ddof=1)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = 1 - (within - covariance) / np.where(total > 0, total, np.nan)
    rho[:, 0] = np.where(np.isnan(rho[:, 0]), np.nan, 1.0)
    n_pairs = 1 + max(0, -((4 - n) // 2))
    even, odd = rho[:, 0 : 2 * n_pairs : 2], rho[:, 1 : 2 * n_pairs : 2]
    pairs = even + odd
    positive = pairs > 0
    last = np.where(positive.all(axis=1), n_pairs - 1, positive.argmin(axis=1))
    kept = np.arange(n_pairs) < last[:, None]
    tail = np.maximum(np.take_along_axis(even, last[:, None], axis=1)[:, 0], 0)
    tau = -1 + 2 * (np.minimum.accumulate(pairs, axis=1) * kept).sum(axis=1) + tail
    total_draws = n_halves * n
    return total_draws / np.maximum(tau, 1 / np.log10(total_draws))


def split_r_hat(draws: np.ndarray) -> np.ndarray:
    """Return the split R-hat of 0/1 sequences, over the halves of all chains.

    It is sqrt((n - 1)/n + B/(n W)).

    Args:
        draws: (chain, draw, sequence).

    Returns:
        (sequence,) R-hat; NaN if a sequence is constant, if there is one chain, or below 4 draws;
        infinite if every half is constant but they differ.

    Reference: Gelman et al., "Bayesian Data Analysis", 3rd edition, equation 11.4; Vehtari et al.
    (2021), section 3.1.
    """
    halves = _split(draws)
    n = halves.shape[2]
    if n < 2 or draws.shape[0] < 2:
        return np.full(halves.shape[0], np.nan)
    within = halves.var(axis=2, ddof=1).mean(axis=1)
    between = halves.mean(axis=2).var(axis=1, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt((n - 1) / n + between / within)


def variance_inflation(counts: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Return the factor (1 + phi)/(1 - phi) by which autocorrelation inflates the variance.

    The variance is that of category frequencies, and phi belongs to a first-order discrete
    autoregression: phi = 1 + 1/n - P(two successive draws differ) / (1 - mean_c sum_j p_cj^2). The
    paper pools the chains inside phi. Here phi is computed within chains, so that a disagreement
    between chains does not increase phi and thereby escape the test.

    Args:
        counts: (chain, cell, category) number of draws.
        same: (chain, cell) share of successive draws that are equal.

    Returns:
        (cell,) at least 1; infinite or NaN if no chain moves.

    Reference: Deonovic and Smith (2017); Jacobs and Lewis, "Discrete time series generated by
    mixtures" (1978), for the model.
    """
    n = counts.sum(axis=2).max(initial=1)
    mixed = 1 - ((counts / n) ** 2).sum(axis=2).mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        phi = np.maximum(1 + 1 / n - (1 - same.mean(axis=0)) / mixed, 0)
        return (1 + phi) / np.maximum(1 - phi, 0)


def chain_by_category_test(counts: np.ndarray, inflation: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test by chi-square whether all chains visit the categories equally often.

    The statistic X^2 = sum_cj (n_cj - n_j/C)^2 / (n_j/C) is divided by the variance inflation of
    the frequencies, which corrects it for autocorrelation.

    Args:
        counts: (chain, cell, category) number of draws.
        inflation: (cell,) from `variance_inflation`.

    Returns:
        Statistic, degrees of freedom (C - 1)(categories visited - 1), and p-value, each (cell,);
        NaN if nothing can be tested: one chain, one category visited, or no chain that moves.

    Reference: Deonovic and Smith (2017), the Weiss test.
    """
    n_chains = counts.shape[0]
    expected = counts.sum(axis=0) / n_chains
    with np.errstate(invalid="ignore", divide="ignore"):
        terms = np.where(expected > 0, (counts - expected) ** 2 / expected, 0)
        statistic = terms.sum(axis=(0, 2)) / inflation
    degrees = (n_chains - 1) * ((expected > 0).sum(axis=1) - 1)
    statistic = np.where((degrees > 0) & np.isfinite(inflation), statistic, np.nan)
    p_value = np.full(statistic.shape, np.nan)
    for df in np.unique(degrees[degrees > 0]):
        p_value[degrees == df] = chi_square_tail(statistic[degrees == df], int(df))
    return statistic, degrees, p_value


def chi_square_tail(x: np.ndarray, degrees: int) -> np.ndarray:
    """Return P(X > x) for a chi-square variable with an integer number of degrees of freedom.

    It is the upper incomplete gamma function from its recurrence Q(a + 1, y) = Q(a, y) + y^a e^-y /
    Gamma(a + 1), with y = x/2. The recurrence starts at erfc(sqrt y) or e^-y and has only positive
    terms.

    Args:
        x: (cell,) values, not negative; NaN stays NaN.
        degrees: degrees of freedom, at least 1.
    """
    half = np.asarray(x, dtype=float) / 2
    a = 0.5 if degrees % 2 else 1.0
    tail = np.array([math.erfc(math.sqrt(v)) for v in half]) if degrees % 2 else np.exp(-half)
    with np.errstate(divide="ignore"):
        log_half = np.log(half)
    while a < degrees / 2:
        tail = tail + np.exp(a * log_half - half - math.lgamma(a + 1))
        a += 1
    return np.minimum(tail, 1.0)


def _split(draws: np.ndarray) -> np.ndarray:
    """Return the halves of all chains, (sequence, 2 chains, half the draws).

    A trend within a chain becomes a difference between its halves.
    """
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]]).transpose(2, 0, 1).astype(float)
