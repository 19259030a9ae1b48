"""Cliques of strongly coupled cells: their constants, and the search for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln
from scipy.stats import binom

from .._diagnostics import fail
from ._ising import NEGLIGIBLE, Ising

Array = np.ndarray
# Limit on the cells of a clique whose joint values are all tried. For a larger clique the mode gap
# is bounded from below.
MOST_LISTED = 12
MOST_THRESHOLDS = 32
MOST_CLIQUES = 2048


@dataclass(frozen=True, eq=False)
class Clique:
    """A clique with its constants.

    Attributes:
        cells: positions, ascending.
        signs: for each cell +1 if R_1 has its second value, and -1 if R_1 has its first value.
        hG, most_hG: the smallest and the largest value of the sum of the fields over the outside.
        mode_gap, stay_field: the two J0.
    """

    cells: tuple[int, ...]
    signs: tuple[int, ...]
    hG: float
    most_hG: float
    mode_gap: float
    stay_field: float

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.cells)

    @property
    def r(self) -> float:
        """The constant |C| tanh(J0) / 2 - 1."""
        return self.size * math.tanh(self.stay_field) / 2 - 1

    @property
    def log_weights(self) -> Array:
        """Logarithms of the relative weights of R_1, R_-1 and all other values.

        The weights bound the probabilities of these, see `ModeSeparation`.
        """
        others = math.log(2.0**self.size - 2) if self.size < 1000 else self.size * math.log(2)
        return np.array([2 * (self.mode_gap + self.hG), 2 * self.mode_gap, others])

    @property
    def log_leaving(self) -> float:
        """The logarithm of a bound on leaving: a binomial tail.

        The bound is on the probability that one independent parallel step raises the sum over C
        above -2.
        """
        most = (self.size - 2) // 2  # number of cells that may be +1
        log_up = -float(np.logaddexp(0.0, 2 * self.stay_field))
        log_tail = float(binom.logsf(most, self.size, math.exp(log_up)))
        union = gammaln(self.size + 1) - gammaln(most + 2) - gammaln(self.size - most) + (most + 1) * log_up
        return min(float(union), 0.0) if not math.isfinite(log_tail) else log_tail


def strongest_clique(found: Ising) -> Clique:
    """Return the clique of strong pairs that independent updates leave least probably.

    The probability is the bound `log_leaving`.

    Raises:
        GmlmError: E710 if no two cells interact.
    """
    cliques = [clique_of(found, cells) for cells in strong_cliques(found.J)]
    if not cliques:
        raise fail("E710", "mode separation: no two cells of the model interact, so none is a clique", help="the model has no such modes")
    return max(cliques, key=lambda c: (-c.log_leaving, c.size, c.stay_field))


def clique_of(found: Ising, cells: tuple[int, ...]) -> Clique:
    """Return the constants of a clique.

    The spins are signed such that couplings to the clique's first cell are positive and the fields
    favour +1.
    """
    at = np.array(cells)
    signs = np.where(found.J[at, at[0]] < 0, -1, 1)
    signs = -signs if (signs * found.h[at]).sum() < 0 else signs
    h, J = signs * found.h[at], np.outer(signs, signs) * found.J[np.ix_(at, at)]
    outside = signs[:, None] * np.delete(found.J[at], at, axis=1)
    outside = outside[:, np.abs(outside).any(axis=0)]
    spread = float(np.abs(outside.sum(axis=0)).sum())
    gap = _mode_gap(h, J, outside) if len(cells) <= MOST_LISTED else _least_mode_gap(h, J, outside)
    turned = tuple(signs.tolist())
    return Clique(cells, turned, float(h.sum()) - spread, float(h.sum()) + spread, gap, _stay_field(h, J, outside))


def _mode_gap(h: Array, J: Array, outside: Array) -> float:
    """Return the smallest half difference of log p between all -1 and a set S of cells at +1.

    S is neither empty nor all cells.
    """
    size = len(h)
    up = ((np.arange(1, 2**size - 1)[:, None] >> np.arange(size)) & 1).astype(float)
    return float((((up @ J) * (1 - up)).sum(axis=1) - up @ h - np.abs(up @ outside).sum(axis=1)).min())


def _least_mode_gap(h: Array, J: Array, outside: Array) -> float:
    """Return a lower bound on the mode gap.

    m cells at +1 meet the smallest coupling m (|C| - m) times, and the m largest fields.
    """
    size, weakest = len(h), float(J[~np.eye(len(J), dtype=bool)].min())
    m = np.arange(1, size)
    return float((weakest * m * (size - m) - np.cumsum(np.sort(h + np.abs(outside).sum(axis=1))[::-1])[:-1]).min())


def _stay_field(h: Array, J: Array, outside: Array) -> float:
    """Return the smallest -(field) of a cell of the clique while the sum over it is at most -2.

    The other cells at +1 are then at most (|C| - 2) / 2.
    """
    most = (len(h) - 2) // 2
    best = np.sort(np.maximum(J, 0.0), axis=1)[:, ::-1][:, :most].sum(axis=1)
    return float(-(h + np.abs(outside).sum(axis=1) - J.sum(axis=1) + 2 * best).max())


def strong_cliques(J: Array) -> Iterator[tuple[int, ...]]:
    """Yield the maximal cliques of the graphs of all pairs with |J_ij| at least a threshold.

    The thresholds start at the largest |J_ij| and fall. Each clique occurs once, and there are at
    most 2048. At most 32 thresholds are tried; among more, they are evenly spaced order statistics.
    """
    size = np.abs(J)
    levels = np.unique(size[np.triu_indices(len(J), 1)])
    levels = levels[levels > NEGLIGIBLE * levels.max(initial=0.0)][::-1]
    # Couplings that differ by rounding only are merged into one level.
    levels = levels[np.append(True, -np.diff(levels) > NEGLIGIBLE * levels[:-1])] if len(levels) else levels
    if len(levels) > MOST_THRESHOLDS:
        levels = levels[np.linspace(0, len(levels) - 1, MOST_THRESHOLDS).round().astype(int)]
    seen: set[tuple[int, ...]] = set()
    for level in levels:
        for clique in _maximal_cliques(size >= level * (1 - NEGLIGIBLE)):
            if clique not in seen:
                seen.add(clique)
                yield clique
            if len(seen) >= MOST_CLIQUES:
                return


def _maximal_cliques(adjacent: Array) -> Iterator[tuple[int, ...]]:
    """Yield all maximal cliques of at least two cells (Bron and Kerbosch 1973, with pivots)."""
    near = [frozenset(np.flatnonzero(row).tolist()) - {i} for i, row in enumerate(adjacent)]
    start = frozenset(i for i, others in enumerate(near) if others)
    todo: list[tuple[frozenset[int], frozenset[int], frozenset[int]]] = [(frozenset(), start, frozenset())]
    while todo:
        chosen, open_, closed = todo.pop()
        if not open_:
            if not closed and len(chosen) > 1:
                yield tuple(sorted(chosen))
            continue
        pivot = max(open_ | closed, key=lambda v: (len(near[v] & open_), -v))
        for v in sorted(open_ - near[pivot]):
            todo.append((chosen | {v}, open_ & near[v], closed & near[v]))
            open_, closed = open_ - {v}, closed | {v}
