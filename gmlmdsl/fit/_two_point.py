"""Two-point correlations of rows and of chains, and how closely they agree.

The connected correlation of the values a and b of two cells is f(a, b) - f(a) f(b), with f the
relative frequencies. It is compared for all pairs of cells and all values.

A model that is the truth agrees with the rows only as far as the rows' own noise allows. The
Pearson correlation between two random halves of the rows measures that noise: the *ceiling*.

Reference: Figliuzzi, Barrat-Charlaix and Weigt 2018; Muntoni et al. 2021; Rosset et al. 2025.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data import generator
from ..graph import FactorGraph
from .limits import HALF_SPLITS, JACKKNIFE_GROUPS, MOST_COMPARED_VALUES, ROWS_AT_ONCE

Array = np.ndarray


@dataclass(frozen=True)
class Agreement:
    """The agreement between the two-point correlations of chains and of rows.

    Attributes:
        pearson: the Pearson correlation over all pairs of cells and values. The noise of the chains
            would lower it, and is subtracted from their variance.
        error: its Monte Carlo error, by leaving out groups of chains.
        slope: the regression slope of the chains' correlations on those of the rows.
        ceiling: the mean Pearson correlation between halves of the rows.
    """

    pearson: float
    error: float
    slope: float
    ceiling: float

    @property
    def words(self) -> str:
        """The agreement in words."""
        ceiling = f"two halves of the rows agree to {self.ceiling:.3f}"
        if not np.isfinite(self.pearson):
            return f"the two-point correlations of the chains do not exceed their noise, and {ceiling}"
        found = f"{self.pearson:.3f} (Monte Carlo error {self.error:.1g})"
        return f"the Pearson correlation of the two-point correlations with those of the rows is {found}, and {ceiling}"


class TwoPoint:
    """The two-point correlations of the rows, to which chains are compared.

    Args:
        host: the factor graph.
        codes: shape (cells, rows), -1 if a cell is missing.
        weights: the weights of the rows.
        seed: the seed of the chosen cells and of the halves.
    """

    def __init__(self, host: FactorGraph, codes: Array, weights: Array, seed: int) -> None:
        rng = generator(seed)
        self.cells = compared_cells(host, rng)
        self.sizes = host.sizes[self.cells]
        self.rows = self.connected(self.counts(codes, weights))
        halves = []
        for _ in range(HALF_SPLITS):
            order = rng.permutation(codes.shape[1])
            both = (order[: len(order) // 2], order[len(order) // 2 :])
            halves.append(pearson(*(self.connected(self.counts(codes[:, half], weights[half])) for half in both)))
        self.ceiling = float(np.mean(halves))

    @property
    def width(self) -> int:
        """The maximum number of values of a compared cell."""
        return int(self.sizes.max())

    def counts(self, codes: Array, weights: Array | None = None) -> Array:
        """Return how often values of two cells occur together.

        Args:
            codes: shape (cells, rows), -1 if a cell is missing.
            weights: the weights of the rows, 1 if None.

        Returns:
            Array of shape (cells x values, cells x values).
        """
        side, total = len(self.cells) * self.width, 0.0
        places = np.arange(len(self.cells))[:, None] * self.width
        for first in range(0, codes.shape[1], ROWS_AT_ONCE):
            here = codes[self.cells, first : first + ROWS_AT_ONCE]
            indicators = np.zeros((here.shape[1], side), np.float32)
            cell, row = np.nonzero(here >= 0)
            indicators[row, (here + places)[cell, row]] = 1
            scaled = indicators if weights is None else indicators * weights[first : first + ROWS_AT_ONCE, None].astype(np.float32)
            total = total + scaled.T @ indicators
        return np.zeros((side, side), np.float32) + total

    def connected(self, counts: Array) -> Array:
        """Return the connected correlations as a vector; nan for a pair that never occurs."""
        n, q = len(self.cells), self.width
        first, second = np.triu_indices(n, 1)
        joint = counts.reshape(n, q, n, q)[first, :, second, :].astype(float)
        with np.errstate(invalid="ignore", divide="ignore"):
            joint = joint / joint.sum(axis=(1, 2), keepdims=True)
        found = joint - joint.sum(axis=2, keepdims=True) * joint.sum(axis=1, keepdims=True)
        inside = np.arange(q) < self.sizes[:, None]
        return found[inside[first][:, :, None] & inside[second][:, None, :]]

    def agreement(self, codes: Array) -> Agreement:
        """Return the agreement of some chains, shape (times, cells, chains)."""
        count = min(JACKKNIFE_GROUPS, codes.shape[2])
        groups = [self.counts(np.concatenate(list(codes[:, :, k::count]), axis=1)) for k in range(count)]
        total = np.sum(groups, axis=0)
        chains = self.connected(total)
        left_out = np.array([self.connected(total - group) for group in groups])
        noise = np.zeros_like(chains) if count < 2 else (count - 1) * left_out.var(axis=0)
        found = pearson(chains, self.rows, noise)
        each = np.array([pearson(one, self.rows, noise) for one in left_out])
        known = np.isfinite(chains) & np.isfinite(self.rows)
        spread = self.rows[known].var()
        slope = np.cov(chains[known], self.rows[known], ddof=0)[0, 1] / spread if spread > 0 else np.nan
        return Agreement(min(found, 1.0), float(np.sqrt((count - 1) * each.var())), float(slope), self.ceiling)


def compared_cells(host: FactorGraph, rng: np.random.Generator) -> Array:
    """Return the observed cells whose correlations are compared: all, or random ones of many."""
    cells = np.flatnonzero(host.is_observed & (host.sizes > 1))
    most = max(2, MOST_COMPARED_VALUES // int(host.sizes[cells].max(initial=1)))
    return cells if len(cells) <= most else np.sort(rng.choice(cells, most, replace=False))


def pearson(a: Array, b: Array, noise: Array | None = None) -> float:
    """Return the Pearson correlation of the entries that both have; nan if one does not vary.

    Args:
        a: numbers.
        b: numbers.
        noise: the variances of the errors of `a`, whose mean is subtracted from the variance of `a`
            so that they do not lower the correlation; none if None.
    """
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    if len(a) < 2:
        return float("nan")
    own = a.var() - (0.0 if noise is None else noise[known].mean())
    scale = own * b.var()
    return float(((a - a.mean()) * (b - b.mean())).mean() / np.sqrt(scale)) if scale > 0 else float("nan")
