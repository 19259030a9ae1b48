"""`mixture { v : m ..}`: first one of several masks is drawn, and then its block."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from .._diagnostics import Span, each
from ..graph import FactorGroup, Lowered, normalised
from ..program import ir
from ._mask import AbstractMask, Array, CellKey, Weights, padded_blocks

MOST_COUNTED = 1 << 17


@dataclass(frozen=True)
class MixtureMask(AbstractMask):
    """Mixture of masks: p(K | x) is the sum over parts of the weight times the part's probability.

    `weights` of shape (parts,) are positive and sum to 1.
    """

    weights: Array
    parts: tuple[AbstractMask, ...]
    n_cells: int = field(compare=False)
    span: Span = field(compare=False, repr=False)
    has_random_size = True
    is_mixture = True

    @cached_property
    def support_size(self) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        total = sum(p.support_size for p in self.parts)
        # The number of distinct blocks of all parts, or an upper bound, the sum over parts, if
        # counting them one by one would take long.
        return total if total > MOST_COUNTED else float(len(self.enumerate_blocks()[0]))

    @property
    def reach(self) -> Array:
        return np.unique(np.concatenate([p.reach for p in self.parts]))

    @property
    def largest_block(self) -> Array:
        return max((p.largest_block for p in self.parts), key=len)

    def enumerate_blocks(self) -> tuple[Array, Array | None]:
        found = [p.enumerate_blocks() for p in self.parts]
        blocks, inverse = np.unique(padded_blocks([b for b, _ in found], self.n_cells), axis=0, return_inverse=True)
        if any(p is None for _, p in found):
            return blocks, None
        weights = np.concatenate([w * p for w, (_, p) in zip(self.weights, found, strict=True) if p is not None])
        probabilities = np.bincount(inverse.reshape(-1), weights, len(blocks))
        return blocks[probabilities > 0], probabilities[probabilities > 0]

    def can_draw(self, block: Array) -> bool:
        return any(p.can_draw(block) for p in self.parts)

    @property
    def mean_size(self) -> float | None:
        return self._mean([p.mean_size for p in self.parts])

    def probability_of_holding(self, cells: Array) -> float | None:
        return self._mean([p.probability_of_holding(cells) for p in self.parts])

    def _mean(self, found: list[float | None]) -> float | None:
        """Return the weighted mean over parts, or None if it is unknown for one of them."""
        known = [f for f in found if f is not None]
        return float(sum(w * f for w, f in zip(self.weights, known, strict=True))) if len(known) == len(found) else None

    def leaves(self) -> Iterator[AbstractMask]:
        for part in self.parts:
            yield from part.leaves()

    def written_blocks(self) -> list[Array] | None:
        found = [p.written_blocks() for p in self.parts]
        return None if None in found else [blocks for part in found if part is not None for blocks in part]

    def key(self, cell_key: CellKey) -> Hashable:
        parts = [p.key(cell_key) for p in self.parts]
        if None in parts:
            return None
        return "mixture", tuple(sorted(zip(np.asarray(self.weights, float).tolist(), parts, strict=True), key=repr))

    @property
    def counts_cells(self) -> bool:
        return any(p.counts_cells for p in self.parts)

    @property
    def weight_groups(self) -> Weights:
        return tuple(g for p in self.parts for g in p.weight_groups)

    def with_weight_groups(self, change: Callable[[FactorGroup], FactorGroup]) -> MixtureMask:
        return replace(self, parts=tuple(p.with_weight_groups(change) for p in self.parts))

    def verify(self, sizes: Array, params: Mapping[str, Array] | None) -> None:
        for part in self.parts:
            part.verify(sizes, params)


def lower_mixture(lowered: Lowered, body: ir.MaskMixture, lower_part: Callable[[Lowered, ir.MaskBody], AbstractMask]) -> MixtureMask:
    """Return the mask of `mixture { .. }`.

    Each part with a positive weight is lowered by `lower_part`.
    """
    weights = normalised(np.array([lowered.bound.number(w) for w, _ in body.rows]), body.span)
    kept = [(w, part) for w, (_, part) in zip(weights, body.rows, strict=True) if w > 0]
    parts = each(lambda part: lower_part(lowered, part), [part for _, part in kept])
    return MixtureMask(np.array([w for w, _ in kept]), tuple(parts), lowered.graph.n_cells, body.span)
