"""Masks that draw each cell independently with rates that are numbers.

They are `bernoulli(x, rate = r)`, and `each .. : x[i]` with rates that mention no cells.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from .._diagnostics import Span, fail
from ..graph import Lowered
from ..program import ir
from ._block_terms import cells_of
from ._mask import AbstractMask, Array, CellKey, all_subsets, power_of_two


@dataclass(frozen=True)
class BernoulliMask(AbstractMask):
    """Mask with independent cells.

    Each cell has its rate in `rates` of shape (cells,), or all cells share one rate drawn from
    `uniform`.
    """

    cells: Array
    rates: Array | None
    uniform: tuple[float, float] | None
    n_cells: int = field(compare=False)
    span: Span = field(compare=False, repr=False)
    has_random_size = True

    @property
    def support_size(self) -> float:
        return power_of_two(len(self.cells) if self.rates is None else int(((self.rates > 0) & (self.rates < 1)).sum()))

    @property
    def reach(self) -> Array:
        return self.cells if self.rates is None else self.cells[self.rates > 0]

    def enumerate_blocks(self) -> tuple[Array, Array | None]:
        if self.rates is None:
            blocks, chosen = all_subsets(self.cells, np.zeros(0, np.int64), self.n_cells)
            return blocks, self.size_probabilities()[chosen.sum(axis=1)]
        free = (self.rates > 0) & (self.rates < 1)
        blocks, chosen = all_subsets(self.cells[free], self.cells[self.rates == 1], self.n_cells)
        r = self.rates[free]
        return blocks, np.prod(np.where(chosen == 1, r, 1 - r), axis=1)

    def can_draw(self, block: Array) -> bool:
        always = self.cells[:0] if self.rates is None else self.cells[self.rates == 1]
        return bool(np.isin(block, self.reach).all() and np.isin(always, block).all())

    @property
    def mean_size(self) -> float | None:
        return float(self.rates.sum()) if self.rates is not None else len(self.cells) * sum(self.uniform or ()) / 2

    def probability_of_holding(self, cells: Array) -> float | None:
        if not np.isin(cells, self.cells).all():
            return 0.0
        if self.rates is not None:
            return float(np.prod(self.rates[np.searchsorted(self.cells, cells)]))
        (a, b), power = self.uniform or (0.0, 0.0), len(cells) + 1
        return (b**power - a**power) / (power * (b - a))

    def size_probabilities(self) -> Array:
        """Return the probability of one given block of each size 0..n, for a random rate.

        It is the mean of r^k (1 - r)^(n - k) over rates r drawn from uniform(a, b).
        """
        from scipy.special import betainc, betaln

        assert self.uniform is not None
        (a, b), n = self.uniform, len(self.cells)
        k = np.arange(n + 1)
        return np.exp(betaln(k + 1, n - k + 1)) * (betainc(k + 1, n - k + 1, b) - betainc(k + 1, n - k + 1, a)) / (b - a)

    def key(self, cell_key: CellKey) -> Hashable:
        rates = np.zeros(len(self.cells)) if self.rates is None else self.rates
        each = ((cell_key(int(c)), float(p)) for c, p in zip(self.cells, rates, strict=True))
        return "bernoulli", self.uniform, tuple(sorted(each, key=repr))


def lower_bernoulli(lowered: Lowered, body: ir.FormMask) -> BernoulliMask:
    """Return the mask of `bernoulli(..)`, with its cells and its rate.

    Raises:
        GmlmError: E409 for a rate that is not a probability, E410 for a rate of 0.
    """
    cells, rate, n_cells = cells_of(lowered, body.variables), body.call.arguments["rate"], lowered.graph.n_cells
    written: tuple[ir.Expression, ...] = rate if isinstance(rate, tuple) else (rate,)  # pyright: ignore[reportAssignmentType]
    ends = tuple(map(lowered.bound.number, written))
    stray = next((k for k, r in enumerate(ends) if not 0 <= r <= 1), None)
    if stray is not None:
        help_ = f"`{written[stray].span.text}` comes from inputs: bind numbers that make it one from 0 to 1"
        raise fail("E409", f"a rate lies between 0 and 1, found {ends[stray]:g}", written[stray].span, "not a probability", help=help_)
    if ends[0] > ends[-1]:
        message = f"a rate is drawn between a smaller and a larger number, found {ends[0]:g} and {ends[-1]:g}"
        raise fail("E409", message, body.span, "the first is larger", help="exchange the two")
    if ends[-1] == 0:
        raise fail("E410", "a mask of rate 0 never hides a cell", body.span, "an empty support", help="write a rate above 0, such as 0.15")
    if len(ends) == 2 and ends[0] < ends[1]:
        return BernoulliMask(cells, None, (ends[0], ends[1]), n_cells, body.span)
    return BernoulliMask(cells, np.full(len(cells), ends[0]), None, n_cells, body.span)
