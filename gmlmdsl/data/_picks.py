"""Weighted draws in NumPy, exact up to a relative rounding error.

Every value has its probability, however small, with a relative error of the size of rounding.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray
WORDS = 4  # A fraction consists of this many words of 52 bits.


def fractions(rng: np.random.Generator, size: int) -> Array:
    """Return random numbers in (0, 1) of 208 bits each, as floats.

    Their relative resolution near 0 is as fine as anywhere else.
    """
    found = np.full(size, 0.5)
    for word in rng.integers(0, 2**52, (WORDS, size)):
        found = (word + found) * 2.0**-52
    return found


def picked(rng: np.random.Generator, weights: Array, size: int) -> Array:
    """Return `size` draws of a place in `weights`, with replacement.

    The first if all weights are 0.

    Values are the leaves of a tree, and a separate random number decides at each node: see
    `derive/_picks.py`.
    """
    levels = [np.asarray(weights, float)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        half = (len(below) + 1) // 2
        levels.append(below[:half] + np.append(below[half:], np.zeros(2 * half - len(below))))
    place = np.zeros(size, np.int64)
    for level, above in zip(reversed(levels[:-1]), reversed(levels[1:]), strict=True):
        other = place + len(above)
        first, second = level[place], np.append(level, np.zeros(len(above)))[other]
        least = fractions(rng, size) * (first + second) < np.minimum(first, second)
        place = np.where(least != (first < second), other, place)
    return place
