"""What is recorded of draws is what the user's function says now."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.derive._bounded_jit import bounded_jit

MODEL = gm.parse(
    "model m { var x[i in range(2)] : bit  factor 0.3 * x[0] * x[1] }\nsampler sweep { update x[i] for i in range(2) }"
).model()


@pytest.mark.slow
def test_an_observed_function_may_change_what_it_looks_up():
    times = [1]

    def count(x):
        return x.sum() * times[0]

    def drawn() -> np.ndarray:
        found = MODEL.sample({}, "sweep", draws=200, chains=4, observe={"count": count}, progress=False)
        return np.asarray(found["posterior"]["count"])

    before = drawn()
    times[0] = 100
    np.testing.assert_array_equal(drawn(), 100 * before)
    assert before.any()


def test_programs_of_numbers_that_only_look_equal_are_told_apart():
    signed = bounded_jit(lambda x, zero: x + jnp.copysign(1.0, zero))
    assert [float(signed(jnp.zeros(()), zero)) for zero in (0.0, -0.0)] == [1.0, -1.0]
