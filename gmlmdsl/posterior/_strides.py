"""Chains in calls of so many steps, so that one compiled program serves all numbers of draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

STRIDE = 100


def in_strides(call: Callable[[Any, int], tuple[Any, Any]], state: Any, warmup: int, draws: int) -> Any:
    """What some steps of chains tell, on the host.

    Args:
        call: STRIDE steps from a state and the number of the first of them. It gives the state
            behind them, and arrays with axes of chains and steps.
        state: before the first.
        warmup: steps that are not kept.
        draws: steps that are, after them.

    Returns:
        The arrays, with axes of chains and draws.
    """
    parts, first = [], warmup - warmup % STRIDE
    for at in range(0, warmup + draws, STRIDE):
        state, told = call(state, at)
        if at >= first:
            parts.append(jax.tree.map(np.asarray, told))
    return jax.tree.map(lambda *a: np.concatenate(a, axis=1)[:, warmup - first : warmup - first + draws], *parts)
