"""Factors so large that numbers of the working type beside them have no digits left: log p would not be normalised."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from .._diagnostics import GmlmError, fail
from ..graph import FactorGraph, oversized_at

Array = np.ndarray
# of neighbouring numbers at the limit: what is added to one of that size is rounded to a multiple
# of it
SPACING = 0.125


def largest_factor(kind: np.dtype) -> float:
    """The limit of a float type: 2^20 for 32 bits, 2^49 for 64 bits, where the next number is 1/8 away."""
    return SPACING / float(np.finfo(kind).eps)


def rounded(value: Any, kind: np.dtype) -> Array:
    """Numbers of the host in the float type; infinite where they are too large for it, without a warning of NumPy."""
    with np.errstate(over="ignore"):
        return np.asarray(value, kind)


def as_stated(value: Any, array: Array) -> Array:
    """The numbers behind an array of the float type, in 64 bits where they are at hand."""
    plain = isinstance(value, int | float | list | np.ndarray | np.generic)
    return np.asarray(value, float) if plain and np.shape(value) == array.shape else array


def oversized(graph: FactorGraph, arrays: Mapping[str, Array], kind: np.dtype, summed: bool = True) -> GmlmError | None:
    """E591 for a factor whose largest value is beyond what the float type can normalise; far smaller values beside it may be.

    Where nothing is `summed` over configurations, the limit is the largest number of the type.
    """
    limit = largest_factor(kind) if summed else float(np.finfo(kind).max)
    # A graph with data of a call is asked once, and not kept.
    fixed = _of_numbers(graph, kind, limit) if graph.model is None else oversized_at(graph, {}, limit, kind)
    return fixed or oversized_at(graph, arrays, limit, kind)


@lru_cache(maxsize=64)
def _of_numbers(graph: FactorGraph, kind: np.dtype, limit: float) -> GmlmError | None:
    """The same of factors that mention no parameter: literals and inputs."""
    return oversized_at(graph, {}, limit, kind)


def verified_partition(graph: FactorGraph, found: Any, among: str = "") -> Any:
    """log Z, or the log of a sum `among` some configurations, where it leaves digits for log p; traced ones pass.

    Raises:
        GmlmError: E591 where it is so low that every configuration has a penalty beyond the limit.
    """
    if not isinstance(found, jax.core.Tracer):  # pyright: ignore[reportAttributeAccessIssue]
        values, limit = np.asarray(found), largest_factor(np.dtype(found.dtype))
        bad = np.isfinite(values) & (values < -limit * max(1, sum(g.n for g in graph.factors)))
        if bad.any():
            what, help = "their log sum" if among else "log Z", "state what is impossible by `require`, and other penalties smaller"
            message = f"{what} is {values[bad][0]:g}: every configuration{among} has a factor below {-limit:g}, and beside numbers of "
            raise fail("E591", f"{message}that size log p has no digits left", help=help)
    return found
