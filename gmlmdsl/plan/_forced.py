"""Cells whose value follows from those that are held, by requirements of one or two cells: the naked singles of a Sudoku."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..graph import FactorGraph, FactorGroup
from ..graph.nodes import evaluate, numpy_leaves

Array = np.ndarray
MOST_LISTED = 1 << 24  # values of all instances of one group


def with_forced(graph: FactorGraph, held: Array, codes: Array) -> tuple[Array, Array] | None:
    """The held cells, and those for which one value is left, and so on (arc consistency).

    Args:
        graph: whose requirements count.
        held: booleans over cells.
        codes: their values, shape (cells,).

    Returns:
        Both with more cells; None where some cell has no value left.

    Reference: Mackworth 1977.
    """
    sizes = np.append(graph.sizes, 1)
    values = np.arange(sizes.max())
    left = (values < sizes[:, None]) & (~np.append(held, False)[:, None] | (values == np.append(codes, 0)[:, None]))
    tables = [found for g in graph.groups if g.kind == "require" for found in _pairs(g, sizes)]
    before = 0
    while left.sum() != before:
        before = left.sum()
        for cells, good in tables:
            for one, other, table in ((0, 1, good), (1, 0, good.swapaxes(1, 2))):
                supported = (table & left[cells[:, other], None, : table.shape[2]]).any(axis=2)
                unsupported = np.zeros_like(left)
                np.logical_or.at(unsupported[:, : table.shape[1]], cells[:, one], ~supported)
                left &= ~unsupported
    left = left[:-1]
    if not left.any(axis=1).all():
        return None
    return left.sum(axis=1) == 1, np.where(left.sum(axis=1) == 1, left.argmax(axis=1), codes).astype(codes.dtype)


def _pairs(group: FactorGroup, sizes: Array) -> Iterator[tuple[Array, Array]]:
    """The cells of a requirement of one or two cells, (n, 2), and at which of their values it holds, (n, values, values)."""
    shape = sizes[group.cells].max(axis=0, initial=1).tolist()
    alike = group.n and group.given is None and (sizes[group.cells] == shape).all()
    if not alike or not 1 <= len(shape) <= 2 or group.n * np.prod(shape) > MOST_LISTED:
        return
    codes = dict(enumerate(np.indices(shape).reshape(len(shape), -1)))
    with np.errstate(all="ignore"):
        good = evaluate(group.root, numpy_leaves(group.columns, group.tables, codes, slice(0, group.n)))
    good = np.broadcast_to(np.asarray(good, bool), (group.n, int(np.prod(shape)))).reshape(group.n, shape[0], -1)
    yield group.cells[:, [0, -1]], (good & np.eye(shape[0], dtype=bool) if len(shape) == 1 else good)
