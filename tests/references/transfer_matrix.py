"""log Z of a grid of cells by row transfer matrices in factorised form: cell by cell, never as a matrix over pairs of rows.

Rows are numbered down, columns across, row-major. The state is a table over the q^m values of one row (with both ends wrapped: for
each value of the first row). A step over one cell costs q^(m+1), so n rows cost n m q^(m+1), and q^m times that when rows wrap.
Tables are divided by their largest entry, whose log is kept.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray
FIRST_ROWS_AT_ONCE = 1 << 22  # numbers in one table


def ising_log_partition(right: Array, down: Array, fields: Array, wrap: bool = True) -> float:
    """log of the sum over spins of exp(sum right_ij x_ij x_i,j+1 + sum down_ij x_ij x_i+1,j + sum fields_ij x_ij).

    Args:
        right: coupling of each cell to its right neighbour, shape (n, m); the last column wraps, and counts only with `wrap`.
        down: coupling of each cell to the one below, shape (n, m); the last row wraps, and counts only with `wrap`.
        fields: shape (n, m).
        wrap: both ways. An axis of length 2 then has two edges between its cells, one of length 1 an edge of a cell to itself.
    """
    spins = np.array([-1.0, 1.0])
    pair = np.multiply.outer(spins, spins)
    return grid_log_partition(right[..., None, None] * pair, down[..., None, None] * pair, fields[..., None] * spins, wrap)


def potts_log_partition(right: Array, down: Array, fields: Array, wrap: bool = True) -> float:
    """The same for exp(sum over edges of J [x_i = x_j] + sum fields_i[x_i]); `fields` of shape (n, m, q)."""
    same = np.eye(fields.shape[2])
    return grid_log_partition(right[..., None, None] * same, down[..., None, None] * same, np.asarray(fields, float), wrap)


def grid_log_partition(right: Array, down: Array, fields: Array, wrap: bool) -> float:
    """log Z of any pairwise model of a grid: log factors `right` and `down` of shape (n, m, q, q), `fields` (n, m, q)."""
    _, m, q = fields.shape
    if not wrap:
        return float(_open_rows(right, down, fields))
    count, parts = q**m, []
    per = max(1, FIRST_ROWS_AT_ONCE // count)
    for start in range(0, count, per):
        given = np.arange(start, min(start + per, count))
        parts.append(_rows_from(given, right, down, fields))
    return float(_log_sum(np.concatenate(parts)))


def _open_rows(right: Array, down: Array, fields: Array) -> Array:
    n, m, q = fields.shape
    table, log_scale = np.ones((1, *(q,) * m)), np.zeros(1)
    for i in range(n):
        table, log_scale = _times(table, log_scale, _row(right[i], fields[i], False))
        if i < n - 1:
            table, log_scale = _below(table, log_scale, down[i])
    return log_scale[0] + np.log(table.sum())


def _rows_from(given: Array, right: Array, down: Array, fields: Array) -> Array:
    """For each value of the first row: log of the sum over all other rows."""
    n, m, q = fields.shape
    first = _row(right[0], fields[0], True).reshape(-1)[given]
    table = np.zeros((len(given), q**m))
    table[np.arange(len(given)), given] = 1.0
    table, log_scale = table.reshape(-1, *(q,) * m), first
    for i in range(n - 1):
        table, log_scale = _below(table, log_scale, down[i])
        table, log_scale = _times(table, log_scale, _row(right[i + 1], fields[i + 1], True))
    table, log_scale = _below(table, log_scale, down[n - 1])
    closed = table.reshape(len(given), -1)[np.arange(len(given)), given]
    with np.errstate(divide="ignore"):
        return log_scale + np.log(closed)


def _row(right: Array, fields: Array, wrap: bool) -> Array:
    """The factors inside one row, shape (q, .., q)."""
    m, q = fields.shape
    total = np.zeros((q,) * m)
    for j in range(m):
        total = total + fields[j].reshape([q if k == j else 1 for k in range(m)])
        other = (j + 1) % m
        if j == m - 1 and not wrap:
            continue
        if other == j:
            total = total + np.diag(right[j])
            continue
        table = right[j] if j < other else right[j].T
        total = total + table.reshape([q if k in (j, other) else 1 for k in range(m)])
    return total


def _below(table: Array, log_scale: Array, down: Array) -> tuple[Array, Array]:
    """From a row to the one below: the factor of each column in turn."""
    for j in range(len(down)):
        top = down[j].max()
        table = np.moveaxis(np.tensordot(table, np.exp(down[j] - top), axes=(j + 1, 0)), -1, j + 1)
        log_scale = log_scale + top
    return _scaled(table, log_scale)


def _times(table: Array, log_scale: Array, log_factor: Array) -> tuple[Array, Array]:
    top = log_factor.max()
    return _scaled(table * np.exp(log_factor - top)[None], log_scale + top)


def _scaled(table: Array, log_scale: Array) -> tuple[Array, Array]:
    top = table.reshape(len(table), -1).max(axis=1)
    safe = np.where(top > 0, top, 1.0)
    return table / safe.reshape(-1, *[1] * (table.ndim - 1)), log_scale + np.log(safe)


def _log_sum(values: Array) -> float:
    top = values.max()
    return top + np.log(np.exp(values - top).sum())
