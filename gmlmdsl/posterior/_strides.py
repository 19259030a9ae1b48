"""Chains in calls of a fixed number of steps, so that one compiled program serves all runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np

from ..fit import LongFit, restored
from .limits import STRIDE

if TYPE_CHECKING:
    from jaxtyping import PyTree


def in_strides(
    call: Callable[[PyTree, int], tuple[PyTree, PyTree]], state: PyTree, warmup: int, draws: int, saved: LongFit | None = None
) -> PyTree:
    """Return the recorded quantities of some steps of chains, on the host.

    Args:
        call: a function that runs STRIDE steps, from a state and the number of the first step. It
            returns the next state, and arrays with axes of chains and steps.
        state: the state before the first step.
        warmup: the number of steps that are not recorded.
        draws: the number of recorded steps after them.
        saved: the saved states of the run; None saves nothing.

    Returns:
        The arrays, with axes of chains and draws.
    """
    saved = saved or LongFit()
    parts: list[Sequence[np.ndarray]] = []
    at, first, size = 0, warmup - warmup % STRIDE, len(jax.tree.leaves(state))
    if saved.resumed() == [] and saved.unfinished is not None:
        at, state = int(saved.unfinished[0]), restored(saved.unfinished[1 : size + 1], state)
        parts = [saved.unfinished[size + 1 :]] if at > first else []
    while True:
        state, told = call(state, at)
        if at >= first:
            parts.append([np.asarray(a) for a in jax.tree.leaves(told)])
        if (at := at + STRIDE) >= warmup + draws:
            break
        # The last stride is not saved: the structure of what is recorded is that of a call.
        here = np.asarray(at), state
        saved.reached_within(lambda here=here: (*here, _joined(parts)))
    return jax.tree.unflatten(jax.tree.structure(told), [a[:, warmup - first : warmup - first + draws] for a in _joined(parts)])


def _joined(parts: list[Sequence[np.ndarray]]) -> list[np.ndarray]:
    return [np.concatenate(a, axis=1) for a in zip(*parts, strict=True)]
