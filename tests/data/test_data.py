"""Data from Python: what is taken, and what is refused with a text that helps."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gmlmdsl as gm

TEXT = """
domain base = letters("ACGT")
domain sky = labels("sun", "rain")
index site = range(3)
model all {
  var s[i in site] : spin
  var b            : bit
  var k[i in site] : range(4)
  var d[i in site] : base
  var w            : sky
  param h ~ normal(0, 1)
  factor h * s[0] * b
  factor 0.1 * k[i] * (d[i] == "A") * (w == "rain") for i in site
  require not (b == 1 and w == "rain")
}
mask one = subsets(s, size = 1)
sampler sweep { update s[i] for i in site }
"""
ROWS: dict[str, Any] = {
    "s": [[1, -1, 1], [-1, -1, 1]],
    "b": [0, 1],
    "k": [[0, 3, 1], [2, 2, 2]],
    "d": ["ACG", "TTT"],
    "w": ["rain", "sun"],
}


@pytest.fixture(scope="module")
def model() -> Any:
    return gm.parse(TEXT).model()


def with_row(**changed: Any) -> dict[str, Any]:
    """The rows with some variables replaced."""
    return {**ROWS, **changed}


# What is taken


@pytest.mark.parametrize(
    "changed",
    [
        {"d": [["A", "C", "G"], ["T", "T", "T"]]},
        {"d": np.array([[0, 1, 2], [3, 3, 3]])},
        {"d": np.array([list("ACG"), list("TTT")], dtype=object)},
        {"w": [1, 0]},
        {"w": np.array(["rain", "sun"], dtype=object)},
        {"s": np.array(ROWS["s"], np.float32)},
        {"s": np.array(ROWS["s"], np.int8)},
        {"b": np.array([False, True])},
    ],
    ids=["letters", "codes", "objects", "label codes", "object labels", "floats", "small integers", "booleans"],
)
def test_other_spellings_of_the_same_rows(model: Any, changed: dict[str, Any]):
    expected = np.asarray(model.log_potential({"h": 0.5}, ROWS))
    np.testing.assert_array_equal(model.log_potential({"h": 0.5}, with_row(**changed)), expected)
    np.testing.assert_allclose(expected, [0.0, -0.5], atol=1e-6)


def test_one_configuration_has_no_row_axis(model: Any):
    one = {k: v[0] for k, v in ROWS.items()}
    assert model.log_potential({"h": 0.5}, one).shape == ()


# What is refused

REFUSED = [
    ({"s": [[0, 1, 1], [0, 0, 1]]}, "2 \\* .* - 1", "0 and 1 for a spin"),
    ({"b": [-1, 1]}, "// 2", "-1 and 1 for a bit"),
    ({"s": [[2, 1, 1], [1, 1, 1]]}, "not a value of `s`", "2 for a spin"),
    ({"k": [[0, 4, 1], [2, 2, 2]]}, "is 4: not a value of `k`", "4 for range(4)"),
    ({"k": [[0, 1.5, 1], [2, 2, 2]]}, "is 1.5", "a fraction"),
    ({"k": [[0, np.nan, 1], [2, 2, 2]]}, "is nan", "a NaN"),
    ({"s": [[np.inf, 1, 1], [1, 1, 1]]}, "is inf", "an infinity"),
    ({"d": ["ACX", "TTT"]}, "'X'", "a letter outside"),
    ({"d": ["AC", "TTT"]}, "has 2 letters, expected 3", "a short string"),
    ({"d": [["A", "C", "GG"], ["T", "T", "T"]]}, "letters|shape|'GG'", "two letters in a cell"),
    ({"w": ["rain", "hail"]}, "'hail'", "an unknown label"),
    ({"w": ["rain", "?"]}, r"`missing='\?'`", "a text for a missing cell"),
    ({"w": [0, 2]}, "is 2", "a code outside"),
    ({"s": [["up", "up", "up"], ["up", "up", "up"]]}, "must hold numbers", "texts for a spin"),
    ({"s": [[1, 1], [1, 1]]}, r"must have shape \(rows, 3\), got \(2, 2\)", "too few columns"),
    ({"s": [1, 1]}, r"must have shape \(rows, 3\)", "no cells"),
    ({"s": [[1, 1, 1], [1, 1]]}, "rows differ in length", "ragged rows"),
    ({"b": [0, 1, 1]}, "rows of shape", "another number of rows"),
    ({"s": np.array([[1j, 1, 1], [1, 1, 1]])}, "must hold numbers", "complex numbers"),
    ({"s": np.array([[None, 1, 1], [1, 1, 1]], dtype=object)}, "is None", "None"),
    ({"s": np.array([[1 + 0j, 1, 1], [1, 1, 1]], dtype=object)}, "must hold numbers", "objects"),
    ({"y": [1, 2]}, "no variable `y`", "an unknown variable"),
]


@pytest.mark.parametrize(("changed", "message"), [r[:2] for r in REFUSED], ids=[r[2] for r in REFUSED])
@pytest.mark.parametrize("verb", ["fit", "log_prob", "loss"])
def test_rows_that_do_not_fit_are_refused(model: Any, changed: dict[str, Any], message: str, verb: str):
    """By every verb that takes rows, before any work; the text names the variable, the value found and the domain."""
    verbs = {
        "fit": lambda x: model.fit(x, mask="one"),
        "log_prob": lambda x: model.log_prob({"h": 0.0}, x),
        "loss": lambda x: model.loss({"h": 0.0}, x, mask="one"),
    }
    with pytest.raises(gm.GmlmError, match=message) as caught:
        verbs[verb](with_row(**changed))
    assert len(caught.value.diagnostics) == 1
    assert next(iter(changed)) in str(caught.value)


def test_a_missing_variable_is_named(model: Any):
    with pytest.raises(gm.GmlmError, match="lacks `w`"):
        model.log_prob({"h": 0.0}, {k: v for k, v in ROWS.items() if k != "w"})


def left_out(name: str) -> dict[str, Any]:
    """The rows without a variable, and with every cell of it missing."""
    return {k: v for k, v in ROWS.items() if k != name}


@pytest.mark.parametrize("missing", [float("nan"), {"k": -1, "w": -1}])
@pytest.mark.parametrize("name", ["k", "w"])
def test_a_variable_that_is_left_out_is_missing_in_every_row(model: Any, name: str, missing: Any):
    """As a dict, and as a frame whose columns are the cells of the other variables."""
    every = {**ROWS, name: np.full(np.shape(ROWS[name]), np.nan if isinstance(missing, float) else -1)}
    wanted = model.log_prob({"h": 0.3}, every, missing=missing)
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(model.log_prob({"h": 0.3}, left_out(name), missing=missing), wanted)
    given = {k: np.array([list(r) for r in v] if k == "d" else v) for k, v in left_out(name).items()}
    columns = {f"{k}[{i}]" if v.ndim == 2 else k: v[:, i] if v.ndim == 2 else v for k, v in given.items() for i in range(v[0].size)}
    np.testing.assert_allclose(model.log_prob({"h": 0.3}, pd.DataFrame(columns), missing=missing), wanted)
    found, beside = (model.marginals({"h": 0.3}, x=x, missing=missing) for x in (left_out(name), every))
    np.testing.assert_allclose(found[name], beside[name])


def test_a_variable_without_a_value_that_stands_for_missing_is_not_left_out(model: Any):
    for missing in (None, {"k": -1}):
        with pytest.raises(gm.GmlmError, match=r"(?s)lacks `w`.*all its cells are missing, pass `missing="):
            model.log_prob({"h": 0.0}, left_out("w"), missing=missing)
    with pytest.raises(gm.GmlmError, match=r"(?s)x lacks `s`, `b`.*at least one"):
        model.log_prob({"h": 0.0}, {}, missing=-9)


def test_an_array_for_a_model_of_several_variables_is_refused(model: Any):
    with pytest.raises(gm.GmlmError, match="must be a dict by variable"):
        model.log_prob({"h": 0.0}, np.ones((2, 3)))


def test_the_place_of_the_fault_is_given(model: Any):
    with pytest.raises(gm.GmlmError, match=r"\(1, 2\) is 7"):
        model.log_prob({"h": 0.0}, with_row(k=[[0, 1, 1], [2, 2, 7]]))


@pytest.mark.parametrize("verb", ["fit", "loss"])
def test_data_without_rows_are_refused(model: Any, verb: str):
    empty = {"s": np.zeros((0, 3)), "b": np.zeros(0), "k": np.zeros((0, 3)), "d": np.zeros((0, 3), int), "w": np.zeros(0, int)}
    with pytest.raises(gm.GmlmError, match="no rows"):
        model.fit(empty, mask="one") if verb == "fit" else model.loss({"h": 0.0}, empty, mask="one")


def test_log_prob_of_no_rows_is_no_number(model: Any):
    empty = {"s": np.zeros((0, 3)), "b": np.zeros(0), "k": np.zeros((0, 3)), "d": np.zeros((0, 3), int), "w": np.zeros(0, int)}
    assert model.log_prob({"h": 0.0}, empty).shape == (0,)


def test_an_impossible_row_is_named_with_its_requirement(model: Any):
    with pytest.raises(gm.GmlmError) as caught:
        model.fit(with_row(b=[0, 1], w=["sun", "rain"]), mask="one")
    said = str(caught.value)
    assert caught.value.diagnostics[0].code == "E508"
    assert "row 1 of x is impossible" in said
    assert 'require not (b == 1 and w == "rain")' in said


def test_rows_with_more_axes_do_not_fit(model: Any):
    with pytest.raises(gm.GmlmError, match="one axis of rows"):
        model.fit({k: v[0] for k, v in ROWS.items()}, mask="one")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask": "ones"}, "did you mean `one`"),
        ({"n_masks": 0}, "n_masks"),
        ({"n_masks": "some"}, "n_masks"),
        ({"n_masks": True}, "n_masks"),
        ({"weights": [1.0]}, r"weights must have shape \(2,\)"),
        ({"weights": [1.0, -1.0]}, "weights must be finite"),
        ({"weights": [np.nan, 1.0]}, "weights must be finite"),
        ({"weights": [0, 0]}, "weights must not all be zero"),
        ({"weights": ["a", "b"]}, "weights must be numbers"),
        ({"init": {"g": 1.0}}, "no parameter `g`"),
        ({"init": 3.0}, "init must be a dict"),
        ({"init": {"h": np.nan}}, "NaN"),
        ({"init": {"h": np.inf}}, "finite numbers"),
        ({"fixed": {"h": [1.0]}}, "must have shape"),
        ({"missing": 1}, "is a value of"),
        ({"given": {}}, "no given variable"),
    ],
)
def test_options_of_a_fit_that_do_not_fit_are_refused(model: Any, options: dict[str, Any], message: str):
    with pytest.raises(gm.GmlmError, match=message):
        model.fit(ROWS, **{"mask": "one", **options})


def test_masks_without_a_block_are_refused():
    empty = "index n = range(2)\nmodel m { var x[i in n] : spin  param h  factor h * x[i] for i in n }\nmask none = blocks({x[i]} for i in n if i > 5)"
    zero = empty.replace("= blocks({x[i]} for i in n if i > 5)", "{ choose {x[i]} for i in n weight 0 }")
    for text in (empty, zero):
        with pytest.raises(gm.GmlmError, match=r"no block|weights of this mask are 0") as caught:
            gm.parse(text).model().fit(np.ones((3, 2)), mask="none")
        assert caught.value.diagnostics[0].code == "E410"


@pytest.mark.parametrize("what", ["missing file", "text", "damaged", "folder"])
def test_what_is_no_fit_is_not_loaded(what: str, tmp_path: Path):
    path = tmp_path / "a.fit"
    if what == "text":
        path.write_text("no fit")
    elif what == "damaged":
        buffer = io.BytesIO()
        np.savez(buffer, a=np.ones(3))
        path.write_bytes(buffer.getvalue()[:-40])
    elif what == "folder":
        path.mkdir()
    with pytest.raises(gm.GmlmError):
        gm.load_fit(path)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input `n` is not given"),
        ({"n": 3, "m": 4}, "no input `m`"),
        ({"n": 2.5}, "an integer, got"),
        ({"n": [3]}, "0 axes|axes"),
        ({"n": "three"}, "an integer, got"),
        ({"n": 0}, "has 0 members, less than 1"),
        ({"n": -3}, "has -3 members, less than 1"),
        ({"n": 10**12}, "more than 134,217,728"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: dict[str, Any], message: str):
    with pytest.raises(gm.GmlmError, match=message):
        gm.parse("input n : int\nindex s = range(n)\nmodel m { var x[i in s] : spin  factor x[i] for i in s }", **inputs).model()


def test_every_missing_and_unknown_input_is_reported_at_once():
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse("input n : int\ninput J[2] : real\nmodel m { var x : spin  factor J[0] * x * n }", K=3)
    assert [d.code for d in caught.value.diagnostics] == ["E401", "E401", "E402"]


def test_coords_that_do_not_fit_are_refused():
    text = "index s = range(3)\nmodel m { var x[i in s] : spin  factor x[i] for i in s }"
    for coords, message in (
        ({"t": "abc"}, "no index set `t`"),
        ({"s": "ab"}, "3 members, got 2"),
        ({"s": "aab"}, "two members of index set `s` are called `a`"),
    ):
        with pytest.raises(gm.GmlmError, match=message):
            gm.parse(text, coords=coords)


def test_images_given_for_cells_in_a_line_are_shown_their_shape():
    model = gm.parse("model m { var x[i in range(6)] : bit param h factor h * x[0] }\nmask one = subsets(size = 1)").model()
    for shape, row in (((5, 2, 3), "(2, 3)"), ((2, 3), "(2, 3)"), ((5, 6, 1), "(6, 1)")):
        with pytest.raises(gm.GmlmError, match="must have shape") as caught:
            model.fit(np.zeros(shape, int))
        assert f"`.reshape(-1, 6)` has one row for each array of shape {row}" in caught.value.diagnostics[0].help
    with pytest.raises(gm.GmlmError, match="before them come rows"):
        model.fit(np.zeros((5, 4), int))
