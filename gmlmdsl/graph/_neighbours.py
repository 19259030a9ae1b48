"""Cells that share a factor, and distinct integers of long arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .limits import PAIRS_AT_ONCE

Array = np.ndarray


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
