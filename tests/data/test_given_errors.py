"""Given data that do not fit, programs that are refused, and what users never see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from given_cases import CASES, ROWS

import gmlmdsl as gm


def refused(f: Any, code: str = "E510") -> str:
    """The text of the one fault, whose code must be `code`."""
    with pytest.raises(gm.GmlmError) as caught:
        f()
    assert [d.code for d in caught.value.diagnostics] == [code]
    return str(caught.value)


Y = np.zeros((2, 3))
X = np.zeros((2, 3), int)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, ["`y`", "given={'most': .., 'y': ..}"]),
        ([1, 2], ["must be a dict", "list"]),
        ({"y": Y}, ["lacks `most`"]),
        ({"y": Y, "most": 1, "yy": Y}, ["no given variable `yy`", "did you mean `y`"]),
        ({"y": np.zeros((3, 3)), "most": 1}, ["rows of shape (3,)", "x has (2,)"]),
        ({"y": Y, "most": [1, 2, 3]}, ["`most` has rows of shape (3,), `y` has (2,)"]),
        ({"y": np.zeros((2, 4)), "most": 1}, ["shape (3,)", "(2, 4)"]),
        ({"y": 0.5, "most": 1}, ["shape (3,)", "got ()"]),
        ({"y": [[0, 1, np.nan], [0, 0, 0]], "most": 1}, ["given['y'] at (0, 2) is missing", "cannot be summed out"]),
        ({"y": Y, "most": [1, None]}, ["given['most'] at 1 is missing"]),
        ({"y": [[0, 1, np.inf], [0, 0, 0]], "most": 1}, ["given['y'] at (0, 2) is inf", "finite"]),
        ({"y": [["a", "b", "c"]] * 2, "most": 1}, ["must be a regular array of numbers"]),
        ({"y": [[0, 1, 2], [0, 0]], "most": 1}, ["must be a regular array of numbers"]),
    ],
    ids=lambda v: None,
)
def test_given_data_that_do_not_fit(given: Any, words: list[str]):
    model = CASES["hard"].model
    text = refused(lambda: model.log_potential({"b": 1.0}, X, given=given))
    assert all(w in text for w in words), text
    text = refused(lambda: model.fit(X, "one", given=given))
    assert all(w in text for w in words), text


def test_values_outside_the_domain_are_refused_as_those_of_x_are():
    model = CASES["hard"].model
    assert "given['most'] at 1 is 7" in refused(lambda: model.log_partition({"b": 1.0}, given={"y": Y, "most": [1, 7]}), "E502")
    fields, case = CASES["fields"].model, CASES["fields"]
    assert "pass `2 * given['s'] - 1`" in refused(
        lambda: fields.log_partition({}, given={**case.given, "s": np.zeros((ROWS, 3), int)}), "E502"
    )
    assert "'X'" in refused(lambda: fields.log_partition({}, given={**case.given, "a": ["AX"] * ROWS}), "E502")
    assert "above 0" in refused(lambda: fields.log_partition({}, given={**case.given, "t": 0.0}))
    assert "between -1 and 1" in refused(lambda: fields.log_partition({}, given={**case.given, "r": 1.5}))


def test_given_data_without_a_given_variable():
    model = gm.parse("model m { var x : bit  factor 0.5 * x }\nmask one = subsets(x, size = 1)\nsampler s { update x }").model()
    for verb in (model.fit, model.log_prob, model.log_potential):
        arguments = ([0, 1], "one") if verb == model.fit else ({}, [0, 1])
        assert "no given variable" in refused(lambda v=verb, a=arguments: v(*a, given={"y": [1, 2]}))
    assert "no given variable" in refused(lambda: model.sample({}, draws=2, given={"y": 1}))


def test_a_chain_and_a_matrix_take_one_row():
    case = CASES["hard"]
    for verb in (case.model.sample, case.model.transition_matrix, case.model.sampler_bias):
        assert "one row" in refused(lambda v=verb: v(case.params, "pairs", given=case.given))
        assert "must come along" in refused(lambda v=verb: v(case.params, "pairs"))


def test_weights_are_judged_row_by_row():
    text = """
    model m { given y : real  given k : range(3)  var x[i in range(2)] : bit }
    mask m1 given y { choose {x[0]} weight y  choose {x[1]} weight 1 }
    mask m2 given y { each x[i] for i in range(2) rate y }
    """
    model = gm.parse(text).model()
    x = np.zeros((2, 2), int)
    np.testing.assert_allclose(model.loss({}, x, "m1", given={"y": [0.5, 0.0], "k": 0}), np.log(2), rtol=1e-6)
    assert "can be -1" in refused(lambda: model.loss({}, x, "m1", given={"y": [0.5, -1.0], "k": 0}), "E409")
    assert "can be 1.5" in refused(lambda: model.loss({}, x, "m2", given={"y": [0.5, 1.5], "k": 0}), "E409")
    bad = gm.parse("model m { given k : range(3)  var x : bit }\nmask m1 given k { choose {x} weight k - 1 }").model()
    assert "can be -1" in refused(lambda: bad.loss({}, [0], "m1", given={"k": 2}), "E409")


def test_a_row_whose_given_value_breaks_a_requirement():
    model = gm.parse("model m { given y : real  var x : bit  require y > 0 }\nmask one = subsets(x, size = 1)").model()
    np.testing.assert_array_equal(model.log_potential({}, [0, 1], given={"y": [1.0, -1.0]}), [0, -np.inf])
    assert "row 1 of x is impossible: it breaks this `require`" in refused(lambda: model.fit([0, 1], given={"y": [1.0, -1.0]}), "E508")


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("var x : real", "E205", "real numbers that come with each row are `given`"),
        ("var x : real(lower = 0)", "E205", "models are discrete"),
        ("latent x : positive", "E205", "models are discrete"),
        ("given y : simplex  var x : bit", "E205", "cannot be `simplex`"),
        ("given y : real  var x : bit  input_", "E", ""),
        ("given y : real(lower = 2, upper = 1)  var x : bit", "E319", "not below"),
        ("given y : real  var x[i in range(2)] : bit  factor x[y]", "E211", "an index must be an integer"),
        ("given y : bit", "E320", "no variable to predict"),
        ("given y : real  var x : bit  y ~ categorical(p)", "E205", ""),
    ],
)
def test_declarations_that_are_refused(text: str, code: str, words: str):
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse(f"model m {{ {text} }}")
    assert any(d.code.startswith(code) for d in caught.value.diagnostics)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("index", "good"),
    [
        ("k", False),
        ("if k < 2 then k else 0", True),
        ("if y > 0 then 0 else 1", True),
        ("if y > 0 then 0 else 2", False),
        ("bit(s)", True),
        ("k // 2", True),
        ("k - sum(b[i] for i in range(2))", False),
        ("sum(b[i] for i in range(2)) // 2", True),
        ("min(k, x[0])", True),
    ],
)
def test_indices_are_checked_over_all_that_may_be_given(index: str, good: bool):
    text = f"""
    model m {{
      given k : range(3)  given y : real  given s : spin  given b[i in range(2)] : bit
      var x[i in range(2)] : bit
      factor 0.3 * x[{index}]
    }}
    """
    if good:
        gm.parse(text).model()
    else:
        refused(gm.parse(text).model, "E407")


def test_nobody_sees_the_row_cell():
    case = CASES["hard"]
    assert "3 cells" in repr(case.model)
    np.testing.assert_array_equal(case.model.positions("x"), [0, 1, 2])
    assert "from 0 to 2" in refused(lambda: case.model.log_conditional({"b": 1.0}, X, K=3, given={"y": Y, "most": 1}), "E507")
    graph = case.model.graph
    assert (graph.row_cell, graph.n_cells, graph.n_random) == (3, 4, 3)
    starts, near = graph.neighbours
    assert 3 not in near
    assert starts[-1] == starts[-2]
    assert not case.model.warnings
