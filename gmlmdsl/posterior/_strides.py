"""Chains in calls of a fixed number of steps, so that one compiled program serves all runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import numpy as np

if TYPE_CHECKING:
    from jaxtyping import PyTree

STRIDE = 100


def in_strides(call: Callable[[PyTree, int], tuple[PyTree, PyTree]], state: PyTree, warmup: int, draws: int) -> PyTree:
    """Return the recorded quantities of some steps of chains, on the host.

    Args:
        call: a function that runs STRIDE steps, from a state and the number of the first step. It
            returns the next state, and arrays with axes of chains and steps.
        state: the state before the first step.
        warmup: the number of steps that are not recorded.
        draws: the number of recorded steps after them.

    Returns:
        The arrays, with axes of chains and draws.
    """
    parts, first = [], warmup - warmup % STRIDE
    for at in range(0, warmup + draws, STRIDE):
        state, told = call(state, at)
        if at >= first:
            parts.append(jax.tree.map(np.asarray, told))
    return jax.tree.map(lambda *a: np.concatenate(a, axis=1)[:, warmup - first : warmup - first + draws], *parts)
