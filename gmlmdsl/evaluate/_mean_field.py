"""The naive mean field: a product of distributions of single cells that bounds log Z from below.

The bound of q is log Z >= E_q[log_potential] + sum_i H(q_i). Coordinate ascent sets q_i(v)
proportional to exp(E[log_potential | x_i = v]) for the cells of one colour at a time, so that the
bound never decreases.

Reference: Saul, Jaakkola and Jordan 1996; Wainwright and Jordan 2008, section 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ._clamped_tables import ClampedTables, ColourBlock

Array = np.ndarray
Laws = list[Array]  # distributions of the cells of each size class, of shape (values, cells)


class Ascended(NamedTuple):
    """The result of coordinate ascent.

    Attributes:
        laws: the distributions.
        bound: the lower bound of log Z.
        converged: whether `residual` is at most the tolerance.
        iterations: the number of rounds over all cells.
        residual: the largest change of a probability in the last round.
    """

    laws: Laws
    bound: float
    converged: bool
    iterations: int
    residual: float


@dataclass(frozen=True, eq=False)
class MeanFieldAscent:
    """The bound of a product of distributions of single cells, and its ascent.

    Attributes:
        tables: the factors.
        blocks: the free cells by colour.
    """

    tables: ClampedTables
    blocks: Sequence[ColourBlock]

    @cached_property
    def _impossible(self) -> list[Array | None]:
        """For each group, 1 where its tables are -inf and 0 elsewhere; None if they are finite."""
        found = [g.values == -np.inf for g in self.tables.groups]
        return [bad.astype(float) if bad.any() else None for bad in found]

    @cached_property
    def _finite(self) -> list[Array]:
        """The tables of each group, 0 where they are -inf."""
        pairs = zip(self.tables.groups, self._impossible, strict=True)
        return [g.values if bad is None else np.where(bad > 0, 0.0, g.values) for g, bad in pairs]

    @cached_property
    def restricted(self) -> Array:
        """Whether a factor of each free cell can be -inf."""
        found = np.zeros(len(self.tables.free), bool)
        for c in self.tables.classes:
            found[c.cells] = (c.unary == -np.inf).any(axis=0)
        for group, bad in zip(self.tables.groups, self._impossible, strict=True):
            if bad is not None:
                found[group.cells[bad.any(axis=tuple(range(bad.ndim - 1)))]] = True
        return found

    def start(self, codes: Array, rng: np.random.Generator, spread: float) -> Laws:
        """Return random distributions near the uniform ones, of a bound above -inf.

        Args:
            codes: a configuration of positive probability, shape (cells,). A cell with a factor
                that can be -inf starts at its value.
            rng: the source of randomness.
            spread: the standard deviation of the log probabilities.
        """
        out = []
        for c in self.tables.classes:
            law = _softmax(spread * rng.standard_normal(c.unary.shape))
            fixed = np.arange(len(law))[:, None] == codes[c.cells]
            out.append(np.where(self.restricted[c.cells], fixed, law))
        return out

    def ascended(self, laws: Laws, iterations: int, tolerance: float) -> Ascended:
        """Ascend from given distributions until they change by at most `tolerance`.

        Args:
            laws: the distributions at the start, whose bound is above -inf.
            iterations: the largest number of rounds.
            tolerance: the largest change of a probability at convergence.
        """
        laws, residual, done = [law.copy() for law in laws], np.inf, 0
        while residual > tolerance and done < iterations:
            residual = max([0.0, *(self._update(b, laws) for b in range(len(self.blocks)))])
            done += 1
        return Ascended(laws, self.bound(laws), residual <= tolerance, done, residual)

    @cached_property
    def _kept(self) -> list[list[tuple[Array, Array | None]]]:
        """The entries of `_finite` and `_impossible` of each block's edges."""
        return [[(self._finite[g][..., rows], self._bad(g, rows)) for g, _, rows in block.edges] for block in self.blocks]

    def _bad(self, g: int, rows: Array) -> Array | None:
        bad = self._impossible[g]
        return None if bad is None else bad[..., rows]

    def _update(self, b: int, laws: Laws) -> float:
        """Update the cells of a block in place, and return the largest change."""
        block, kept = self.blocks[b], self._kept[b]
        parts = [self._expected(values, e, laws) for e, (values, _) in zip(block.edges, kept, strict=True)]
        level = block.summed(parts, block.unary)
        for edges, columns, (_, bad) in zip(block.edges, block.columns, kept, strict=True):
            if bad is not None:
                values, factors = np.nonzero(self._expected(bad, edges, [(p > 0).astype(float) for p in laws]))
                level[values, columns[factors]] = -np.inf
        k = int(self.tables.class_of[block.cells[0]])
        places = block.cells - self.tables.classes[k].start
        new = _softmax(level)
        change = float(np.abs(new - laws[k][:, places]).max(initial=0.0))
        laws[k][:, places] = new
        return change

    def _expected(self, values: Array, edges: tuple[int, int | None, Array | slice], laws: Laws) -> Array:
        """Return the expectation of some tables of a group, over the cells of all other slots.

        Args:
            values: the tables.
            edges: the group; the slot, or None for the expectation over all cells; the factors.
            laws: the distributions.
        """
        g, slot, rows = edges
        cells, found = self.tables.groups[g].cells[rows], values
        # Later slots are contracted first, so that each slot is still at its own axis.
        for s in reversed(range(cells.shape[1])):
            if s != slot:
                k = int(self.tables.class_of[cells[0, s]])
                law = laws[k][:, cells[:, s] - self.tables.classes[k].start]
                found = _mean(np.moveaxis(found, s, 0), law)
        return found

    def bound(self, laws: Laws) -> float:
        """Return E_q[log_potential] + sum_i H(q_i) of distributions whose bound is above -inf."""
        total = self.tables.constant
        for c, law in zip(self.tables.classes, laws, strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                total += float(np.where(law > 0, law * (c.unary - np.log(law)), 0.0).sum())
        for g, finite in enumerate(self._finite):
            total += float(self._expected(finite, (g, None, slice(None)), laws).sum())
        return total


def _mean(values: Array, law: Array) -> Array:
    """Return the sum over the first axis of values times probabilities, without a large product."""
    total = values[0] * law[0]
    for v in range(1, len(law)):
        total += values[v] * law[v]
    return total


def _softmax(level: Array) -> Array:
    weight = np.exp(level - level.max(axis=0))
    return weight / weight.sum(axis=0)
