"""Posteriors compile once: neither the number of draws, nor the number of rows, nor the values of data compile anything again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer.util import initialize_model

import gmlmdsl as gm
from gmlmdsl.posterior._draws import STRIDE, in_strides
from gmlmdsl.sample import groups_of

pytestmark = pytest.mark.usefixtures("standard_promotion")
NETWORK = """
model network {
  var x[i in range(3)] : bit
  param h ~ normal(0, 1)
  param J[i in range(2)] ~ spike_slab(sd = 1, probability = 0.5)
  factor h * x[i] for i in range(3)
  factor J[i] * x[i] * x[i + 1] for i in range(2)
}
mask single = subsets(x, size = 1)
"""
ROWS = np.array([[k >> i & 1 for i in range(3)] for k in range(8)] * 3)


@contextmanager
def compiled() -> Iterator[list[str]]:
    """The programs that are compiled meanwhile."""
    found: list[str] = []

    def listen(event: str, duration_secs: float, **more: Any) -> None:
        del duration_secs
        if "backend_compile" in event:
            found.append(str(more.get("fun_name")).removeprefix("jit(").removesuffix(")"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_steps_are_numbered_and_draws_follow_the_warm_up():
    """Whatever the warm-up leaves of a stride."""
    for warmup, draws in ((0, 1), (30, 100), (100, 100), (STRIDE + 7, 2 * STRIDE + 5), (STRIDE, STRIDE), (0, 3 * STRIDE)):
        found = in_strides(lambda s, at: (s + STRIDE, at + np.arange(STRIDE)[None] + 0 * s), 0, warmup, draws)
        np.testing.assert_array_equal(found, np.arange(warmup, warmup + draws)[None])


@pytest.mark.slow  # two posteriors; what other rows compile is counted in test_first_calls.py and test_row_sizes.py
@pytest.mark.parametrize("spikes", [True, False])
def test_other_numbers_of_draws_and_rows_compile_nothing(spikes: bool):
    text = NETWORK if spikes else NETWORK.replace("spike_slab(sd = 1, probability = 0.5)", "normal(0, 1)")
    model, ours = gm.parse(text).model(), {"walked", "_walked", "begun", "_at_draws", "_params_at", "curvature_at"}
    with compiled() as first:
        longer = groups_of(model.posterior(ROWS, draws=53, chains=2, warmup=10, seed=1))["posterior"]["J"].values
    assert ours & set(first)
    more = np.concatenate([ROWS, ROWS[:1]])
    with compiled() as again:
        shorter = groups_of(model.posterior(ROWS, draws=40, chains=2, warmup=10, seed=1))["posterior"]["J"].values
        model.posterior(more, draws=60, chains=2, warmup=10)
    assert not ours & set(again)
    np.testing.assert_array_equal(shorter, longer[:, :40])


def test_a_run_by_hand_compiles_the_factor_as_one_program():
    """Where NumPyro traces a model nothing is traced by JAX: each operation of the loss would be compiled by itself."""
    text = NETWORK.replace("spike_slab(sd = 1, probability = 0.5)", "normal(0, 1)")
    other = text.replace("x[i] * x[i + 1]", "abs(x[i] - x[i + 1])")
    first, second = (gm.parse(t).model().to_numpyro(ROWS, calibrate=None) for t in (text, other))
    handlers.seed(first, 0)()
    with compiled() as found:
        handlers.seed(second, 0)()
    assert "_value" in found
    assert len(found) <= 3


@pytest.mark.slow
def test_the_start_of_a_kernel_compiles_the_factor_and_its_derivative():
    """NumPyro starts NUTS with a derivative outside any program: there too the loss is no program for each of its operations."""
    text = NETWORK.replace("spike_slab(sd = 1, probability = 0.5)", "normal(0, 1)")
    other = text.replace("x[i] * x[i + 1]", "max(x[i], x[i + 1])")
    first, second = (gm.parse(t).model().to_numpyro(ROWS, calibrate=None) for t in (text, other))
    key = jax.random.key(0)
    initialize_model(key, first)
    with compiled() as found:
        initialize_model(key, second)
    assert set(found) == {"_value"}
    assert len(found) <= 4
