"""Explanations in lines of a width: what is read as one stands on one line, and what goes on is set in."""

from __future__ import annotations

import re

import pytest

from gmlmdsl._diagnostics import Source
from gmlmdsl.explain import Explanation, meanings_of, words_of_the_language
from gmlmdsl.explain._document import broken_formula, wrapped
from gmlmdsl.explain._keywords import explain_word
from gmlmdsl.graph import bind
from gmlmdsl.program import check_source

LONG = """
index day = range(6)
model weather {
  var   temperature[t in day] : spin
  var   outlook[t in day] : labels("sun and wind", "rain", "snow")
  param coupling[t in day] ~ normal(0, 1)
  param fall ~ normal(0, 1)
  factor coupling[t] * temperature[t] * temperature[t + 1] * (outlook[t] == "sun and wind") + fall * (outlook[t] != outlook[t + 1]) for t in day if t < 5
  require not (outlook[t] == "rain" and outlook[t + 1] == "snow" and temperature[t] == 1) for t in day if t < 5
}
mask warm given outlook { each temperature[t] for t in day rate if outlook[t] == "rain" then 0.6 else 0.2 }
sampler sweep { repeat 2 { update temperature[t] for t in day  update outlook[t] for t in day } }
"""


def explanation() -> Explanation:
    program = check_source(Source("m.gmlm", LONG))
    return Explanation(program, bind(program, {}), plans=True)


def unspaced(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_and_nothing_is_lost(width: int):
    told = explanation()
    text = told.text(width)
    assert max(map(len, text.splitlines())) <= width
    assert unspaced(text) == unspaced(told.text(10_000))


@pytest.mark.parametrize("width", [60, 80, 100])
def test_entries_labels_and_short_formulas_stay_on_one_line(width: int):
    lines = explanation().text(width).splitlines()
    assert all(line.count("[") == line.count("]") for line in lines)
    assert all(line.count('"') % 2 == 0 for line in lines)
    assert any("from p(temperature_K | x_rest)" in line for line in lines)
    assert not any(line.rstrip().endswith((" +", " −", " =", " ∈")) for line in lines)


def test_what_goes_on_is_set_in_under_its_formula_and_its_list_item():
    formula = broken_formula("log p(x)", ("first[i] + second[i] + third[i]", "+ fourth[i]"), 40)
    assert formula == [
        "    log p(x) = first[i] + second[i]",
        " " * 17 + "+ third[i]",
        " " * 13 + "+ fourth[i]",
    ]
    item = wrapped("every block once; `update x[i]` behind it, and then the next one", 40, "    - ")
    assert item[0].startswith("    - every")
    assert all(line.startswith("      ") for line in item[1:])
    assert any("`update x[i]`" in line for line in item)


def test_a_bracket_within_a_label_opens_nothing():
    rows = broken_formula("p(x)", ('0 unless (a[i] = "(" and b[i] = 1), for every i in site',), 50)
    assert rows == ['    p(x) = 0 unless (a[i] = "(" and b[i] = 1),', " " * 13 + "for every i in site"]


def test_what_is_too_long_to_stay_together_is_broken_at_its_spaces():
    blocks = "{a, b}\u00a0for\u00a0" + "\u00a0".join(["i"] * 30)
    assert max(map(len, wrapped(f"The blocks are {blocks}.", 50, "  "))) <= 50


def test_what_has_no_place_to_break_is_left_whole():
    name = "a" * 60
    assert broken_formula(name, (f"{name}[i, j]",), 50)[-1].endswith(f"{name}[i, j]")
    assert wrapped("", 80, "  ") == [""]


@pytest.mark.parametrize("width", [60, 100])
def test_words_of_the_language_are_explained_in_lines_of_the_width(width: int):
    for word in words_of_the_language():
        examples = "\n".join(meaning.example for meaning in meanings_of(word))
        lines = [line for line in explain_word(word, width).splitlines() if line.strip() not in examples]
        assert all(len(line) <= width for line in lines), word
