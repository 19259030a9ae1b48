"""Marginals and modes given clamped cells: one program whatever cells they are, and no digits lost to what is known."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from events import programs, traced_or_compiled

import gmlmdsl as gm
from gmlmdsl.evaluate import limits

pytestmark = pytest.mark.usefixtures("compiled_sums")
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


def test_draws_given_other_cells_need_no_program_of_their_own():
    model, params = gm.parse(RING.replace("  given z : real\n", "").replace(" * z", "")).model(), {"h": np.linspace(-1, 1, 5), "J": 0.4}
    counts = []
    for held in ({0: 1}, {3: 2, 1: 0}, {4: 0, 2: 2, 0: 2}):
        with traced_or_compiled() as events:
            drawn = model.sample(params, "exact", draws=2000, chains=2, seed=1, clamp={"x": held}, progress=False)
        counts.append(programs(events))
        x = np.asarray(drawn["posterior"]["x"]).reshape(-1, 5)
        wanted = model.marginals(params, clamp={"x": held})["x"]
        np.testing.assert_allclose(np.eye(3)[x].mean(axis=0), wanted, atol=0.05)
        assert all((x[:, c] == v).all() for c, v in held.items()) and (x[:, 0] + x[:, 1] < 4).all()
    assert counts[0] > 0 and counts[1:] == [0, 0]


def test_what_held_cells_have_among_them_costs_no_digits():
    """A factor of 30000 of two held cells leaves numbers of 32 bits beside it in one table two digits behind the point."""
    pairs = "factor h * x[0] * x[2] factor h * x[1] * x[2]"
    model = gm.parse(f"model m {{ var x[i in range(3)] : bit param h factor 30000 * x[0] * x[1] {pairs} }}").model()
    found = model.marginals({"h": 0.3}, clamp={"x": {0: 1, 1: 1}})["x"][2, 1]
    assert abs(found - 1 / (1 + np.exp(-0.6))) < 1e-6
    assert model.map({"h": 0.3}, clamp={"x": {0: 1, 1: 1}})[0].tolist() == [1, 1, 1]


TOGETHER = """
domain yes = labels("no", "yes")
model m {
  var a, b : yes
  var x[i in range(3)] : range(3)
  given z : real
  param h, J
  factor J * (if a == "yes" then 1 else 0) * x[0]
  factor h * x[i] * x[(i + 1) % 3] for i in range(3)
  factor z * (if a == b then 1 else 0) + (if b == "yes" then 0.3 else 0) * x[2]
}
"""
COLUMNS: dict[Any, int] = {"a": 0, "b": 1, ("x", 0): 2, ("x", 1): 3, ("x", 2): 4}


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("clamp", "codes"), [(None, {}), ({"a": "yes"}, {0: 1}), ({"x": {1: 2}}, {3: 2}), ({"b": "no", "x": {0: 1}}, {1: 0, 2: 1})]
)
@pytest.mark.parametrize("cheap", [True, False], ids=["one program", "one each"])
def test_joint_distributions_of_some_cells(
    clamp: dict[str, Any] | None, codes: dict[int, int], cheap: bool, monkeypatch: pytest.MonkeyPatch
):
    if not cheap:
        monkeypatch.setattr(limits, "CHEAP_ENTRIES", 0)
    states = np.array(list(itertools.product(range(2), range(2), range(3), range(3), range(3))))
    a, b, x = states[:, 0], states[:, 1], states[:, 2:]
    z, over = np.array([0.2, -1.0]), [("a", "b"), ("a", ("x", 0), ("x", 2)), (("x", 1), "a"), ("b",)]
    found = gm.parse(TOGETHER).model().marginals({"h": 0.4, "J": 0.7}, clamp=clamp, given={"z": z}, over=over)
    agree = np.all([states[:, k] == v for k, v in codes.items()], axis=0)
    for row in range(2):
        weight = np.exp(0.7 * a * x[:, 0] + 0.4 * (x * np.roll(x, -1, 1)).sum(1) + z[row] * (a == b) + 0.3 * b * x[:, 2]) * agree
        for group in over:
            wanted = np.zeros(found[group].shape[1:])
            np.add.at(wanted, tuple(states[:, COLUMNS[cell]] for cell in group), weight / weight.sum())
            np.testing.assert_allclose(found[group][row], wanted, atol=1e-12)


@pytest.mark.parametrize("over", ["ab", [("a", "c")], [("a", "a")], [("x", "a")], [3], [()], {"a": 1}, [(("x", 7), "a")], [(("x", 0.5),)]])
def test_what_is_no_group_of_cells(over: Any):
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse(TOGETHER).model().marginals({"h": 0.4, "J": 0.7}, given={"z": 0.1}, over=over)
    assert caught.value.codes == ("E507",) and "over" in str(caught.value)


def test_joint_distributions_of_too_many_values_are_refused():
    model = gm.parse("model m { var x[i in range(20)] : range(8)  param h  factor h * x[i] for i in range(20) }").model()
    with pytest.raises(gm.GmlmError) as caught:
        model.marginals({"h": 0.1}, over=[tuple(("x", i) for i in range(6))])
    assert caught.value.codes == ("E601",)


HIDDEN = """
model m {
  latent z[i in range(3)] : range(2)
  var x[i in range(3)] : range(3)
  given w : real
  param a, b
  factor a * z[i] * z[i + 1] for i in range(2)
  factor (b + w) * z[i] * x[i] for i in range(3)
  require x[0] + x[2] < 4
}
"""
GAPS = [[0, 1, -1], [1, -1, 1], [0, 0, 0], [-1, -1, -1]]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("rows", "w"), [([[0, 1, 2], [1, 1, 1]], 0.2), (GAPS, [0.1, 0.2, 0.3, -2.0]), (GAPS, 0.3)])
def test_what_each_row_says_of_what_it_does_not_know(rows: list[list[int]], w: Any):
    states = np.array(list(itertools.product(*[range(2)] * 3, *[range(3)] * 3)))
    z, x = states[:, :3], states[:, 3:]
    found = gm.parse(HIDDEN).model().marginals({"a": 0.5, "b": -0.3}, x=np.array(rows), missing=-1, given={"w": w})
    for r, (row, own) in enumerate(zip(rows, np.broadcast_to(w, len(rows)), strict=True)):
        weight = np.exp(0.5 * (z[:, 0] * z[:, 1] + z[:, 1] * z[:, 2]) + (own - 0.3) * (z * x).sum(1)) * (x[:, 0] + x[:, 2] < 4)
        weight = weight * np.all([(x[:, i] == v) | (v < 0) for i, v in enumerate(row)], axis=0)
        wanted = np.einsum("s,sci->ci", weight / weight.sum(), np.eye(3)[states])
        np.testing.assert_allclose(found["z"][r], wanted[:3, :2], atol=1e-12)
        np.testing.assert_allclose(found["x"][r], wanted[3:], atol=1e-12)


@pytest.mark.usefixtures("float64")
def test_rows_of_a_model_with_partial_sums():
    text = "model m { var x[i in range(14)] : bit  param h  factor h * i * x[i] for i in range(14)  require count(x[i] == 1 for i in range(14)) == 5 }"
    model, states = gm.parse(text).model(), np.array(list(itertools.product(range(2), repeat=14)))
    rows = np.full((2, 14), -1)
    rows[0, [2, 7]], rows[1, [0, 1, 2]] = (1, 0), (1, 1, 0)
    found = model.marginals({"h": 0.1}, x=rows, missing=-1)["x"]
    for row, table in zip(rows, found, strict=True):
        weight = np.exp(0.1 * states @ np.arange(14)) * (states.sum(1) == 5) * np.all((states == row) | (row < 0), axis=1)
        np.testing.assert_allclose(table[:, 1], weight @ states / weight.sum(), atol=1e-12)


@pytest.mark.parametrize(
    ("more", "code"),
    [({"x": [[2, 0, 2]]}, "E512"), ({"x": [[0, 0, 0], [2, -1, 2]], "missing": -1}, "E512"), ({"x": [[0, 0, 0]], "clamp": {}}, "E507")],
)
def test_rows_that_are_refused(more: dict[str, Any], code: str):
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse(HIDDEN).model().marginals({"a": 0.5, "b": -0.3}, given={"w": 0.1}, **more)
    assert caught.value.codes == (code,)


def test_a_clamped_cell_has_probability_one_to_the_last_digit():
    """Sums of 32 bits gave .9999999 on some processors."""
    rng, text = (
        np.random.default_rng(3),
        "model m { var x[i in range(9)] : range(4)  param J[a in range(4), b in range(4)]  factor J[x[i], x[i + 1]] for i in range(8) }",
    )
    found = gm.parse(text).model().marginals({"J": rng.normal(size=(4, 4)) * 3}, clamp={"x": {0: 2, 5: 1}})["x"]
    np.testing.assert_array_equal(found[[0, 5]], np.eye(4)[[2, 1]])
