"""Warnings point at the line of the user, whatever verb they come from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import gmlmdsl as gm

TEXT = """
model m { var x[i in range(3)] : bit  param J  factor J * x[i] * x[i + 1] for i in range(2) }
model zeros { var x[i in range(3)] : bit  require x[0] == 0 and x[1] == 1 and x[2] == 1 }
verifier never for m = completable(zeros)
mask one for m = subsets(x, size = 1)
sampler sweep for m { update x[i] for i in range(3) }
sampler tries for m = rejection(never, tries = 1)
"""
P = {"J": 0.1}
CALLS: dict[str, Callable[[Any], object]] = {
    "sample": lambda m: m.sample(P, "sweep", draws=5),
    "a guided sampler": lambda m: m.sample(P, "tries", draws=50, prompt=[[1]]),
    "marginals by chains": lambda m: m.marginals(P, method=gm.Chains(draws=5)),
    "marginals by messages": lambda m: m.marginals(P, method=gm.BeliefPropagation(iterations=1)),
    "annealed importance": lambda m: m.annealed_log_partition({"J": 9.0}, "sweep", betas=2, chains=4),
    "load": lambda m: gm.parse("model m { var x : bit  param J  factor 0.1 * x }"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_warning_points_at_the_call(name: str):
    model = gm.parse(TEXT).model("m")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[name](model)
    ours = [w for w in caught if issubclass(w.category, gm.GmlmWarning | gm.SamplingWarning)]
    assert ours
    assert {w.filename for w in ours} == {__file__}
