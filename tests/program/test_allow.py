"""`# gmlm: allow CODE`: warnings silenced at their statement, and comments that silence nothing."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from mutants import said_of

import gmlmdsl as gm
from gmlmdsl.syntax import format_source

UNUSED = "model m {\n  var x : spin\n  param h%s\n  factor 0.5 * x%s\n}%s\n"
NAIVE = """\
model m {
  var x[i in range(3)] : spin
  factor x[0] * x[1]
}
sampler s {%s
  cycle {
    update x independently%s
  }%s
}%s
"""


def codes(text: str) -> list[str]:
    return [d.code for d in said_of(text, "p.gmlm")]


def test_a_comment_allows_a_warning_of_its_statement_only() -> None:
    assert codes(UNUSED % ("", "", "")) == ["W803"]
    assert codes(UNUSED % ("  # gmlm: allow W803", "", "")) == []
    assert codes(UNUSED % ("  #gmlm:allow W801,W803 kept for later", "", "")) == ["W806"]
    assert codes(UNUSED % ("", "  # gmlm: allow W803", "")) == ["W803", "W806"]


def test_a_comment_behind_a_closing_brace_speaks_of_all_inside() -> None:
    assert codes(UNUSED % ("", "", "  # gmlm: allow W803")) == []
    comment = "  # gmlm: allow W801"
    assert codes(NAIVE % ("", comment, "", "")) == codes(NAIVE % ("", "", comment, "")) == codes(NAIVE % ("", "", "", comment)) == []
    assert codes(NAIVE % (comment, "", "", "")) == ["W806", "W801"]


def test_a_statement_of_many_lines_is_one() -> None:
    text = "model m {\n  var x : spin\n  factor 0.5\n    * (x == 0)\n    + x%s\n}\n"
    assert codes(text % "") == ["W805"]
    assert codes(text % "  # gmlm: allow W805") == []
    assert codes(text.replace("0.5\n", "0.5  # gmlm: allow W805\n") % "") == []


@pytest.mark.parametrize(
    "comment", ["# gmlm: alow W803", "# gmlm: allow unused-parameter", "# gmlm: allow", "# gmlm:", "# gmlm: allow E203"]
)
def test_a_comment_that_allows_nothing_is_a_warning(comment: str) -> None:
    assert codes(UNUSED % (f"  {comment}", "", "")) == ["W803", "W806"]


def test_other_comments_are_left_alone() -> None:
    assert codes(UNUSED % ("  # gmlm allow W803", "  # a gmlm: allow W803", "")) == ["W803"]


def test_errors_are_not_silenced() -> None:
    assert codes("model m {\n  var x : spin\n  factor y  # gmlm: allow E203\n}\n") == ["E203"]


def test_the_formatter_keeps_it_on_its_statement() -> None:
    long = " + ".join(["0.25 * (x == 0)"] * 9)
    for text in (
        UNUSED % ("  # gmlm: allow W803", "", ""),
        NAIVE % ("", "  # gmlm: allow W801", "", ""),
        f"model m {{ var x : spin  factor {long} }}  # gmlm: allow W805\n",
        f"model m {{\nvar x : spin\nfactor {long} # gmlm: allow W805\n}}\n",
    ):
        formatted = format_source(text)
        assert codes(text) == codes(formatted) == [], formatted
    assert format_source("model m {\nvar x:spin\nparam h# gmlm: allow W803\n}\n").splitlines()[2] == "  param h  # gmlm: allow W803"


def test_the_edit_of_an_idle_comment_removes_it_or_what_is_idle_of_it() -> None:
    (idle,) = said_of(UNUSED % ("  # gmlm: allow W803, W805", "", ""), "p.gmlm")
    assert idle.fix is not None and idle.fix.text == "# gmlm: allow W803"
    (idle,) = said_of("model m {\n  var x : spin # gmlm: allow W803\n}\n", "p.gmlm")
    assert idle.fix is not None and idle.fix.applied(idle.fix.span.source.text) == "model m {\n  var x : spin\n}\n"


def test_comments_of_an_imported_file_speak_there(tmp_path: Path) -> None:
    (tmp_path / "part.gmlm").write_text(UNUSED % ("  # gmlm: allow W803", "", ""))
    (tmp_path / "main.gmlm").write_text('import "part.gmlm"\n\nmask one = everything(x)  # gmlm: allow W803\n')
    with pytest.warns(gm.GmlmWarning, match="main.gmlm"):
        program = gm.load(tmp_path / "main.gmlm")
    assert [d.code for d in program.warnings] == ["W806"]


def test_loading_says_the_warnings_once_and_allowed_ones_never() -> None:
    with pytest.warns(gm.GmlmWarning, match="W803 unused-parameter") as caught:
        gm.parse(UNUSED % ("", "", ""))
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm.parse(UNUSED % ("  # gmlm: allow W803", "", ""))


def test_warnings_that_need_sizes_are_allowed_too() -> None:
    text = "input n : int\nindex t = range(n)\nmodel m {\n  var x[i in t] : spin\n}\nsampler s { update x[i] for i in t if i < 3 }%s\n"
    assert [d.code for d in gm.parse(text % "", n=4).model().warnings] == ["W812"]
    assert gm.parse(text % "", n=3).model().warnings == ()
    assert gm.parse(text % "  # gmlm: allow W812", n=4).model().warnings == ()
