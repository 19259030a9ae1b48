"""Tables that stand in a program: defaults with a list for each axis, and the probabilities of a cell."""

from __future__ import annotations

import re

import numpy as np
import pytest
from oracle import Oracle

import gmlmdsl as gm
from gmlmdsl._diagnostics import GmlmError
from gmlmdsl.syntax import format_source, parse

TABLES = """
domain sky = labels("sun", "rain", "snow")
input k : int = 2
input p : real = 0.25
input first[sky] : simplex = [0.5, 0.3, 0.2]
input move[k, sky, n] : real = [[[0.1, 0.9], [0.3, 0.7], [1, 0]], [[p, 1 - p], [1 / 3, 2 / 3], [0.5, 0.5]]]
input seen[2] : sky = ["snow", "sun"]
input counts[m] : int = [3, -1]
model weather {
  var w[t in range(2)] : sky
  var b[t in range(2)] : bit
  var s                : spin
  w[t] ~ categorical(first) for t in range(2)
  b[t] ~ categorical(move[t, w[t]]) for t in range(2)
  s    ~ categorical([0.2, 0.8])
  factor counts[t] * 0.1 * b[t] for t in range(m)
  factor if w[t] == seen[t] then 0.4 else 0 for t in range(2)
}
"""
BY_TURN = """
input late[3] : real = [0.1, 0.5, 0.7]
model m {
  var x[t in range(3)] : range(3)
  x[t] ~ categorical([late[t], 0, 1 - late[t]]) for t in range(3)
}
"""


@pytest.mark.parametrize("text", [TABLES, BY_TURN], ids=["tables", "by turn"])
def test_written_tables_mean_what_bound_ones_mean(text: str):
    """log p of every configuration, against the enumeration."""
    oracle, model = Oracle(gm.parse(text).checked, None, {}), gm.parse(text).model()
    rows = oracle.states
    found = np.asarray(model.log_potential({}, oracle.decode(rows) if len(model.graph.variables) > 1 else rows), np.float64)
    np.testing.assert_allclose(found, oracle.log_potential({}, rows), rtol=1e-6)


def test_entries_stand_in_the_order_of_the_lists_and_of_the_values():
    program = gm.parse(TABLES)
    np.testing.assert_allclose(program.bound.inputs["move"][1, 1], [1 / 3, 2 / 3])
    assert program.bound.inputs["move"].shape == (2, 3, 2)
    assert program.bound.inputs["seen"].tolist() == [2, 0]
    assert program.bound.lengths == {"n": 2, "m": 2}
    found = gm.parse("model m { var s : spin  s ~ categorical([0.2, 0.8]) }").model().marginals({})["s"]
    np.testing.assert_allclose(found, [0.2, 0.8], rtol=1e-6)


def test_what_is_given_replaces_the_table_whole():
    program = gm.parse(TABLES, first=[1.0, 0.0, 0.0], counts=[1, 2, 3])
    assert program.bound.inputs["first"].tolist() == [1, 0, 0]
    assert program.bound.lengths["m"] == 3


def test_a_table_has_its_canonical_form():
    out = format_source(TABLES)
    assert parse(out) == parse(TABLES)
    assert format_source(out) == out
    assert "input seen[2]         : sky" not in out
    assert 'input seen[2] : sky = ["snow", "sun"]' in out


def test_a_list_of_probabilities_is_written_out_in_the_mathematics():
    from gmlmdsl.explain import explain

    assert "log([0.2, 0.8][s])" in re.sub(r"bit\(s\)", "s", str(explain(gm.parse(TABLES).checked)))


FAULTS = {
    "E328 too few entries": ("input T[3] : real = [0.2, 0.8]", "axis 0 of `T` has length 3, this list has 2"),
    "E328 lists of two lengths": ("input T[2, n] : real = [[1, 2], [3]]", "axis 1 of `T` has length 2, this list has 1"),
    "E328 too shallow": ("input T[2, 2] : real = [1, 2]", "`T` has 2 axes: a list of entries stands here"),
    "E328 too deep": ("input T[2] : real = [[1], [2]]", "`T` has 1 axis, and lists stand here one deeper"),
    "E328 no axes": ("input T : real = [1, 2]", "`T` has no axes"),
    "E310 rows of a simplex": ("input T[2, 2] : simplex = [[0.5, 0.5], [0.5, 0.6]]", "these probabilities sum to 1.1, not 1"),
    "E319 not positive": ("input T[2] : positive = [1, 0]", "above 0, found 0"),
    "E211 not whole": ("input T[2] : int = [1, 0.5]", "expected an integer"),
    "E215 no such label": ('domain d = labels("a")\ninput T[1] : d = ["b"]', "is not a value of `d`"),
    "E216 a text": ('input T[1] : real = ["b"]', "this input is `real`, its value is not a string"),
    "E310 probabilities too few": ("model n { var y : range(3)  y ~ categorical([0.5, 0.5]) }", "has 3 values, this list 2 entries"),
    "E310 probabilities above 1": ("model n { var y : bit  y ~ categorical([0.5, 0.6]) }", "sum to 1.1, not 1"),
    "E310 probabilities below 0": ("model n { var y : bit  y ~ categorical([-0.5, 1.5]) }", "at least 0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_table_that_does_not_fit_is_refused_where_it_stands(fault: str):
    text, said = FAULTS[fault]
    with pytest.raises(GmlmError) as caught:
        gm.parse(text + "\nmodel m { var x : bit  factor x }")
    assert caught.value.codes == (fault.split()[0],)
    assert said in caught.value.diagnostics[0].message + str(caught.value)
    assert caught.value.diagnostics[0].span is not None


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("E403", "input k : int = 3\ninput T[k] : real = [1, 2]"),
        ("E415", "input p : real = 0.5\nmodel n { var y : bit  y ~ categorical([p, 0.6]) }"),
        ("E403", "input q : int = 3\nmodel n { var y : range(q)  y ~ categorical([0.5, 0.5]) }"),
    ],
)
def test_what_only_inputs_show_is_refused_when_they_are_bound(code: str, text: str):
    with pytest.raises(GmlmError) as caught:
        gm.parse(text + "\nmodel m { var x : bit  factor x }").model("n")
    assert caught.value.codes == (code,)
