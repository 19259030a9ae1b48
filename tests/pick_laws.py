"""The exact law of a primitive that draws, from the thresholds of its numbers: nothing is drawn.

Number by number, what is picked changes at one or two thresholds, which are found by bisection of floats. That a number lies below p with
probability p is tested in `derive/test_random.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = np.ndarray
LEAST = 2.0**-125  # of a fraction


@dataclass(frozen=True)
class Given:
    """Words whose fractions are given, shape (levels, *shape)."""

    fractions: Any

    @property
    def high(self) -> Any:
        return jnp.zeros(self.fractions.shape, jnp.uint32)

    def number(self, level: int = 0) -> Any:
        return self.fractions[level]

    def numbers(self) -> tuple[Any, Any]:
        return self.fractions[0], self.fractions[1]


def law_of(pick: Callable[[Given], Any], values: int, levels: int) -> Array:
    """The probability of each value, by a function of numbers of shape (levels, lanes) that gives a value of each lane."""
    dtype = np.dtype(jnp.result_type(float))
    run = jax.jit(lambda numbers: pick(Given(numbers)))

    def picked(numbers: Array) -> Array:
        lanes = numbers.shape[1]
        return np.asarray(run(jnp.asarray(np.pad(numbers, ((0, 0), (0, values - lanes)), mode="edge"))))[:lanes]

    numbers, p = np.full((levels, 1), 0.5, dtype), np.ones(1)
    for k in range(levels):
        numbers, p = _split(picked, numbers, p, k)
    out = np.zeros(values)
    np.add.at(out, picked(numbers), p)
    return out


def _split(picked: Callable[[Array], Array], numbers: Array, p: Array, k: int) -> tuple[Array, Array]:
    """Lanes with number k within each of the ranges in which all pick the same."""
    dtype, bits = numbers.dtype, np.uint32 if numbers.dtype == np.float32 else np.uint64

    def at(x: Array) -> Array:
        return picked(np.concatenate([numbers[:k], x[None], numbers[k + 1 :]]))

    ends = [np.full(len(p), e, dtype) for e in (LEAST, 1.0)]
    first, last = at(ends[0]), at(ends[1])

    def least(goes: Callable[[Array], Array]) -> Array:
        """The least float at which it goes; it goes at 1."""
        low, high = (e.view(bits).astype(object) for e in ends)
        for _ in range(70):
            if (high - low <= 1).all():
                break
            middle = (low + high) // 2
            yes = goes(middle.astype(bits).view(dtype))
            low, high = np.where(yes, low, middle), np.where(yes, middle, high)
        return high.astype(bits).view(dtype)

    one, two = least(lambda x: at(x) != first), least(lambda x: at(x) == last)
    same = first == last
    parts = [(ends[0], np.where(same, 1.0, one.astype(float)))]
    parts += [(one, np.where(same, 0.0, two.astype(float) - one.astype(float))), (two, np.where(same, 0.0, 1.0 - two.astype(float)))]
    out = [(np.concatenate([numbers[:k], x[None], numbers[k + 1 :]]), p * mass) for x, mass in parts]
    kept = [mass > 0 for _, mass in out]
    return np.concatenate([n[:, m] for (n, _), m in zip(out, kept, strict=True)], axis=1), np.concatenate(
        [mass[m] for (_, mass), m in zip(out, kept, strict=True)]
    )
