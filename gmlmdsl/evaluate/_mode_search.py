"""Search for a configuration of large probability: greedy descent and simulated annealing.

Both move single cells, those of one colour at once. Within a search a factor that is -inf counts as
a penalty larger than any gain of one move, so that a search may start at an impossible
configuration. The configurations that it returns are judged without the penalty.

Reference: Kirkpatrick, Gelatt and Vecchi 1983 for annealing; Besag 1986 for the descent, there
called iterated conditional modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from . import limits
from ._clamped_tables import ClampedTables, ColourBlock

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class ModeSearch:
    """Moves of single free cells.

    Attributes:
        tables: the factors.
        blocks: the free cells by colour.
    """

    tables: ClampedTables
    blocks: Sequence[ColourBlock]

    @cached_property
    def _spans(self) -> tuple[Array, float]:
        """The largest change of log p by a move of each cell, and the smallest by one factor.

        Entries of -inf do not count.
        """
        spans, least = np.zeros(len(self.tables.free)), np.inf
        every = [(c.unary, np.arange(c.start, c.start + c.unary.shape[1])[:, None]) for c in self.tables.classes]
        every += [(g.values, g.cells) for g in self.tables.groups]
        for values, cells in every:
            span, gap = _changes(values.reshape(-1, values.shape[-1]))
            np.add.at(spans, cells, span[:, None])
            least = min(least, gap)
        # A factor without a table changes by what it changes at random configurations.
        probes = np.random.default_rng(0).integers(0, self.tables.sizes[:, None], (len(spans), limits.PROBES))
        for cell, number in (pair for block in self.blocks for pair in block.dense):
            span, gap = _changes(self._moved(cell, number, probes))
            spans[cell] += span.max(initial=0.0)
            least = min(least, gap)
        return spans, float(least)

    @cached_property
    def _penalty(self) -> float:
        return 2.0 * float(self._spans[0].max(initial=0.0)) + 1.0

    @cached_property
    def _kept(self) -> list[tuple[Array, list[_Touched]]]:
        """For each block its factors of one cell, and its other factors."""
        return [(self._finite(b.unary), [_touched(self.tables, *edge, self._finite) for edge in b.edges]) for b in self.blocks]

    def _finite(self, values: Array) -> Array:
        return np.where(values == -np.inf, -self._penalty, values)

    def _levels(self, k: int, codes: Array) -> Array:
        """Return log p, up to a constant, of each value of the cells of a block given all others.

        Args:
            k: the block.
            codes: shape (cells, chains).

        Returns:
            An array of shape (values, cells of the block, chains).
        """
        unary, touched = self._kept[k]
        block = self.blocks[k]
        found = block.summed([t.values_at(codes) for t in touched], unary[:, :, None])
        if not block.dense:
            return np.broadcast_to(found, (*found.shape[:2], codes.shape[1]))
        found = np.broadcast_to(found, (*found.shape[:2], codes.shape[1])).copy()
        for cell, number in block.dense:
            found[:, np.searchsorted(block.cells, cell)] += self._finite(self._moved(cell, number, codes))
        return found

    def _moved(self, cell: int, number: int, codes: Array) -> Array:
        """Return a factor without a table at every value of a cell, shape (values, chains)."""
        values, chains = int(self.tables.sizes[cell]), codes.shape[1]
        wide = np.tile(codes, values)
        wide[cell] = np.repeat(np.arange(values), chains)
        return self.tables.dense[number].log_potential(wide).reshape(values, chains)

    def descended(self, codes: Array) -> Array:
        """Return local optima: no move of a single cell increases log p.

        Args:
            codes: the starts, shape (cells, chains).
        """
        codes = codes.copy()
        for _ in range(limits.DESCENTS):
            moved = False
            for k, block in enumerate(self.blocks):
                levels = self._levels(k, codes)
                now = codes[block.cells]
                best = levels.argmax(axis=0)
                gain = (np.take_along_axis(levels, w[None], axis=0)[0] for w in (best, now))
                better = np.subtract(*gain) > limits.TIE_BREAK * self._penalty
                codes[block.cells] = np.where(better, best, now)
                moved = moved or bool(better.any())
            if not moved:
                break
        return codes

    def annealed(self, chains: int, sweeps: int, rng: np.random.Generator) -> Array:
        """Return the ends of chains at rising beta, each after a descent.

        In a sweep every cell is drawn from its conditional of p^beta given the others. The betas
        form a geometric sequence. At the first, the largest change of log p by one move has the
        odds 1/2. At the last, the smallest change by one factor has the odds 1/100, unless that
        needs more than `COLDEST` times the first beta. Where no factor changes log p by a finite
        amount, both are of the penalty of an impossible value.

        Args:
            chains: the number of chains, which start at uniform configurations.
            sweeps: the number of sweeps of each chain.
            rng: the source of randomness.

        Returns:
            Codes of shape (cells, chains).
        """
        codes = rng.integers(0, self.tables.sizes[:, None], (len(self.tables.free), chains))
        for beta in self._betas(sweeps):
            for k, block in enumerate(self.blocks):
                levels = beta * self._levels(k, codes)
                noise = np.log(rng.standard_exponential(levels.shape))
                codes[block.cells] = (levels - noise).argmax(axis=0)
        return self.descended(codes)

    def _betas(self, sweeps: int) -> Array:
        spans, least = self._spans
        largest = spans.max(initial=0.0)
        hot = np.log(2.0) / (largest if largest > 0 else self._penalty)
        cold = np.log(100.0) / min(least, self._penalty)
        return np.geomspace(hot, np.clip(cold, hot, limits.COLDEST * hot), sweeps)


def _changes(values: Array) -> tuple[Array, float]:
    """Return the largest difference of finite entries by column, and the smallest positive one."""
    top, low = (np.where(np.isfinite(values), values, fill) for fill in (-np.inf, np.inf))
    gaps = np.diff(np.sort(np.where(np.isfinite(values), values, np.nan), axis=0), axis=0)
    return np.maximum(top.max(axis=0) - low.min(axis=0), 0.0), float(gaps[gaps > 0].min(initial=np.inf))


@dataclass(frozen=True, eq=False)
class _Touched:
    """The tables of a group that touch a block in one slot.

    Attributes:
        others: the other cells of each factor, shape (factors, k - 1).
        strides: the steps of these cells' values in `flat`.
        flat: the tables, shape (values in the slot, joint values of the others * factors).
    """

    others: Array
    strides: Array
    flat: Array

    def values_at(self, codes: Array) -> Array:
        """Return the values given the other cells, shape (values in the slot, factors, chains)."""
        at = np.arange(len(self.others))[:, None]
        for s, stride in enumerate(self.strides.tolist()):
            at = at + stride * codes[self.others[:, s]]
        return np.take(self.flat, at, axis=1)


def _touched(tables: ClampedTables, g: int, slot: int, rows: Array, finite: Callable[[Array], Array]) -> _Touched:
    group = tables.groups[g]
    values = finite(np.moveaxis(group.values[..., rows], slot, 0))
    sizes = values.shape[1:]
    strides = np.cumprod([1, *sizes[:0:-1]])[::-1]
    return _Touched(np.delete(group.cells[rows], slot, axis=1), strides[: len(sizes) - 1], values.reshape(len(values), -1))
