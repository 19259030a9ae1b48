"""What every mask answers: its support, the cells that it reaches, and what its distribution p(K | x) depends on."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from .._diagnostics import Span
from ..graph import FactorGroup, GivenRows, group_with, verify_weights

Array = np.ndarray
Weights = tuple[FactorGroup, ...]
CellKey = Callable[[int], Any]


class AbstractMask(abc.ABC):
    """A distribution p(K | x) over blocks K of the cells of a bound model.

    Blocks are integer arrays of shape (blocks, members): positions of cells ascending, padded with
    `n_cells`.

    Attributes:
        n_cells: the number of cells of the model, and what pads a block.
        span: where the mask is written.
        most_weight: the most that one of its own weights may be.
        has_random_size: whether sizes vary from draw to draw so much that a step pays for buckets
            of sizes.
        is_listed: whether its blocks are written one by one.
        is_mixture: whether it draws one of several masks first.
    """

    n_cells: int
    span: Span
    most_weight: ClassVar[float] = math.inf
    has_random_size: ClassVar[bool] = False
    is_listed: ClassVar[bool] = False
    is_mixture: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def support_size(self) -> float:
        """The number of distinct blocks (of a mixture, at most), the empty one included where a form draws it.

        Where all weights of listed blocks are 0 nothing is drawn: that is none of them.
        """

    @property
    @abc.abstractmethod
    def reach(self) -> Array:
        """The cells that some block holds, ascending."""

    @property
    def largest_block(self) -> Array:
        """The cells of the block with the most cells that can be drawn, here all that it reaches; of several the first by position."""
        return self.reach

    @abc.abstractmethod
    def enumerate_blocks(self) -> tuple[Array, Array | None]:
        """Every distinct block, padded, and its probability (None where that depends on cells or parameters).

        The caller has judged `support_size` first. The empty block is a row of padding.
        """

    @abc.abstractmethod
    def can_draw(self, block: Array) -> bool:
        """Whether a block (distinct positions, ascending) is drawn at some configuration."""

    def written_blocks(self) -> list[Array] | None:
        """Families of blocks that a program writes out, or that are single cells; None where a mask has others."""
        return None

    def leaves(self) -> Iterator[AbstractMask]:
        """The masks that a mixture draws from, through mixtures in it; of another mask, itself."""
        yield self

    @property
    def mean_size(self) -> float | None:
        """E|K|, or None for a mask that mentions cells or parameters."""
        return None

    def probability_of_holding(self, cells: Array) -> float | None:
        """The probability that K contains these cells; None where it depends on cells or parameters."""
        return None

    def key(self, cell_key: CellKey) -> Any:
        """What a mask draws, whatever numbers its cells have: equal keys mean one distribution. None where that varies.

        Args:
            cell_key: what stands for a cell in the comparison.
        """
        return None

    @property
    def counts_cells(self) -> bool:
        """Whether some block is a fixed number of those cells that a row has: rows of other lengths then have other blocks."""
        return False

    @property
    def weight_groups(self) -> Weights:
        """The weights or rates that mention cells, parameters or what is given."""
        return ()

    def with_weight_groups(self, change: Callable[[FactorGroup], FactorGroup]) -> Self:
        """The mask with each of its weight groups changed."""
        return self

    @property
    def is_adaptive(self) -> bool:
        """Whether p(K | x) varies with x."""
        return any(g.scope.shape[1] for g in self.weight_groups)

    @property
    def varies(self) -> bool:
        """Whether p(K | x) varies from row to row: with x, or with what is given."""
        return self.is_adaptive or any(g.given is not None for g in self.weight_groups)

    @property
    def mentions_parameter(self) -> bool:
        """Whether p(K | x) depends on a parameter."""
        return any(g.parameters for g in self.weight_groups)

    @property
    def looked_at(self) -> Array:
        """The cells that p(K | x) depends on, ascending."""
        cells = np.unique(np.concatenate([np.zeros(0, np.int64), *(g.cells.ravel() for g in self.weight_groups)]))
        return cells[cells < self.n_cells].astype(np.int64)

    def with_given(self, data: GivenRows, sizes: Array) -> Self:
        """The mask with the data of given variables, its weights and rates judged on them; `sizes` are the numbers of values of the cells.

        Raises:
            GmlmError: E409 for a weight or rate that some row makes negative, infinite or too
                large.
        """
        found = self.with_weight_groups(lambda group: group_with(group, data))
        found.verify(sizes, None)
        return found

    def verify(self, sizes: Array, params: Mapping[str, Array] | None) -> None:
        """Judge weights and rates that mention parameters; without `params`, those that mention given variables alone.

        Args:
            sizes: the number of values of each cell, shape (cells,).
            params: parameters by name.

        Raises:
            GmlmError: E409 with the number found.
        """
        for group in self.weight_groups:
            if group.parameters if params is not None else group.given is not None:
                slots = np.append(sizes, 1)[group.cells].max(axis=0).tolist()
                verify_weights(group, slots, len(sizes), self.most_weight, params)


def padded_blocks(parts: list[Array], n_cells: int) -> Array:
    """Families of blocks as one array, padded to the widest."""
    width = max((p.shape[1] for p in parts), default=1)
    return np.concatenate([np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=n_cells) for p in parts])


def all_subsets(free: Array, always: Array, n_cells: int) -> tuple[Array, Array]:
    """Every subset of `free` with `always` beside it, padded; and which of `free` it holds, shape (subsets, free)."""
    chosen = (np.arange(2 ** len(free))[:, None] >> np.arange(len(free))[::-1]) & 1
    padded = np.where(chosen == 1, free, n_cells)
    blocks = np.sort(np.concatenate([padded, np.broadcast_to(always, (len(padded), len(always)))], axis=1), axis=1)
    return blocks.astype(np.int32), chosen


def power_of_two(exponent: int) -> float:
    """2^exponent; infinite where it is no float."""
    return 2.0**exponent if exponent < 1000 else math.inf
