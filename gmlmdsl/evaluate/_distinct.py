"""Merging of equal rows, whose weights are added.

A loss without randomness by row is identical for equal rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
FEW = 0.8  # largest fraction of distinct rows for which merging pays


@dataclass(frozen=True, eq=False)
class Distinct:
    """Rows of which no two are equal.

    Attributes:
        codes: shape (cells, rows).
        weights: for each row the sum of the weights of the rows that it stands for.
        repeated: shape (2, rows): the number of these rows with a weight above 0, and the sum of
            their squared weights.
    """

    codes: Array
    weights: Array
    repeated: Array


def distinct_rows(codes: Array, weights: Array) -> Distinct | None:
    """Return the distinct rows in order of first appearance; None if most rows differ."""
    keys = _keys(codes)
    ordered, first, of = np.unique(keys, return_index=True, return_inverse=True)
    if len(ordered) > FEW * len(keys):
        return None
    if any((row != row[first[of]]).any() for row in codes):  # two different rows have one key
        return None
    rank = np.empty(len(first), np.int64)
    order = np.argsort(first)
    rank[order] = np.arange(len(first))
    of = rank[of]
    some = (np.bincount(of, w, len(first)) for w in (weights, (weights > 0).astype(float), weights**2))
    total, count, squares = some
    return Distinct(codes[:, first[order]], total, np.stack([count, squares]))


def _keys(codes: Array) -> Array:
    """Return a number for each row, identical for equal rows.

    It is the sum of products with random odd numbers, modulo 2^64.
    """
    factors = np.random.default_rng(0).integers(0, 2**63, len(codes), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = np.zeros(codes.shape[1], np.uint64)
    for row, factor in zip(codes, factors, strict=True):
        keys += row.astype(np.uint64) * factor
    return keys
