"""The cells that factors mention: their joint values, and which cells share a factor.

A cell that fills several slots of a factor has one value in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .limits import PAIRS_AT_ONCE

Array = np.ndarray


@dataclass(frozen=True)
class JointValues:
    """The joint values of some slots.

    Attributes:
        sizes: the number of values of each slot.
        owners: for each slot, the first slot that holds the same cell, which may be the slot
            itself.
    """

    sizes: tuple[int, ...]
    owners: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each slot that owns its cell; 1 for the other slots."""
        return tuple(q if k == o else 1 for k, (q, o) in enumerate(zip(self.sizes, self.owners, strict=True)))

    @property
    def count(self) -> float:
        """The number of joint values."""
        return float(np.prod([float(q) for q in self.shape]))

    def of(self, slots: Sequence[int]) -> JointValues:
        """Return the joint values of some slots, which are ascending and include their owners."""
        place = {s: k for k, s in enumerate(slots)}
        return JointValues(tuple(self.sizes[s] for s in slots), tuple(place[self.owners[s]] for s in slots))

    def codes(self, start: int = 0, stop: int | None = None) -> tuple[Array, ...]:
        """Return the code of each slot under the joint values `start` to `stop`."""
        if not self.sizes:
            return ()
        found = np.unravel_index(np.arange(start, int(self.count) if stop is None else stop), self.shape)
        return tuple(found[o] for o in self.owners)


def joint_count(sizes: Array) -> float:
    """Return the number of joint values of cells with the given numbers of values.

    The result is infinite beyond the range of floats, without a warning.
    """
    with np.errstate(over="ignore"):
        return float(np.prod(np.asarray(sizes, float)))


def alike(cells: Array, none: int) -> Iterator[tuple[Array, tuple[int, ...]]]:
    """Group rows of cells by which of their slots hold the same cell.

    Args:
        cells: rows of cells, one column per slot.
        none: the position that stands for no cell. Slots without a cell are never equal.

    Yields:
        The rows of one pattern, and for each slot the first slot that holds the same cell.
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
    for pattern, rows in grouped(owners):
        yield rows, tuple(pattern.tolist())


def grouped(rows: Array) -> Iterator[tuple[Array, Array]]:
    """Yield each distinct row of a matrix, in ascending order, with the numbers of these rows."""
    kinds, which = np.unique(rows, axis=0, return_inverse=True)
    for k, kind in enumerate(kinds):
        yield kind, np.flatnonzero(which.reshape(-1) == k)


@dataclass(frozen=True)
class SumLink:
    """A requirement by which a partial sum follows from a term and from the sum that holds both.

    A table of all these cells would be empty but for one entry for each value of the others.

    Attributes:
        cell: the position of the partial sum that follows.
        cells: the positions of the others: first the cells of the term, then the sum of both.
        codes: the code of `cell` at the values of `cells`, -1 where there is none.
    """

    cell: int
    cells: tuple[int, ...]
    codes: Array


def link_scopes(links: Sequence[SumLink]) -> list[Array]:
    """Return the cells of the links of each width, shape (links, cells of a link)."""
    widths = sorted({len(k.cells) for k in links})
    return [np.array([(k.cell, *k.cells) for k in links if len(k.cells) == width]) for width in widths]


def neighbours(scopes: Iterable[Array], n: int) -> tuple[Array, Array]:
    """Return the cells below n that share a row of a scope, as (starts, cells).

    The neighbours of a cell are ascending and distinct, and do not include the cell.
    """
    keys = [np.zeros(0, np.int64)]
    for scope in scopes:
        if scope.shape[1] == 2:
            a, b = scope[((scope < n).all(axis=1)) & (scope[:, 0] != scope[:, 1])].astype(np.int64).T
            keys += [a * n + b, b * n + a]
            continue
        step = max(1, PAIRS_AT_ONCE // max(1, scope.shape[1] ** 2))
        for start in range(0, len(scope) if scope.shape[1] > 1 else 0, step):
            cells = scope[start : start + step].astype(np.int64)
            i, j = np.broadcast_arrays(cells[:, :, None], cells[:, None, :])
            good = (i != j) & (i < n) & (j < n)
            keys.append(distinct(i[good] * n + j[good]))
    found = distinct(np.concatenate(keys))
    starts = np.searchsorted(found, np.arange(n + 1, dtype=np.int64) * n)
    return starts, found % max(n, 1)


def distinct(values: Array) -> Array:
    """Return the distinct values of an array, ascending, as `np.unique` does.

    `np.unique` uses a hash table, which is slower than sorting on millions of integers.
    """
    found = np.sort(values, axis=None)
    fresh = np.ones(len(found), bool)
    np.not_equal(found[1:], found[:-1], out=fresh[1:])
    return found[fresh]


def rank_within(keys: Array) -> Array:
    """Return how many equal keys precede each key."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    fresh = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(keys) else np.zeros(0, np.int64)
    lengths = np.diff(np.append(fresh, len(keys)))
    out = np.empty(len(keys), np.int64)
    out[order] = np.arange(len(keys)) - np.repeat(fresh, lengths)
    return out
