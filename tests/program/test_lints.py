"""Each warning of a program, and a near neighbour that has none: a proof is never wrong."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from mutants import said_of
from oracle import Oracle

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source
from gmlmdsl.program import check_source


def codes(text: str) -> list[str]:
    return [d.code for d in said_of(text, "p.gmlm")]


CELLS = "model m {\n  var s : spin\n  var b : bit\n  var k : range(3)\n  let d = k - 1\n  factor 0.1 * (%s)\n}\n"
# A comparison and whether it is constant, and how.
COMPARISONS = {
    "s == 0": "never",
    "s == -1": "",
    "s != 0": "always",
    "s < 2": "always",
    "b == 2": "never",
    "b >= 0": "always",
    "b > 0": "",
    "k == 7": "never",
    "k == 2": "",
    "k <= 2": "always",
    "3 > k": "always",
    "k + b == 4": "never",
    "k + b == 3": "",
    "k * s == 2": "",
    "k * s == 3": "never",
    "d == 2": "never",
    "d == 1": "",
    "d * d > 1": "never",
    "k % 2 == 2": "never",
    "bit(s) == b": "",
    "spin(b) == 0": "never",
    "spin(b) == 3": "never",
    "spin(b) == -1": "",
    "2 > 1": "",
    "(if s == 1 then k else 5) == 4": "never",
    "(if s == 1 then k else 5) == 5": "",
    "max(k, b) > 2": "never",
    "k == 1.5": "never",
    "k - k == 3": "never",
    "k == k": "",
    "k / 2 == 9": "",
}


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_a_constant_comparison_is_named_and_no_other(comparison: str) -> None:
    said = [d.message for d in said_of(CELLS % comparison, "p.gmlm") if d.code == "W805"]
    expected = [f"`{comparison.strip()}` {COMPARISONS[comparison]} holds"] if COMPARISONS[comparison] else []
    assert said == expected


@pytest.mark.parametrize("comparison", [c for c in COMPARISONS if COMPARISONS[c]])
def test_a_constant_comparison_is_constant(comparison: str) -> None:
    """Against the oracle, which enumerates: the factor has one value over all configurations."""
    oracle = Oracle(check_source(Source("p.gmlm", CELLS % comparison)), None, {})
    values = oracle.log_table({})
    np.testing.assert_allclose(values, 0.1 if COMPARISONS[comparison] == "always" else 0.0, rtol=0, atol=1e-12)


def test_sizes_that_are_not_known_prove_nothing() -> None:
    assert codes("input n : int\nmodel m {\n  var k : range(n)\n  require k < 5\n}\n") == []
    assert codes("input c : int\nmodel m {\n  var k : range(3)\n  require k < c\n}\n") == []
    assert codes("index t = range(4)\nmodel m {\n  var k : t\n  require k < 5\n}\n") == ["W805"]


FIELDS = "model m {\n  var x : bit\n  var y : bit\n  param h\n  param g\n  factor h * x\n  factor g * y\n  factor 0.1 * x * y\n}\n"


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("mask a = subsets(x, size = 1)", ["W808"]),
        ("mask a = subsets(size = 1)", []),
        ("mask a = subsets(x, size = 1)\nmask b = mixture { 1 : a  1 : subsets(y, size = 1) }", []),
        ("mask a = subsets(x, size = 1)\nsampler s { update x[K] where K ~ a  update y }", []),
        ("mask a { choose 1 : {x}  choose 2 : {y} }", []),
        ("sampler s { update x }", ["W807"]),
        ("sampler s { update {x, y} }", []),
        ("sampler s { update K where K ~ subsets(size = 1) }", []),
        ("sampler s { update x independently  update y }", []),
        ("sampler s { update {x, y} independently }", ["W801"]),
        ("mask a { choose exp(h) : {x}  choose 1 : {y} }", ["W810"]),
        ("mask a { choose exp(h) : {x}  choose 1 : {y} }\nsampler s { update K where K ~ a }", []),
    ],
)
def test_masks_and_samplers_that_leave_something_out(rest: str, expected: list[str]) -> None:
    assert codes(FIELDS + rest + "\n") == expected


def test_independent_cells_of_one_block_are_no_warning() -> None:
    text = "index t = range(3)\nmodel m {\n  var v[i in t] : bit\n  var h[i in t] : bit\n  param W[i in t, j in t]\n"
    text += "  factor W[i, j] * v[i] * h[j] for i in t for j in t\n%s}\nsampler s { update h independently  update v independently }\n"
    assert codes(text % "") == []
    assert codes(text % "  factor 0.1 * h[0] * h[1]\n") == ["W801"]
    assert codes(text % "  let pair[i in t] = h[i]\n  factor 0.1 * pair[0] * pair[1]\n") == ["W801"]
    assert codes(text % "  factor 0.1 * sum(v[i] for i in t)\n") == ["W801"]


REVEALING = {
    "each x[i] for i in t rate if x[i] == 1 then 0.5 else 0": True,
    "each x[i] for i in t rate 0.5 * x[i]": True,
    "each x[i] for i in t rate 0.5 * x[i] + 0.1": False,
    "each x[i] for i in t rate 0.5 * (1 - x[i]) * b": True,
    "each x[i] for i in t rate 0.5 * b": False,
    "choose {x[i]} for i in t weight x[i] == 0": True,
    "choose {x[i], b} for i in t weight (x[i] == 1 and b == 0) * 2": True,
    "choose {x[i]} for i in t weight x[0] == 1": False,
    "choose {b} weight not b == 0  choose {x[i]} for i in t weight 1": True,
}


@pytest.mark.parametrize("body", REVEALING)
def test_a_block_that_tells_what_it_hides(body: str) -> None:
    text = f"index t = range(2)\nmodel m {{\n  var x[i in t] : bit\n  var b : bit\n  factor 0.3 * x[0] * x[1] * b\n}}\nmask m1 given x, b {{ {body} }}\n"
    assert ("W809" in codes(text)) == REVEALING[body]
    # By enumeration: some block is drawn only where one of its cells has one value.
    oracle = Oracle(check_source(Source("p.gmlm", text)), None, {})
    held: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for state in itertools.product((0, 1), repeat=3):
        for block, p in oracle.mask_distribution("m1", np.array(state), {}).items():
            if p > 0:
                held.setdefault(tuple(block), set()).add(tuple(state[c] for c in block))
    tells = any(len({values[k] for values in found}) == 1 for block, found in held.items() for k in range(len(block)))
    assert tells == REVEALING[body] or (REVEALING[body] is False and tells)


ADAPTIVE = """\
model m {
  var x[i in range(3)] : spin
  factor 0.4 * x[0] * x[1] + 0.2 * x[1] * x[2]
}
mask single = subsets(x, size = 1)
mask agreeing given x { choose {x[0], x[1]} weight exp(x[0] * x[1])  choose {x[2]} weight 1 }%s
"""


@pytest.mark.produces("W901")
def test_the_plain_conditional_of_an_adaptive_masks_block_is_warned_of() -> None:
    model, x = gm.parse(ADAPTIVE % "").model(), [[1, 1, 1]]
    with pytest.warns(gm.GmlmWarning, match="W901 plain-conditional.*agreeing"):
        plain = model.log_conditional({}, x, K=(1, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.log_conditional({}, x, K=2)  # `single` draws it too
        model.log_conditional({}, x, K=(1, 2))  # no mask draws it
        right = model.log_conditional({}, x, K=(1, 0), mask="agreeing")
        gm.parse(ADAPTIVE % "  # gmlm: allow W901").model().log_conditional({}, x, K=(0, 1))
    # What the warning is about: the two differ.
    assert np.abs(np.asarray(plain) - np.asarray(right)).max() > 0.1


def test_cells_left_out_are_named_once_sizes_are_known() -> None:
    text = "input n : int\nindex t = range(n)\nmodel m {\n  var x[i in t] : spin\n  factor 0.1 * x[i] for i in t\n}\n"
    text += "mask a = blocks({x[i], x[i + 1]} for i in t if i < n - 2)\nsampler s { repeat 2 { update x[i] for i in t if i > 0 } }\n"
    found = gm.parse(text, n=5).model().warnings
    assert [d.code for d in found] == ["W811", "W812"]
    assert "`x[4]`" in found[0].message and "`x[0]`" in found[1].message
    whole = text.replace("n - 2", "n - 1").replace(" if i > 0", "")
    assert gm.parse(whole, n=5).model().warnings == ()
