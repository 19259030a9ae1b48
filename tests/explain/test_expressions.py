"""How `explain` writes expressions where operators meet: nobody has to know which binds tighter."""

from __future__ import annotations

import pytest

from gmlmdsl._diagnostics import Source
from gmlmdsl.explain._expressions import Writer
from gmlmdsl.explain._notation import Latex, Notation, Unicode
from gmlmdsl.program import check_source

WRITTEN = {
    "7 % 4 / 2 * x": "((7 mod 4) / 2)·x",
    "x * 7 % 4": "(x·7) mod 4",
    "x / 7 % 4": "(x / 7) mod 4",
    "x + y % 2": "x + (y mod 2)",
    "(x % 2 == 0) * y": "1{x mod 2 = 0}·y",
    "(x == 1) * -2^2": "1{x = 1}·(−2^2)",
    "(x == 1) * (-2)^2": "1{x = 1}·(−2)^2",
    "(-2)^x": "(−2)^x",
    "h ^ -2": "h^(−2)",
    "h / -2": "h / (−2)",
    "x - -y": "x − (−y)",
    "x + -2 * y": "x + (−2·y)",
    "-(-x)": "−(−x)",
    "x / y / 2": "(x / y) / 2",
    "x^y^2": "x^(y^2)",
    "sum(x for i in range(2)) + y": "(∑{i ∈ range(2)} x) + y",
    "x == 1 and y == 1 or x == 2": "1{(x = 1 and y = 1) or x = 2}",
    "not (x == 1) or y == 1": "1{not (x = 1) or y = 1}",
    "x + y - 2": "x + y − 2",
    "2 * x * y": "2·x·y",
}
IN_LATEX = {
    "h * -2": r"h \, \left(-2\right)",
    "h * 2": r"h \cdot 2",
    "3 * 2 * x": r"3 \cdot 2 \, x",
    "(-2)^x": r"{\left(-2\right)}^{x}",
    "not (x == 1) or y == 1": r"\mathbf{1}\{\lnot \left(x = 1\right) \lor y = 1\}",
    "(if x == 1 then 2 else 3) * h": (r"\left(\begin{cases} 2 & \text{if } x = 1 \\ 3 & \text{else} \end{cases}\right) \, h"),
}


def written(expression: str, notation: Notation) -> str:
    text = f"model m {{ var x : range(3)  var y : range(3)  param h  factor {expression} }}"
    (factor,) = check_source(Source("p.gmlm", text)).models["m"].factors
    return Writer(notation, {}).number(factor.value)


@pytest.mark.parametrize("expression", WRITTEN)
def test_no_two_operators_meet_without_a_bracket_that_tells_them_apart(expression: str):
    assert written(expression, Unicode()) == WRITTEN[expression]


@pytest.mark.parametrize("expression", IN_LATEX)
def test_the_same_in_latex(expression: str):
    assert written(expression, Latex()) == IN_LATEX[expression]
