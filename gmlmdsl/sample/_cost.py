"""Costs of chains in memory and time, verified before the chains start."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from .._diagnostics import fail
from ..derive import AbstractKernel, float_type
from ..plan import BUDGET, verify_held

MOST_STEPS = 2**31 - 1  # steps are numbered in 32 bits
COPIES = 3  # copies of kept draws: by call, in one piece, and as values
FEWER = "fewer `draws=` or `chains=`"


def verify_chains(kernel: AbstractKernel, cells: int, chains: int, steps: int) -> None:
    """Raise E601 if chains take too much memory or too many steps.

    The memory is that of their states and of a step, and the work is the number of cells redrawn.

    Args:
        kernel: the kernel.
        cells: the number of cells of a chain.
        chains: the number of chains.
        steps: the number of steps of each chain.

    Raises:
        GmlmError: E601.
    """
    each = 16.0 * cells + kernel.held(cells)
    verify_held(float(min(chains, 10**18)) * each, f"{chains:,} chains of {cells:,} cells", "fewer chains, or smaller blocks")
    if steps > MOST_STEPS:
        raise fail(
            "E601", f"{steps:,} steps of every chain are more than the limit of {MOST_STEPS:,}", help="fewer draws, or a smaller `thin`"
        )
    redrawn = float(chains) * steps * kernel.runs * cells
    if redrawn > BUDGET.redraws:
        message = f"{chains:,} chains redraw cells {redrawn:.3g} times, more than the limit of {BUDGET.redraws:.3g}"
        raise fail("E601", message, help="fewer draws, chains or steps, or a smaller `repeat`")


def verify_draws(kernel: AbstractKernel, cells: int, most_values: int, chains: int, draws: int, keep: bool, observe: Any = None) -> None:
    """Raise E601 if draws take too much memory.

    The memory is that of kept draws, of observables, and of the numbers for diagnostics.

    Args:
        kernel: the kernel.
        cells: the number of cells of a chain.
        most_values: the maximum number of values of a cell.
        chains: the number of chains.
        draws: the number of draws of each chain.
        keep: whether draws are kept.
        observe: the function of codes that is recorded, or None.

    Raises:
        GmlmError: E601.
    """
    item = 4 if most_values > 127 else 1
    kept = COPIES * item * cells if keep else 0
    counts = 2 * float_type().itemsize + 16 * (kernel.updates + kernel.pairs)
    seen = 0
    if observe is not None:
        found = jax.eval_shape(observe, jax.ShapeDtypeStruct((cells, 1), jnp.int32))
        seen = sum(2 * math.prod(a.shape) * a.dtype.itemsize for a in found.values())
    help = f"{FEWER}; `keep_draws=False` with `observe=` keeps numbers of each draw only" if keep else FEWER
    verify_held(chains * draws * (kept + counts + seen), f"{draws:,} draws of each of {chains:,} chains of {cells:,} cells", help)
