"""Marginals and modes given clamped cells: one program whatever cells they are, and no digits lost to what is known."""

from __future__ import annotations

import numpy as np
import pytest
from events import programs, traced_or_compiled

import gmlmdsl as gm

RING = """
model m {
  var x[i in range(5)] : range(3)
  given z : real
  param h[i in range(5)], J
  factor h[i] * x[i] * z for i in range(5)
  factor J * x[i] * x[(i + 1) % 5] for i in range(5)
  require x[0] + x[1] < 4
}
"""


@pytest.mark.usefixtures("float64")
def test_cells_that_are_held_need_no_program_of_their_own():
    model, rng = gm.parse(RING).model(), np.random.default_rng(5)
    params, given = {"h": rng.normal(size=5), "J": 0.4}, {"z": rng.normal(size=3)}
    states = np.stack(np.meshgrid(*[np.arange(3)] * 5, indexing="ij"), -1).reshape(-1, 5)
    level = (states * params["h"]).sum(1)[None] * given["z"][:, None] + 0.4 * (states * np.roll(states, -1, 1)).sum(1)
    level = np.where(states[:, 0] + states[:, 1] < 4, level, -np.inf)
    counts = []
    for held in ({0: 1}, {3: 2, 1: 0}, {4: 0, 2: 2, 0: 2}):
        with traced_or_compiled() as events:
            found = model.marginals(params, clamp={"x": held}, given=given)["x"]
            best, value = model.map(params, clamp={"x": held}, given=given)
        counts.append(programs(events))
        agree = np.all([states[:, c] == v for c, v in held.items()], axis=0)
        here = np.where(agree, level, -np.inf)
        weights = np.exp(here - here.max(1, keepdims=True))
        wanted = np.einsum("rs,sci->rci", weights / weights.sum(1, keepdims=True), np.eye(3)[states])
        np.testing.assert_allclose(found, wanted, atol=1e-12)
        np.testing.assert_array_equal(best, states[here.argmax(1)])
        np.testing.assert_allclose(value, here.max(1) - np.logaddexp.reduce(level, axis=1), atol=1e-12)
    assert counts[0] > 0 and counts[1:] == [0, 0]


def test_what_held_cells_have_among_them_costs_no_digits():
    """A factor of 30000 of two held cells would leave numbers of 32 bits beside it three digits behind the point."""
    text = "model m { var x[i in range(3)] : bit param h factor 30000 * x[0] * x[1] factor h * x[1] * x[2] factor h * x[0] }"
    model = gm.parse(text).model()
    found = model.marginals({"h": 0.3}, clamp={"x": {0: 1, 1: 1}})["x"][2, 1]
    assert abs(found - 1 / (1 + np.exp(-0.3))) < 1e-6
    assert model.map({"h": 0.3}, clamp={"x": {0: 1, 1: 1}})[0].tolist() == [1, 1, 1]
