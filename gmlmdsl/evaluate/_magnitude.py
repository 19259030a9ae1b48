"""Factors so large that smaller numbers lose all digits beside them in the working type.

log p would not be normalised with such factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import jax
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, fail, listed
from .._types import AnyArray, ArrayLike
from ..data import is_traced
from ..derive.compiled import block_levels
from ..graph import FactorGraph, oversized_at, range_of
from ..masks import AbstractMask
from ..plan import BUDGET
from ._row_sizes import log_potentials, over_rows
from .limits import MAGNITUDE_SPACING, MOST_CHECKED_ROWS

Array = np.ndarray
Params = Mapping[str, jax.Array]
SOFTER = "state what is impossible by `require`, and other penalties smaller"


def largest_factor(kind: np.dtype) -> float:
    """Return the limit of a float type: 2^20 for 32 bits, 2^49 for 64 bits.

    Neighbouring numbers at the limit are 1/8 apart.
    """
    return MAGNITUDE_SPACING / float(np.finfo(kind).eps)


def rounded(value: ArrayLike, kind: np.dtype) -> Array:
    """Convert numbers of the host to the float type, without a warning of NumPy.

    Numbers that are too large become infinite.
    """
    with np.errstate(over="ignore"):
        return np.asarray(value, kind)


def as_stated(value: ArrayLike, array: Array) -> Array:
    """Return the numbers from which an array was made, in 64 bits if they are available."""
    plain = isinstance(value, int | float | list | np.ndarray | np.generic)
    return np.asarray(value, float) if plain and np.shape(value) == array.shape else array


def oversized(graph: FactorGraph, arrays: Mapping[str, Array], kind: np.dtype, summed: bool = True) -> GmlmError | None:
    """Return E591 for a factor whose largest value exceeds the limit of the float type, else None.

    Far smaller values of the same factor are allowed.

    Args:
        graph: the factor graph.
        arrays: parameters.
        kind: the float type.
        summed: whether factors are summed over configurations; otherwise the limit is the largest
            number of the type.
    """
    limit = largest_factor(kind) if summed else float(np.finfo(kind).max)
    # A graph with the data of a call is checked once and not cached.
    fixed = _of_numbers(graph, kind, limit) if graph.model is None else oversized_at(graph, {}, limit, kind)
    return fixed or (oversized_at(graph, arrays, limit, kind) if arrays else None)


@lru_cache(maxsize=64)
def _of_numbers(graph: FactorGraph, kind: np.dtype, limit: float) -> GmlmError | None:
    """Return E591 for an oversized factor of literals and inputs only, without parameters."""
    return oversized_at(graph, {}, limit, kind)


def verified_partition(graph: FactorGraph, found: AnyArray, among: str = "") -> AnyArray:
    """Return log Z, or a log sum over some configurations, if it leaves digits for log p.

    `among` describes the configurations. Traced sums pass.

    Raises:
        GmlmError: E591 if the sum is so low that every configuration has a penalty beyond the
            limit.
    """
    if not isinstance(found, jax.core.Tracer):  # pyright: ignore[reportAttributeAccessIssue]
        values, limit = np.asarray(found), largest_factor(np.dtype(found.dtype))
        bad = np.isfinite(values) & (values < -limit * max(1, sum(g.n for g in graph.factors)))
        if bad.any():
            what, help = "their log sum" if among else "log Z", "state what is impossible by `require`, and other penalties smaller"
            message = f"{what} is {values[bad][0]:g}: every configuration{among} has a factor below {-limit:g}, and beside numbers of "
            raise fail("E591", f"{message}that size log p has no digits left", help=help)
    return found


def may_be_penalised(graph: FactorGraph, params: Params) -> bool:
    """Return whether some factor may lie below the limit of the working type, according to bounds.

    The result is False for traced parameters, whose values are unknown.
    """
    if is_traced(dict(params)):
        return False
    known, most = {k: np.asarray(v) for k, v in params.items()}, int(graph.sizes.max(initial=1))
    limit = largest_factor(np.dtype(derive.float_type()))
    bounds = [range_of(g, most, known if g.parameters else None) for g in graph.factors if g.n]
    return any(b is None or b[0] < -limit for b in bounds)


def verify_levels(graph: FactorGraph, device: derive.Graph, params: Params, codes: Array, blocks: Array, rows: Array) -> None:
    """Raise E591 for a block, given a complete row, if all values have a penalty beyond the limit.

    Args:
        graph: the factor graph.
        device: the factor graph on the device.
        params: parameters, not traced.
        codes: the rows, (cells, rows).
        blocks: (blocks, members), padded.
        rows: the number of each row in the user's data.

    Raises:
        GmlmError: E591.
    """
    made = derive.fixed_blocks(graph, blocks)
    touching = max(1, sum(t.shape[1] for t in made.touch))
    cost = made.n_values * touching * len(blocks)
    found = over_rows(lambda some: block_levels(device, params, some, made), codes, params, cost)
    # Within a compiled function everything is traced, even without parameters.
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
    """Raise E591 as `verify_levels` does, for all blocks of a mask that can be enumerated.

    Args:
        graph: the factor graph.
        device: the factor graph on the device.
        params: parameters.
        mask: the mask.
        codes: complete rows, (cells, rows).
        masks: the masks drawn for each row, (masks, members, rows); None for all masks of the
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
        for row in low[:MOST_CHECKED_ROWS]:
            _verify_listed(graph, device, params, codes[:, [row]], np.unique(masks[:, :, row], axis=0), low[low == row])
    elif mask.support_size <= BUDGET.support:
        blocks = np.asarray(mask.enumerate_blocks()[0])
        if not mask.is_adaptive:
            _verify_listed(graph, device, params, codes[:, low], blocks, low)
            return
        # A mask that looks at x may draw other blocks in each row.
        for row in low[:MOST_CHECKED_ROWS]:
            here = derive.on_device(codes[:, [row]], np.int32)
            drawn = derive.mask_law(mask).block_probabilities(params, here, derive.on_device(blocks, np.int32))
            _verify_listed(graph, device, params, codes[:, [row]], blocks[np.asarray(drawn)[:, 0] > 0], low[low == row])


def _verify_listed(graph: FactorGraph, device: derive.Graph, params: Params, codes: Array, blocks: Array, rows: Array) -> None:
    values = np.append(graph.sizes, 1)[np.minimum(blocks, graph.n_cells)].astype(float).prod(axis=1)
    some: Array = blocks[(values > 1) & (values <= BUDGET.support)]
    if len(some):
        verify_levels(graph, device, params, codes, some, rows)
