"""Blocks all of whose values have a penalty so large that numbers of the working type have no digits left beside it.

A penalty costs nothing where another value of the block has none. Where the rest of a row lets
every value have one, p(x_K | x_rest) is a difference of two large numbers. Only rows that have such
a penalty themselves can be beside such a block: of the others nothing is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .. import derive
from .._diagnostics import fail, listed
from ..derive.compiled import block_levels
from ..graph import FactorGraph, range_of
from ..masks import AbstractMask
from ..plan import BUDGET
from ._magnitude import largest_factor
from ._row_sizes import is_traced, log_potentials, over_rows

Array = np.ndarray
Params = Mapping[str, jax.Array]
MOST_ROWS = 64  # with masks of their own that are looked at
SOFTER = "state what is impossible by `require`, and other penalties smaller"


def may_be_penalised(graph: FactorGraph, params: Params) -> bool:
    """Whether some factor may lie below the limit of the working type; bounds say that none does. Nothing is known of traced parameters."""
    if is_traced(dict(params)):
        return False
    known, most = {k: np.asarray(v) for k, v in params.items()}, int(graph.sizes.max(initial=1))
    limit = largest_factor(np.dtype(derive.float_type()))
    bounds = [range_of(g, most, known if g.parameters else None) for g in graph.factors if g.n]
    return any(b is None or b[0] < -limit for b in bounds)


def verify_levels(graph: FactorGraph, device: derive.Graph, params: Params, codes: Array, blocks: Array, rows: Array) -> None:
    """Refuse complete rows beside a block, (blocks, members), all of whose values have a penalty beyond the limit.

    Args:
        graph: the factor graph.
        device: the same on the device.
        params: parameters, not traced.
        codes: the rows, (cells, rows).
        blocks: (blocks, members), padded.
        rows: the number that each row has for its user.

    Raises:
        GmlmError: E591.
    """
    made = derive.fixed_blocks(graph, blocks)
    touching = max(1, sum(t.shape[1] for t in made.touch))
    cost = made.n_values * touching * len(blocks)
    found = over_rows(lambda some: block_levels(device, params, some, made), codes, params, cost)
    # within a function that is compiled everything is, where no parameter is too
    if is_traced(found):
        return
    found = np.asarray(found)
    limit = largest_factor(found.dtype)
    bad = np.argwhere(np.isfinite(found) & (found < -limit * touching))
    if len(bad):
        block, row = bad[0]
        names = listed([graph.cell_name(int(c)) for c in blocks[block] if c < graph.n_random])
        message = f"row {rows[row]} of x: beside its other cells every value of {names} has a factor below {-limit:g}, and beside numbers"
        raise fail("E591", f"{message} of that size log p has no digits left", help=SOFTER)


def verify_blocks(graph: FactorGraph, device: derive.Graph, params: Params, mask: AbstractMask, codes: Array, masks: Array | None) -> None:
    """The same of all blocks of a mask that are small enough to be listed, of complete rows.

    `masks` are those that were drawn for each row, (masks, members, rows); none: all of the
    support.
    """
    if not codes.shape[1] or not may_be_penalised(graph, params):
        return
    limit = largest_factor(np.dtype(derive.float_type()))
    level = log_potentials(device, params, codes)
    if is_traced(level):
        return
    level = np.asarray(level)
    low = np.flatnonzero(np.isfinite(level) & (level < -limit))
    if not len(low):
        return
    if masks is not None:
        for row in low[:MOST_ROWS]:
            _verify_listed(graph, device, params, codes[:, [row]], np.unique(masks[:, :, row], axis=0), low[low == row])
    elif not mask.is_adaptive and mask.support_size <= BUDGET.support:
        _verify_listed(graph, device, params, codes[:, low], np.asarray(mask.enumerate_blocks()[0]), low)


def _verify_listed(graph: FactorGraph, device: derive.Graph, params: Params, codes: Array, blocks: Array, rows: Array) -> None:
    values = np.append(graph.sizes, 1)[np.minimum(blocks, graph.n_cells)].astype(float).prod(axis=1)
    some: Any = blocks[(values > 1) & (values <= BUDGET.support)]
    if len(some):
        verify_levels(graph, device, params, codes, some, rows)
