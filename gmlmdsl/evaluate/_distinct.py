"""Equal rows as one: a loss without randomness by row is the same at all of them, so that their weights can be added first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
FEW = 0.8  # part of the rows that may be left for it to be worth while


@dataclass(frozen=True, eq=False)
class Distinct:
    """Rows of which none equals another.

    Attributes:
        codes: shape (cells, rows).
        weights: for each the sum of those of the rows that it stands for.
        repeated: how many of these have a weight above 0, and the sum of their squared weights,
            shape (2, rows).
    """

    codes: Array
    weights: Array
    repeated: Array


def distinct_rows(codes: Array, weights: Array) -> Distinct | None:
    """Rows with their weights, equal ones once, in the order in which they come first; None where most rows differ."""
    keys = _keys(codes)
    ordered, first, of = np.unique(keys, return_index=True, return_inverse=True)
    if len(ordered) > FEW * len(keys):
        return None
    if any((row != row[first[of]]).any() for row in codes):  # two rows of one key
        return None
    rank = np.empty(len(first), np.int64)
    order = np.argsort(first)
    rank[order] = np.arange(len(first))
    of = rank[of]
    some = (np.bincount(of, w, len(first)) for w in (weights, (weights > 0).astype(float), weights**2))
    total, count, squares = some
    return Distinct(codes[:, first[order]], total, np.stack([count, squares]))


def _keys(codes: Array) -> Array:
    """A number for each row, the same for equal rows: products with random odd numbers, modulo 2^64."""
    factors = np.random.default_rng(0).integers(0, 2**63, len(codes), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = np.zeros(codes.shape[1], np.uint64)
    for row, factor in zip(codes, factors, strict=True):
        keys += row.astype(np.uint64) * factor
    return keys
