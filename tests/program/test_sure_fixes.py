"""`gmlm check --fix` makes an edit only where what was meant is sure."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from mutants import said_of

from gmlmdsl.cli._check_files import apply_edits, sure_edits
from gmlmdsl.syntax._repair import is_one_slip

MODEL = "model m {{\n  var x : bit\n  var s[i in range(2)] : spin\n  param h ~ normal(0, 1)\n  {}\n}}\n"
AROUND = "mask one = subsets(x, size = 1)\nsampler g {{\n  {}\n}}\n"


def mended(text: str) -> str:
    """The text after every sure edit."""
    return apply_edits(text, sure_edits(said_of(text, "p.gmlm"), "p.gmlm"))


@pytest.mark.parametrize(
    "statement",
    [
        "x <- x",
        "h <- 3",
        "e += h * x",
        "energy += h * x",
        "s[0] += h",
        "x <= 0",
        "h * x == 1 and x == 1",
        "y = spin",
        "y : bit",
        "y : real",
        "factor h * * 2",
        "factor h * x for i in range(2) if i = = 1",
        "param a, b : positive",
        "param a, b ~ normal(0, 1)",
        "var y : ising",
        "param a ~ gaussian(0, 1)",
        "factor (if x == 0 then h else 1)(",
        "require x => s[0]",  # an implication between bits, or a misspelt comparison
        "require x => 1",
        "require x == 1 -> x == 0 -> x == 1",  # which implication comes first
        "require x == 1 => x == 0 => x == 1",
        "require x ~= 1",  # not equal in MATLAB, about equal in papers
        "require !x == 1",  # of the cell, or of the comparison
        "require ¬x + 1 == 1",
        "factor 2 * 3 %% 2 * x",  # R takes `3 %% 2` first
        "factor 1,500 * x",  # a thousand, or a decimal comma
        "require x in [0, 1]",  # two values, or an interval
        "require x in (0, 1)",
        "factor h + x in {1}",  # the sum is compared elsewhere
        "factor h * x in {0, 1}",
        "forbid x == 1 and s[0] == 1",  # `require not x == 1 and ..` is another thing
        "potential h * x",  # an energy lowers log p
        "interaction h * x * s[0]",
        "data y : bit",
        "unknown y : bit",
        "factor h * s(1)",  # the first cell in MATLAB
        "require x == s[0]",  # as numbers, or as states
        "factor h * (x < s[1])",
    ],
)
def test_no_edit_is_made_where_the_meaning_is_not_sure(statement: str) -> None:
    text = MODEL.format(statement)
    assert mended(text) == text


@pytest.mark.parametrize(
    "body",
    [
        "update x[K] where K ~ subsets(size = 1)",
        "repeat 2 { update x update s",
        "update x where K ~ one",
        "flip x",
    ],
)
def test_no_edit_of_a_sampler_is_made_where_the_meaning_is_not_sure(body: str) -> None:
    text = MODEL.format("factor h * x") + AROUND.format(body)
    assert mended(text) == text


@pytest.mark.parametrize(
    ("statement", "after"),
    [
        ("target += h * x", "factor h * x"),
        ("h * x", "factor h * x"),
        ("y = h * x", "let y = h * x"),
        ("factr h * x", "factor h * x"),
        ("param real a", "param a : real"),
        ("param a : positive, b : real", "param a : positive\n  param b : real"),
        ("var y : bool", "var y : bit"),
        ("factor h ** 2", "factor h ^ 2"),
        ("require x == 1 => s[0] == 1", "require not (x == 1) or s[0] == 1"),
        ("var y : bit\n  require x => y", "var y : bit\n  require x <= y"),
        (
            "var y, z[i in range(3)] : bit\n  require z[i] ==> y for i in range(3)",
            "var y, z[i in range(3)] : bit\n  require z[i] <= y for i in range(3)",
        ),
        ("require !(x == 1)", "require not(x == 1)"),
        ("require x == 1 and !(s[0] == 1)", "require x == 1 and not(s[0] == 1)"),
        ("require x in {0, 1}", "require x == 0 or x == 1"),
        ("require not (x not in {0, 1})", "require not (x != 0 and x != 1)"),
        ("factor h * s(i) for i in range(2)", "factor h * s[i] for i in range(2)"),
        ("factor 1,500,000 * x", "factor 1500000 * x"),
    ],
)
def test_a_sure_edit_is_made(statement: str, after: str) -> None:
    assert mended(MODEL.format(statement)) == MODEL.format(after)


def test_an_arrow_is_no_comparison() -> None:
    (found,) = said_of(MODEL.format("x <- x"), "p.gmlm")
    assert found.fix is None and found.help.startswith("nothing is assigned")


def test_one_slip_is_one_letter_or_two_exchanged() -> None:
    slips = ["factr", "facttor", "factpr", "fcator", "factor"]
    assert all(is_one_slip(s, "factor") and is_one_slip("factor", s) for s in slips)
    assert not any(is_one_slip(a, b) for a, b in pairwise(["fator", "actors", "factory", "fact", "rotcaf", ""]))


def test_the_examples_of_the_issue_stay_as_they_are(tmp_path: Path) -> None:
    from gmlmdsl.cli._check_files import fix_file

    for statement in ("x <- x", "e += h * x"):
        path = tmp_path / "p.gmlm"
        path.write_text(MODEL.format(statement))
        assert fix_file(path) == 0
        assert path.read_text() == MODEL.format(statement)
