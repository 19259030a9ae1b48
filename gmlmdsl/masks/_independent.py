"""`each x[i] for i in .. rate r(x)`: independent cells with rates.

The rates may depend on cells or parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from .._diagnostics import Span, each, fail
from ..graph import FactorGroup, Lowered, Turns, fixed_values
from ..program import ir
from ._bernoulli import BernoulliMask
from ._block_terms import are_numbers, live_blocks, term_blocks
from ._mask import AbstractMask, Array, Weights, all_subsets, power_of_two


@dataclass(frozen=True)
class IndependentMask(AbstractMask):
    """Mask with independent cells, whose rates mention cells or parameters.

    `rates` has groups with one instance per cell, and `cell_of` the cell of each instance.
    """

    cells: Array
    rates: Weights
    cell_of: tuple[Array, ...]
    n_cells: int = field(compare=False)
    span: Span = field(compare=False, repr=False)
    has_random_size = True
    most_weight = 1.0

    @property
    def support_size(self) -> float:
        return power_of_two(len(self.cells))

    @property
    def reach(self) -> Array:
        return self.cells

    def enumerate_blocks(self) -> tuple[Array, Array | None]:
        return all_subsets(self.cells, np.zeros(0, np.int64), self.n_cells)[0], None

    def can_draw(self, block: Array) -> bool:
        return bool(np.isin(block, self.cells).all())

    @property
    def weight_groups(self) -> Weights:
        return self.rates

    def with_weight_groups(self, change: Callable[[FactorGroup], FactorGroup]) -> IndependentMask:
        return replace(self, rates=tuple(map(change, self.rates)))


def lower_independent(lowered: Lowered, body: ir.Independent) -> BernoulliMask | IndependentMask:
    """Return the mask of `each ..`; if all rates are numbers, it is a Bernoulli mask.

    Raises:
        GmlmError: E410 if no cell is left, E411 for a cell that has two rates, E409 for a rate out
            of bounds.
    """
    found = each(lambda part: (*term_blocks(lowered, part[0]), part[1]), body.terms)
    _verify_distinct(lowered, [b.ravel() for b, t, _ in found if t.n], body)
    kept = []
    for blocks, turns, rate in found:
        if turns.n:
            width = blocks.shape[1]
            spread = Turns({k: np.repeat(v, width) for k, v in turns.names.items()}, turns.n * width, 0, turns.taken)
            kept.append(live_blocks(lowered, blocks.reshape(-1, 1), rate, spread, "rate", IndependentMask.most_weight))
    kept = [(b[:, 0], g) for b, g in kept if g.n]
    if not kept:
        raise fail("E410", "all rates of this mask are 0", body.span, "an empty support", help="give some cell a rate above 0")
    cells, groups = np.sort(np.concatenate([c for c, _ in kept])), tuple(g for _, g in kept)
    places = tuple(np.searchsorted(cells, c) for c, _ in kept)
    if not are_numbers(groups):
        return IndependentMask(cells, groups, places, lowered.graph.n_cells, body.span)
    rates = np.zeros(len(cells))
    for place, group in zip(places, groups, strict=True):
        rates[place] = fixed_values(group)
    return BernoulliMask(cells, rates, None, lowered.graph.n_cells, body.span)


def _verify_distinct(lowered: Lowered, parts: list[Array], body: ir.Independent) -> None:
    if not parts:
        raise fail("E410", "this mask names no cell", body.span, "an empty support", help="check the conditions of its loops")
    cells, counts = np.unique(np.concatenate(parts), return_counts=True)
    if (counts > 1).any():
        name = lowered.graph.cell_name(int(cells[np.argmax(counts > 1)]))
        help = "leave it out of one of the two, by `if` behind the loop"
        raise fail("E411", f"`{name}` is drawn twice: a cell has one rate", body.span, "a cell twice", help=help)
