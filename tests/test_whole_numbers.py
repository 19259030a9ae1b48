"""Whole numbers of NumPy are options as Python's are, wherever they are traced or part of what is compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
import optax
import pytest

import gmlmdsl as gm
from gmlmdsl._diagnostics import GmlmError, whole_number
from gmlmdsl.data._keys import generator

pytestmark = [pytest.mark.usefixtures("float64", "standard_promotion"), pytest.mark.filterwarnings("ignore:The number of samples")]
TEXT = """
model m {
  var x[i in range(3)] : spin
  param h ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor h * x[i] for i in range(3)
  factor J * x[i] * x[i + 1] for i in range(2)
}
mask single = subsets(size = 1)
sampler sweep { update x[i] for i in range(3) }
"""
PARAMS = {"h": 0.1, "J": 0.2}
X = np.random.default_rng(0).choice([-1, 1], (12, 3))


@cache
def model() -> Any:
    return gm.parse(TEXT).model()


@cache
def fit() -> gm.Fit:
    return model().fit(X)


def values(found: Any) -> np.ndarray:
    return found["posterior"]["x"].values


CALLS: dict[str, Callable[[Callable[[int], Any]], Any]] = {
    "chains": lambda n: values(model().sample(PARAMS, draws=n(10), chains=n(2), warmup=n(3), thin=n(2), seed=n(1))),
    "exact draws": lambda n: values(model().sample(PARAMS, "exact", draws=n(10), chains=n(2), seed=n(1))),
    "annealed starts": lambda n: values(model().sample(PARAMS, draws=n(10), chains=n(2), warmup=0, init=gm.annealed(n(3)))),
    "simulated errors": lambda n: fit().simulated_errors(n(50), n(1), sampler="sweep", warmup=n(3), thin=n(2)).covariance,
    "steps of an optimizer": lambda n: model().fit(X, optimizer=OPTIMIZER, batch_size=n(5), max_steps=n(20), seed=n(3)).params["h"],
    "Monte Carlo EM": lambda n: model().fit(GAPPED, missing=9, method=gm.MonteCarloEM(copies=n(4), rounds=n(3), sweeps=n(1))).params["h"],
}
OPTIMIZER = optax.adam(0.01)
GAPPED = np.where(np.eye(12, 3) > 0, 9, X)


DEAR = (
    "simulated errors",
    "Monte Carlo EM",
    "steps of an optimizer",
)  # to compile; other calls of the gate take whole numbers of both kinds


@pytest.mark.parametrize("what", [pytest.param(w, marks=[pytest.mark.slow] * (w in DEAR)) for w in CALLS])
def test_an_option_of_numpy_is_that_of_python(what: str):
    np.testing.assert_array_equal(CALLS[what](np.int64), CALLS[what](int))


@pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2), np.array(2), jax.numpy.asarray(2)])
def test_whole_numbers_of_all_libraries_are_pythons(value: Any):
    assert type(whole_number("draws", value, 2)) is int


@pytest.mark.parametrize("value", [True, np.bool_(True), 2.0, "2", None, np.array([2]), 0])
def test_anything_else_is_none(value: Any):
    with pytest.raises(GmlmError, match="draws must be a whole number of at least 1") as caught:
        whole_number("draws", value, 1)
    assert caught.value.codes == ("E507",)


@pytest.mark.parametrize("numbers", [(), (0,), (7, 8), (1, 2, 3, 4, 5)])
def test_seeds_that_differ_in_the_high_word_draw_differently(numbers: tuple[int, ...]):
    seeds = [5, 5 + (1 << 32), 5 + (2 << 32), 5 + (7 << 32), 6, (5 << 32) + 5]
    assert len({generator(seed, *numbers).integers(1 << 62) for seed in seeds}) == len(seeds)
