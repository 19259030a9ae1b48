"""Uncertain evidence, and the clamped cells that contradict each other, beside sums over all configurations written here."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

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
  factor b[w] + 0.7 * z * x[0] - 0.4 * x[2] * (w == "rain")
  require w != "snow" or x[1] == 0
}
"""
PARAMS = {"J": 0.8, "b": [0.2, -0.3, 0.5]}
WEIGHTS = {"x": {1: [0.2, 0.7]}, "w": [0.1, 3.0, 0.5]}


@pytest.fixture(params=["numpy", "compiled"])
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "compiled":
        monkeypatch.setattr(limits, "HOST_SECONDS", 0.0)
    return gm.parse(TEXT).model()


def table() -> dict[tuple[int, ...], float]:
    """p, unnormalised, of (z, x0, x1, x2, w), with and without the evidence."""
    out = {}
    for z, *x, w in itertools.product(range(2), range(2), range(2), range(2), range(3)):
        f = 0.8 * (x[0] * x[1] + x[1] * x[2]) + PARAMS["b"][w] + 0.7 * z * x[0] - 0.4 * x[2] * (w == 1)
        out[z, *x, w] = np.exp(f) * (w != 2 or x[1] == 0)
    return out


def told(state: tuple[int, ...]) -> float:
    return WEIGHTS["x"][1][state[2]] * WEIGHTS["w"][state[4]]


@pytest.mark.parametrize("clamp", [None, {"x": {2: 1}}])
def test_marginals_are_those_of_p_times_the_weights(model: Any, clamp: dict[str, Any] | None):
    p = {s: v * told(s) for s, v in table().items() if clamp is None or s[3] == 1}
    total = sum(p.values())
    found = model.marginals(PARAMS, clamp, likelihood=WEIGHTS)
    wanted = [[sum(v for s, v in p.items() if s[k] == a) / total for a in range(3 if k == 4 else 2)] for k in range(5)]
    np.testing.assert_allclose(found["z"], wanted[0], atol=2e-6)
    np.testing.assert_allclose(found["x"], wanted[1:4], atol=2e-6)
    np.testing.assert_allclose(found["w"], wanted[4], atol=2e-6)


def test_the_mode_is_that_of_p_times_the_weights(model: Any):
    p = table()
    best = max(p, key=lambda s: p[s] * told(s))
    configuration, log_p = model.map(PARAMS, likelihood=WEIGHTS)
    assert (int(configuration["z"]), *configuration["x"].tolist(), int(configuration["w"])) == best
    np.testing.assert_allclose(log_p, np.log(p[best] / sum(p.values())), rtol=1e-5)
    other, _ = model.map(PARAMS)
    assert int(other["w"]) != int(configuration["w"])  # the evidence decides


def test_a_weight_of_zero_excludes_a_value(model: Any):
    found = model.marginals(PARAMS, likelihood={"w": [1, 0, 1]})
    np.testing.assert_allclose(found["w"][1], 0.0, atol=1e-12)
    clamped = model.marginals(PARAMS, {"w": "snow"})
    only = model.marginals(PARAMS, likelihood={"w": [0, 0, 5.0]})
    for name in ("x", "z"):
        np.testing.assert_allclose(only[name], clamped[name], atol=2e-6)


@pytest.mark.parametrize(
    ("likelihood", "said"),
    [
        ([0.1], "E507.*must be a dict by variable"),
        ({"v": [1, 1]}, "no variable `v`"),
        ({"w": [1, 1]}, "E501.*must have shape \\(3,\\), got \\(2,\\)"),
        ({"x": {0: [1, 1, 1]}}, "E501.*\\(2,\\) for each cell"),
        ({"x": {7: [1, 1]}}, "7"),
        ({"w": [1, -1, 1]}, "E507.*at least 0"),
        ({"w": [0, 0, 0]}, "E507.*at least 0"),
        ({"w": ["a", "b", "c"]}, "E501.*must be numbers"),
    ],
)
def test_wrong_weights_are_refused(likelihood: Any, said: str):
    with pytest.raises(gm.GmlmError, match=f"(?s){said}"):
        gm.parse(TEXT).model().marginals(PARAMS, likelihood=likelihood)


def test_other_answers_say_that_they_have_no_likelihood():
    model = gm.parse(TEXT).model()
    for more in ({"method": "mean-field"}, {"over": [(("x", 0), ("x", 1))]}, {"x": {"x": [[0, 1, 0]], "w": ["sun"]}}):
        with pytest.raises(gm.GmlmError, match="likelihood"):
            model.marginals(PARAMS, likelihood=WEIGHTS, **more)
    with pytest.raises(gm.GmlmError, match="likelihood"):
        model.map(PARAMS, likelihood=WEIGHTS, method="anneal")


def test_the_clamped_cells_that_contradict_each_other_are_named():
    """w = snow needs x[1] = 0; the other clamped cells have nothing to do with it."""
    model = gm.parse(TEXT).model()
    clamp = {"w": "snow", "x": {0: 1, 1: 1, 2: 0}, "z": 1}
    for call in (model.marginals, model.map):
        with pytest.raises(gm.GmlmError, match=r"clamped values of `x\[1\]`, `w`: together") as caught:
            call(PARAMS, clamp)
        assert "x[0]" not in str(caught.value)


def test_contradictions_that_propagation_finds_name_cells_of_which_none_can_be_left_out():
    """27 cells that differ from each other in rows of 9, whose sum costs too much: two of the clamped are alike, the third is not to blame."""
    text = "model m { var x[r in range(3), c in range(9)] : range(9)  require x[r, c] != x[r, d] for r in range(3), c in range(9), d in range(9) if c < d"
    text += "  require x[r, c] != x[s, c] for r in range(3), s in range(3), c in range(9) if r < s }"
    with pytest.raises(gm.GmlmError, match=r"E512(.|\n)*clamped values of `x\[0, 4\]`, `x\[0, 7\]`: together"):
        gm.parse(text).model().map({}, clamp={"x": {(0, 4): 2, (0, 7): 2, (2, 1): 5}})


def test_the_smaller_of_two_contradictions_is_named():
    """Cells 0 and 1 contradict each other, and so do 1, 2 and 3 together; leaving out the first cells first would find the three."""
    text = "model m { var x[i in range(4)] : bit  require x[0] != x[1]  require x[1] + x[2] + x[3] <= 2 }"
    with pytest.raises(gm.GmlmError, match=r"clamped values of `x\[0\]`, `x\[1\]`: together"):
        gm.parse(text).model().map({}, clamp={"x": {0: 1, 1: 1, 2: 1, 3: 1}})
