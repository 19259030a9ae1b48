"""The interface of a mask: its support, its cells, and what its distribution depends on."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import ClassVar, Self

import numpy as np

from .._diagnostics import Span
from ..graph import FactorGroup, GivenRows, group_with, verify_weights

Array = np.ndarray
Weights = tuple[FactorGroup, ...]
CellKey = Callable[[int], Hashable]


class AbstractMask(abc.ABC):
    """Distribution p(K | x) over blocks K of the cells of a bound model.

    Blocks are integer arrays of shape (blocks, members): positions of cells ascending, padded with
    `n_cells`.

    Attributes:
        n_cells: the number of cells of the model, which also pads blocks.
        span: the place of the mask in the program.
        most_weight: the upper limit of one of its own weights.
        has_random_size: whether sizes vary so much between draws that size buckets pay off in a
            step.
        is_listed: whether its blocks are written one by one.
        is_mixture: whether it first draws one of several masks.
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
        """Number of distinct blocks; for a mixture, an upper bound.

        The empty block counts if the form draws it. If all weights of listed blocks are 0, nothing
        is drawn, and this does not count as a block.
        """

    @property
    @abc.abstractmethod
    def reach(self) -> Array:
        """Cells that occur in some block, ascending."""

    @property
    def largest_block(self) -> Array:
        """Cells of the largest block that can be drawn; by default all cells of `reach`.

        Ties go to the first block by position.
        """
        return self.reach

    @abc.abstractmethod
    def enumerate_blocks(self) -> tuple[Array, Array | None]:
        """Return every distinct block, padded, and its probability.

        The probability is None if it depends on cells or parameters. The caller must check
        `support_size` first. The empty block is a row of padding.
        """

    @abc.abstractmethod
    def can_draw(self, block: Array) -> bool:
        """Return whether a block (distinct positions, ascending) is drawn at some configuration."""

    def written_blocks(self) -> list[Array] | None:
        """Return families of blocks that a program writes out, or that are single cells.

        The result is None if the mask has other blocks.
        """
        return None

    def leaves(self) -> Iterator[AbstractMask]:
        """Yield the masks that a mixture draws from, also those of nested mixtures.

        A mask that is not a mixture yields itself.
        """
        yield self

    @property
    def mean_size(self) -> float | None:
        """E|K|, or None for a mask that mentions cells or parameters."""
        return None

    def probability_of_holding(self, cells: Array) -> float | None:
        """Return the probability that K contains these cells.

        The result is None if it depends on cells or parameters.
        """
        return None

    def key(self, cell_key: CellKey) -> Hashable:
        """Return a key of the mask's distribution that is independent of the numbers of cells.

        Equal keys mean equal distributions. The key is None if the distribution varies.

        Args:
            cell_key: a function that returns the representation of a cell in the comparison.
        """
        return None

    @property
    def counts_cells(self) -> bool:
        """Whether some block has a fixed number of the cells that a row has.

        Rows of different lengths then have different blocks.
        """
        return False

    @property
    def weight_groups(self) -> Weights:
        """Weights or rates that mention cells, parameters or given variables."""
        return ()

    def with_weight_groups(self, change: Callable[[FactorGroup], FactorGroup]) -> Self:
        """Return the mask with each of its weight groups changed."""
        return self

    @property
    def is_adaptive(self) -> bool:
        """Whether the mask is data-dependent, that is, p(K | x) varies with x."""
        return any(g.scope.shape[1] for g in self.weight_groups)

    @property
    def varies(self) -> bool:
        """Whether p(K | x) varies from row to row, with x or with given variables."""
        return self.is_adaptive or any(g.given is not None for g in self.weight_groups)

    @property
    def mentions_parameter(self) -> bool:
        """Whether p(K | x) depends on a parameter."""
        return any(g.parameters for g in self.weight_groups)

    @property
    def looked_at(self) -> Array:
        """Cells that p(K | x) depends on, ascending."""
        cells = np.unique(np.concatenate([np.zeros(0, np.int64), *(g.cells.ravel() for g in self.weight_groups)]))
        return cells[cells < self.n_cells].astype(np.int64)

    def with_given(self, data: GivenRows, sizes: Array) -> Self:
        """Return the mask with the data of given variables, and verify its weights and rates.

        `sizes` has the number of values of each cell.

        Raises:
            GmlmError: E409 for a weight or rate that some row makes negative, infinite or too
                large.
        """
        found = self.with_weight_groups(lambda group: group_with(group, data))
        found.verify(sizes, None)
        return found

    def verify(self, sizes: Array, params: Mapping[str, Array] | None) -> None:
        """Raise E409 unless the weights and rates that mention parameters are within bounds.

        Without `params`, only weights and rates that mention given variables are verified.

        Args:
            sizes: the number of values of each cell, shape (cells,).
            params: parameters by name.

        Raises:
            GmlmError: E409, with the number found.
        """
        for group in self.weight_groups:
            if group.parameters if params is not None else group.given is not None:
                slots = np.append(sizes, 1)[group.cells].max(axis=0).tolist()
                verify_weights(group, slots, len(sizes), self.most_weight, params)


def padded_blocks(parts: list[Array], n_cells: int) -> Array:
    """Return families of blocks as one array, padded to the widest."""
    width = max((p.shape[1] for p in parts), default=1)
    return np.concatenate([np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=n_cells) for p in parts])


def all_subsets(free: Array, always: Array, n_cells: int) -> tuple[Array, Array]:
    """Return every subset of `free` together with `always`, padded, and its members in `free`.

    The second array states which cells of `free` each subset contains, shape (subsets, free).
    """
    chosen = (np.arange(2 ** len(free))[:, None] >> np.arange(len(free))[::-1]) & 1
    padded = np.where(chosen == 1, free, n_cells)
    blocks = np.sort(np.concatenate([padded, np.broadcast_to(always, (len(padded), len(always)))], axis=1), axis=1)
    return blocks.astype(np.int32), chosen


def power_of_two(exponent: int) -> float:
    """Return 2^exponent, or infinity if that is too large for a float."""
    return 2.0**exponent if exponent < 1000 else math.inf
