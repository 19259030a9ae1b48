"""Reductions of terms along an axis, on arrays of NumPy or JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from types import ModuleType

NEUTRAL = {"+": 0, "*": 1, "min": np.inf, "max": -np.inf, "logsumexp": -np.inf}


def reduced(operator: str, terms: Any, axis: int, xp: ModuleType) -> Any:
    """Return the reduction of an array of NumPy or JAX along an axis.

    `logsumexp` is accurate for terms of any size.

    Args:
        operator: `+`, `*`, `min`, `max` or `logsumexp`.
        terms: the terms.
        axis: the axis of the reduction.
        xp: the array library.
    """
    match operator:
        case "+":
            return terms.sum(axis=axis)
        case "*":
            return terms.prod(axis=axis)
        case "min":
            return terms.min(axis=axis)
        case "max":
            return terms.max(axis=axis)
    highest = terms.max(axis=axis, keepdims=True)
    highest = xp.where(xp.isfinite(highest), highest, 0.0)
    return xp.log(xp.exp(terms - highest).sum(axis=axis)) + xp.squeeze(highest, axis)
