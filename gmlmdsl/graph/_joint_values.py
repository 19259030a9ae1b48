"""All joint values of the cells that factors mention: a cell that stands in several slots has one value in all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class JointValues:
    """The joint values of some slots.

    Attributes:
        sizes: the number of values of each slot.
        owners: of each slot, the first one that holds the same cell: its own number where no
            earlier one does.
    """

    sizes: tuple[int, ...]
    owners: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each slot that owns its cell; 1 of the others."""
        return tuple(q if k == o else 1 for k, (q, o) in enumerate(zip(self.sizes, self.owners, strict=True)))

    @property
    def count(self) -> float:
        """How many there are."""
        return float(np.prod([float(q) for q in self.shape]))

    def of(self, slots: Sequence[int]) -> JointValues:
        """Those of some slots alone, ascending; the owner of each is among them."""
        place = {s: k for k, s in enumerate(slots)}
        return JointValues(tuple(self.sizes[s] for s in slots), tuple(place[self.owners[s]] for s in slots))

    def codes(self, start: int = 0, stop: int | None = None) -> tuple[Array, ...]:
        """The code of each slot under the joint values `start` to `stop`."""
        if not self.sizes:
            return ()
        found = np.unravel_index(np.arange(start, int(self.count) if stop is None else stop), self.shape)
        return tuple(found[o] for o in self.owners)


def joint_count(sizes: Array) -> float:
    """How many joint values cells have, of which each has so many values; infinite beyond the range of floats, which warns nobody."""
    with np.errstate(over="ignore"):
        return float(np.prod(np.asarray(sizes, float)))


def alike(cells: Array, none: int) -> Iterator[tuple[Array, tuple[int, ...]]]:
    """Rows of cells in which the same slots hold the same cells: which rows they are, and the first slot that holds the cell of each.

    Args:
        cells: of each row, one a slot.
        none: what stands for no cell, and shares its slot with no other.
    """
    n, slots = cells.shape
    own = tuple(range(slots))
    if slots < 2 or not n:
        yield np.arange(n), own
        return
    order = np.argsort(cells, axis=1, kind="stable")
    ordered = np.take_along_axis(cells, order, axis=1)
    again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] < none)
    if not again.any():
        yield np.arange(n), own
        return
    first = np.maximum.accumulate(np.where(np.pad(again, ((0, 0), (1, 0))), 0, np.arange(slots)), axis=1)
    owners = np.empty_like(order)
    np.put_along_axis(owners, order, np.take_along_axis(order, first, axis=1), axis=1)
    patterns, which = np.unique(owners, axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        yield np.flatnonzero(which.reshape(-1) == k), tuple(pattern.tolist())
