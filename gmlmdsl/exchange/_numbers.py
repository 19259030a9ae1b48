"""Numbers as text."""

from __future__ import annotations

import math

import numpy as np

EPSILON = float(np.finfo(float).eps)


def short_number(value: float) -> str:
    """Return the shortest text of a number that reads as the same one: `1`, `0.25`."""
    return repr(float(value)).removesuffix(".0")


def written_number(value: float) -> str:
    """Return the text of exp(log p), without the digits that only the logarithm brought.

    The number has 15 digits if that is within the rounding of the logarithm, else all.
    """
    short = f"{value:.15g}"
    near = value > 0 and abs(float(short) - value) <= EPSILON * (1 + abs(math.log(value))) * value
    return short if near else short_number(value)


def written_row(row: np.ndarray) -> list[str]:
    """Return the text of each number of a row."""
    return [written_number(p) for p in row.ravel().tolist()]
