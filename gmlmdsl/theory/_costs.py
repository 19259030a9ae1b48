"""Measured costs of a mask on this machine: a gradient of its loss, a step of its dynamics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from ..derive import bounded_jit
from ..evaluate import Objective, draw_masks, make_loss, masks_per_row
from ..graph import Lowered
from ..masks import AbstractMask
from ..program import ir
from ._monte_carlo import objective_over
from ._quantity import Quantity

if TYPE_CHECKING:
    from jaxtyping import PyTree

Array = np.ndarray
ROWS = 1000
CHAINS = 64
STEPS = 16  # steps between readings of the clock
REPEATS = 7
LEAST = 0.02  # shortest duration of one repeat, in seconds


def gradient_cost(lowered: Lowered, mask: AbstractMask, params: Mapping[str, jax.Array], codes: Array, source: str) -> Quantity:
    """Return the milliseconds of one gradient over 1000 rows, as `fit` computes it.

    The loss averages over every mask if `fit` does so, and otherwise uses one mask drawn for each
    row.

    Args:
        lowered: the model, with its given data.
        mask: the mask.
        params: parameters.
        codes: rows, shape (cells, rows), repeated up to 1000.
        source: the user's call.
    """
    host = lowered.graph
    with jax.enable_x64(True):
        rows = codes[:, np.arange(ROWS) % codes.shape[1]]
        count = masks_per_row(mask, None)
        loss = make_loss(host, derive.graph_arrays(host), mask, count)
        masks = None if count is None else np.asarray(draw_masks(host, mask, jnp.asarray(rows), count, jax.random.key(0)))
        objective = objective_over(host, loss, rows, dict(params), masks)
        return _measured(lambda: _gradient(objective, dict(params)), 1e3, source)


@bounded_jit
def _gradient(objective: Objective, params: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return jax.grad(lambda p: objective.at(p))(params)


def step_cost(lowered: Lowered, mask: ir.Mask, params: Mapping[str, jax.Array], codes: Array, source: str) -> Quantity:
    """Return the microseconds of one update `K ~ mask` of one chain, of 64 chains in parallel.

    Args:
        lowered: the model, with its given data.
        mask: the checked mask.
        params: parameters.
        codes: possible configurations, shape (cells, rows), with latents; the chains start at them.
        source: the user's call.
    """
    planned = derive.build(lowered, ir.RandomUpdate(mask.span, mask, "", False))
    device = derive.graph_arrays(lowered.graph)
    target = derive.Target(device, {k: jnp.asarray(v, derive.float_type()) for k, v in params.items()}, None)
    keys = jax.random.split(jax.random.key(0), CHAINS)
    state = planned.kernel.init(jnp.asarray(codes[:, np.arange(CHAINS) % codes.shape[1]], jnp.int32))
    return _measured(lambda: _steps(planned.kernel, target, keys, state), 1e6 / (STEPS * CHAINS), source)


@bounded_jit
def _steps(kernel: derive.AbstractKernel, target: derive.Target, keys: jax.Array, state: derive.State) -> derive.State:
    ready = kernel.prepared(target)
    return jax.lax.fori_loop(0, STEPS, lambda t, s: ready.step(target, derive.fold(keys, t), s)[0], state)


def _measured(call: Callable[[], PyTree], unit: float, source: str) -> Quantity:
    """Return the median time of a compiled call, with the standard error of the mean over repeats.

    `unit` is the number of units of the result in a second.
    """
    jax.block_until_ready(call())
    started = time.perf_counter()
    jax.block_until_ready(call())
    times = max(1, int(np.ceil(LEAST / max(time.perf_counter() - started, 1e-7))))
    found = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        for _ in range(times):
            out = call()
        jax.block_until_ready(out)
        found.append((time.perf_counter() - started) / times * unit)
    return Quantity(float(np.median(found)), "measured", source, float(np.std(found, ddof=1) / np.sqrt(REPEATS)))
