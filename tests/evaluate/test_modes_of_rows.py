"""Modes of many rows in one call, beside the maximum over all configurations written here."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from events import programs, traced_or_compiled
from refusals import refused

import gmlmdsl as gm
from gmlmdsl.evaluate import limits

TEXT = """
domain sky = labels("sun", "rain", "snow")
model m {
  latent z : range(2)
  var x[i in range(3)] : bit
  var w : sky
  param J, b[a in sky]
  factor J * x[i] * x[i + 1] for i in range(2)
  factor b[w] + 0.7 * z * x[0] - 0.45 * x[2] * (w == "rain") - 0.31 * z - 0.13 * x[2]
  require w != "snow" or x[1] == 0
}
"""
PARAMS = {"J": 0.8, "b": [0.2, -0.3, 0.5]}
SKY = ["sun", "rain", "snow"]
ROWS = {"x": [[1, -1, 0], [-1, 0, -1], [0, 1, 1], [-1, -1, -1]], "w": ["rain", "?", "?", "snow"]}
KNOWN: list[dict[int, int]] = [{1: 1, 3: 0, 4: 1}, {2: 0}, {1: 0, 2: 1, 3: 1}, {4: 2}]


@pytest.fixture(params=["numpy", "compiled"])
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> gm.JointModel:
    if request.param == "compiled":
        monkeypatch.setattr(limits, "HOST_SECONDS", 0.0)
    return gm.parse(TEXT).model()


def log_potentials() -> dict[tuple[int, ...], float]:
    """Log p, unnormalised, of (z, x0, x1, x2, w)."""
    out = {}
    for z, *x, w in itertools.product(range(2), range(2), range(2), range(2), range(3)):
        if w != 2 or x[1] == 0:
            level = 0.8 * (x[0] * x[1] + x[1] * x[2]) + PARAMS["b"][w] + 0.7 * z * x[0] - 0.45 * x[2] * (w == 1) - 0.31 * z - 0.13 * x[2]
            out[z, *x, w] = level
    return out


def rows(told: bool = True) -> dict[str, Any]:
    w = [SKY.index(s) if s in SKY else -1 for s in ROWS["w"]]
    return {"x": ROWS["x"], "w": w} if told else {"x": ROWS["x"]}


def test_each_row_has_the_mode_given_what_it_knows(model: gm.JointModel):
    level = log_potentials()
    log_z = np.log(sum(map(np.exp, level.values())))
    found = model.map(PARAMS, x=rows(), missing=-1)
    assert (found.kind, found.is_proven) == ("exact", True)
    for r, known in enumerate(KNOWN):
        best = max((s for s in level if all(s[k] == v for k, v in known.items())), key=lambda s: level[s])
        assert (int(found[0]["z"][r]), *found[0]["x"][r].tolist(), int(found[0]["w"][r])) == best
        assert found.labels["w"][r] == SKY[best[4]]
        np.testing.assert_allclose(found.log_potential[r], level[best], rtol=1e-5)
        np.testing.assert_allclose(found.log_prob[r], level[best] - log_z, rtol=1e-5)


def test_one_row_has_no_axis_of_rows_and_left_out_variables_are_free(model: gm.JointModel):
    found = model.map(PARAMS, x={"x": [1, -1, 0]}, missing=-1)
    wanted = model.map(PARAMS, clamp={"x": {0: 1, 2: 0}})
    assert found[0]["w"].shape == () and found[0]["x"].shape == (3,)
    assert all((found[0][k] == wanted[0][k]).all() for k in "zxw")
    np.testing.assert_allclose((found.log_prob, found.log_potential), (wanted.log_prob, wanted.log_potential), rtol=1e-6)
    none = model.map(PARAMS, x={"x": np.zeros((0, 3), int)}, missing=-1)
    assert none[0]["w"].shape == (0,) and none.log_prob.shape == (0,)


def test_uncertain_evidence_weighs_in_every_row(model: gm.JointModel):
    likelihood = {"w": [0.02, 3.0, 0.5], "x": {1: [0.2, 0.7]}}
    found = model.map(PARAMS, x=rows(False), missing=-1, likelihood=likelihood)
    for r, held in enumerate(({0: 1, 2: 0}, {1: 0}, {0: 0, 1: 1, 2: 1}, {})):
        best, log_p = model.map(PARAMS, {"x": held}, likelihood=likelihood)
        assert all((found[0][k][r] == best[k]).all() for k in "zxw")
        np.testing.assert_allclose(found.log_prob[r], log_p, rtol=1e-5)


def test_other_rows_compile_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "HOST_SECONDS", 0.0)
    model = gm.parse(TEXT.replace("0.31", "0.32")).model()
    model.map(PARAMS, x=rows(), missing=-1)
    with traced_or_compiled() as events:
        model.map(PARAMS, x={"x": [[-1, -1, 0], [1, 1, -1], [-1, 0, 0]], "w": [-1, 0, -1]}, missing=-1)
    assert programs(events) == 0


def test_rows_of_given_data_meet_rows_of_x():
    text = "model m { var x[i in range(3)] : bit  given a : real  param J  factor a * x[0]  factor J * x[i] * x[i + 1] for i in range(2) }"
    model = gm.parse(text).model()
    given = {"a": np.array([-2.0, 0.5])}
    found = model.map({"J": -0.7}, x=[[-1, 1, -1], [-1, -1, 1]], missing=-1, given=given)
    for r, held in enumerate(({1: 1}, {2: 1})):
        best, log_p = model.map({"J": -0.7}, {"x": held}, given={"a": given["a"][r]})
        np.testing.assert_array_equal(found[0][r], best)
        np.testing.assert_allclose(found.log_prob[r], log_p, rtol=1e-5)


def test_partial_sums_are_free_in_every_row():
    text = "model m {\n  var x[i in range(12)] : bit\n  param h[i in range(12)]\n  factor h[i] * x[i] for i in range(12)\n"
    model = gm.parse(text + "  require count(x[i] == 1 for i in range(12)) == 4\n}\n").model()
    h = np.linspace(-1, 1, 12)
    x = np.full((2, 12), -1)
    x[0, 0], x[1, -1] = 1, 0
    found = model.map({"h": h}, x=x, missing=-1)[0]
    assert np.flatnonzero(found[0]).tolist() == [0, 9, 10, 11]
    assert np.flatnonzero(found[1]).tolist() == [7, 8, 9, 10]


def test_a_row_that_is_impossible_is_named(model: gm.JointModel):
    bad = {"x": [[1, 0, 1], [-1, 1, -1], [0, -1, 0]], "w": [0, 2, 1]}
    refused("E512", lambda: model.map(PARAMS, x=bad, missing=-1), "row 1 of x at `x[1]`, `w`")


def test_rows_stand_without_clamped_cells_and_without_a_method():
    model = gm.parse(TEXT).model()
    said = "map: `x` holds what each row knows; `clamp` and `method` stand without it"
    refused("E507", lambda: model.map(PARAMS, {"w": 1}, x=rows(), missing=-1), said)
    refused("E507", lambda: model.map(PARAMS, x=rows(), missing=-1, method="anneal"), said)
