"""Minibatches: rows of similar length together, in an order that depends only on seed and epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..data import NetworkRows, bucket_of, generator, present_lengths, widths

Array = np.ndarray


class Batch(NamedTuple):
    """Rows of one width, with their row numbers.

    Rows of weight 0 only fill the batch up to its size.
    """

    codes: Array
    given: tuple[Array, ...]
    lengths: tuple[Array, ...]
    weights: Array
    rows: Array
    width: int


@dataclass(frozen=True)
class Batches:
    """All batches of an epoch, in an order that depends only on (seed, epoch).

    `whole` is true if masks read cells beyond the width of a batch. Rows then keep all their cells.
    """

    rows: NetworkRows
    weights: Array
    size: int
    found: tuple[int, ...]
    bucket: Array
    n_cells: int
    whole: bool

    @classmethod
    def of(cls, rows: NetworkRows, weights: Array, size: int, stated: Sequence[int] | None, n_cells: int, whole: bool) -> Batches:
        """Return the rows sorted into buckets of widths.

        A row's bucket follows from the longest of its arrays: its cells and its given codes. Given
        real numbers do not count.

        Args:
            rows: the rows.
            weights: the weight of each row in the loss.
            size: the number of rows of a batch; all rows if there are fewer.
            stated: the widths of the buckets; None selects the default widths.
            n_cells: the number of cells of the model's variables.
            whole: whether rows keep all their cells.
        """
        lengths = present_lengths(rows.codes[:n_cells].T)
        for g in rows.given:
            if g.dtype.kind != "f":
                lengths = np.maximum(lengths, present_lengths(g))
        found = widths(int(lengths.max(initial=1)), stated)
        return cls(rows, weights, min(size, rows.n_rows), found, bucket_of(lengths, found), n_cells, whole)

    @property
    def used(self) -> tuple[int, ...]:
        """The widths of the buckets that contain a row."""
        return tuple(w for b, w in enumerate(self.found) if (self.bucket == b).any())

    @property
    def per_epoch(self) -> int:
        """The number of batches of an epoch."""
        return sum(-(-int((self.bucket == b).sum()) // self.size) for b in range(len(self.found)))

    def plan(self, seed: int, epoch: int) -> list[tuple[int, Array]]:
        """Return the batches of an epoch: for each the number of its bucket and its rows."""
        rng = generator(seed, epoch)
        out = []
        for b in range(len(self.found)):
            mine = rng.permutation(np.flatnonzero(self.bucket == b))
            out += [(b, mine[i : i + self.size]) for i in range(0, len(mine), self.size)]
        return [out[i] for i in rng.permutation(len(out))]

    def in_order(self) -> list[tuple[int, Array]]:
        """Return batches that contain every row once, bucket by bucket."""
        every = [np.flatnonzero(self.bucket == b) for b in range(len(self.found))]
        return [(b, mine[i : i + self.size]) for b, mine in enumerate(every) for i in range(0, len(mine), self.size)]

    def batch(self, b: int, chosen: Array) -> Batch:
        """Return the arrays of a batch of rows from bucket `b`, filled up to the batch size."""
        width = min(self.found[b], self.n_cells)
        rows = np.concatenate([chosen, np.full(self.size - len(chosen), chosen[0])])
        weights = self.weights[rows] * (np.arange(self.size) < len(chosen))
        codes = self.rows.codes[: None if self.whole else width][:, rows]
        given = [g[rows] if g.dtype.kind == "f" else g[rows, : min(self.found[b], g.shape[1])] for g in self.rows.given]
        lengths = tuple(present_lengths(g) for g in given)
        inside = tuple(np.maximum(g, 0) if g.dtype.kind != "f" else g for g in given)
        return Batch(codes, inside, lengths, weights.astype(np.float32), rows.astype(np.int32), width)
