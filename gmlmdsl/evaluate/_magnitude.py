"""Factors so large that smaller numbers lose all digits beside them in the working type.

log p would not be normalised with such factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import jax
import numpy as np

from .._diagnostics import GmlmError, fail
from .._types import AnyArray, ArrayLike
from ..graph import FactorGraph, oversized_at

Array = np.ndarray
# The spacing of neighbouring numbers at the limit. A number added to one of that size is rounded to
# a multiple of the spacing.
SPACING = 0.125


def largest_factor(kind: np.dtype) -> float:
    """Return the limit of a float type: 2^20 for 32 bits, 2^49 for 64 bits.

    Neighbouring numbers at the limit are 1/8 apart.
    """
    return SPACING / float(np.finfo(kind).eps)


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
