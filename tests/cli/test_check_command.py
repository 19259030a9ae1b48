"""`gmlm check --json`, `check --fix` and `format --check --diff`: what tools read, and what is written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gmlmdsl._diagnostics import Diagnostic, Fix, GmlmError, Source, Span
from gmlmdsl.cli._commands import app
from gmlmdsl.program import Program, check_file, check_source
from gmlmdsl.program._check import with_clean_fixes

GOLDEN = Path(__file__).parents[1] / "programs" / "check.json"
UPDATE = os.environ.get("GMLM_UPDATE_GOLDEN") == "1"
FAULTY = """\
index site = range(3)
model m {
  var x[i in site] : spin
  param h ~ normal(0, 1)
  param h ~ normal(0, 2)
  factor stat[i] * x[i] for i in site
  require x[0] = 1
}
"""
WARNED = "model m {\n  var x : spin\n  param h\n  factor 0.5 * (x == 0)\n}\n"
PLACE = {"file": str, "line": int, "column": int, "end_line": int, "end_column": int, "offset": int, "end_offset": int}


def gmlm(*words: str):
    return CliRunner().invoke(app, list(words))


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_json_is_as_kept() -> None:
    Path("faulty.gmlm").write_text(FAULTY)
    Path("warned.gmlm").write_text(WARNED)
    found = gmlm("check", "--json", "faulty.gmlm", "warned.gmlm")
    assert found.exit_code == 1
    if UPDATE:
        GOLDEN.write_text(found.stdout)
    assert json.loads(found.stdout) == json.loads(GOLDEN.read_text())


def test_json_has_the_documented_entries_and_no_other() -> None:
    for d in json.loads(GOLDEN.read_text()):
        assert {k: type(v) for k, v in d["place"].items()} == PLACE
        assert set(d) == {"code", "slug", "severity", "message", "place", "label", "related", "help", "fix"}
        assert d["severity"] == ("warning" if d["code"][0] == "W" else "error")
        assert all(set(r) == {"place", "label"} and set(r["place"]) == set(PLACE) for r in d["related"])
        if d["fix"] is not None:
            assert set(d["fix"]) == {"sure", "edits"}
            assert all(set(e) == {"place", "text"} and set(e["place"]) == set(PLACE) for e in d["fix"]["edits"])


def test_the_edits_of_json_can_be_made_by_their_offsets() -> None:
    Path("p.gmlm").write_text(FAULTY)
    for d in json.loads(gmlm("check", "--json", "p.gmlm").stdout):
        text = FAULTY
        for edit in reversed(d["fix"]["edits"] if d["fix"] else []):
            text = text[: edit["place"]["offset"]] + edit["text"] + text[edit["place"]["end_offset"] :]
        Path("q.gmlm").write_text(text)
        left = [x["message"] for x in json.loads(gmlm("check", "--json", "q.gmlm").stdout)]
        assert (d["message"] in left) == (d["fix"] is None)


def test_json_of_good_files_is_an_empty_list() -> None:
    Path("good.gmlm").write_text("model m {\n  var x : spin\n}\n")
    found = gmlm("check", "--json", "good.gmlm")
    assert (found.exit_code, json.loads(found.stdout)) == (0, [])


def test_fix_makes_sure_edits_and_leaves_guesses() -> None:
    text = "model m {\n  var x : bit\n  param hot ~ normal(0, 1)\n  factor hott * x\n  require x = 1 && x == 1 || !(x == 0)\n}\n"
    Path("p.gmlm").write_text(text)
    found = gmlm("check", "--fix", "p.gmlm")
    assert found.exit_code == 1 and "did you mean `hot`?" in found.output and "3 edits in p.gmlm" in found.stderr
    assert Path("p.gmlm").read_text() == text.replace("x = 1 && x == 1 || !(", "x = 1 and x == 1 or not(")


def test_fix_mends_what_it_can_and_then_finds_nothing() -> None:
    faulty = "graph G = chain(3)\nmodle m {\n  var x[i in G] : spin\n  param h ~ normal(0, 1);;\n"
    Path("p.gmlm").write_text(faulty + "  h * x[i] * x[j] for (i, j) in G.edges\n}\nmask a = {x[0]}  # gmlm: allow W811\n")
    assert gmlm("check", "--fix", "p.gmlm").exit_code == 0
    mended = "graph G = chain(3)\nmodel m {\n  var x[i in G.nodes] : spin\n  param h ~ normal(0, 1);\n"
    mended += "  factor h * x[i] * x[j] for (i, j) in G.edges\n}\nmask a = blocks({x[0]})  # gmlm: allow W811\n"
    assert Path("p.gmlm").read_text() == mended
    before = Path("p.gmlm").stat().st_mtime_ns
    assert gmlm("check", "--fix", "p.gmlm").output == "no faults in 1 file\n"
    assert Path("p.gmlm").stat().st_mtime_ns == before


def test_fix_of_a_missing_file_says_so_once() -> None:
    found = gmlm("check", "--fix", "none.gmlm")
    assert found.exit_code == 1 and found.output.count("`none.gmlm` does not exist") == 1


def test_format_check_and_diff_write_nothing_and_list_what_would_change() -> None:
    ugly, good = "model   m {\n  var x:spin\n}\n", "model m {\n  var x : spin\n}\n"
    Path("ugly.gmlm").write_text(ugly)
    Path("good.gmlm").write_text(good)
    assert gmlm("format", "--check", "good.gmlm").exit_code == 0
    checked = gmlm("format", "--check", "ugly.gmlm", "good.gmlm")
    assert (checked.exit_code, checked.output) == (1, "would change ugly.gmlm\n")
    diff = gmlm("format", "--diff", "ugly.gmlm", "good.gmlm")
    assert diff.exit_code == 1
    assert diff.output == (
        "would change ugly.gmlm\n--- ugly.gmlm\n+++ ugly.gmlm (formatted)\n@@ -1,3 +1,3 @@\n"
        "-model   m {\n-  var x:spin\n+model m {\n+  var x : spin\n }\n"
    )
    assert Path("ugly.gmlm").read_text() == ugly
    Path("bad.gmlm").write_text("model {")
    assert gmlm("format", "--check", "bad.gmlm").exit_code == 1


def test_explain_says_the_exact_bias_where_it_can() -> None:
    Path("p.gmlm").write_text("model m {\n  var a : bit\n  var b : bit\n  factor a * b\n}\nsampler naive { update {a, b} independently }\n")
    assert "total variation distance between its stationary distribution and p: 0.1" in gmlm("explain", "p.gmlm").output
    Path("q.gmlm").write_text("model m {\n  var a : bit\n  param J\n  factor J * a\n}\nsampler naive { update a independently }\n")
    assert "--params FILE.npz" in gmlm("explain", "q.gmlm").output


def test_an_unknown_name_is_mended_at_all_of_its_uses() -> None:
    text = "model m {\n  var state : spin\n  factor 0.5 * stat\n  factor 0.1 * stat * stat\n}\nmask a = subsets(stat, size = 1)\n"
    Path("p.gmlm").write_text(text)
    (found,) = json.loads(gmlm("check", "--json", "p.gmlm").stdout)
    assert [e["place"]["line"] for e in found["fix"]["edits"]] == [3, 4, 4, 6]
    with pytest.raises(GmlmError) as caught:
        check_file("p.gmlm")
    (d,) = caught.value.diagnostics
    assert d.fix is not None and d.fix.applied(text) == text.replace("stat ", "state ").replace("stat\n", "state\n").replace(
        "stat,", "state,"
    )


@pytest.mark.parametrize(("new", "kept"), [("b", True), ("a", False), ("c", False)])
def test_an_edit_that_mends_nothing_or_breaks_something_is_not_offered(new: str, kept: bool) -> None:
    """A checker that finds fault with `a` and, otherwise, with `c`."""

    def check(source: Source) -> Program:
        span = Span(source, 0, 1)
        if source.text in "ac":
            raise GmlmError(Diagnostic("E203", f"`{source.text}` is wrong", span, fix=Fix(span, new)))
        return check_source(Source("p", ""))

    with pytest.raises(GmlmError) as caught:
        with_clean_fixes(check, Source("p", "a"))
    assert (caught.value.diagnostics[0].fix is not None) == kept


def test_a_dash_is_the_standard_input() -> None:
    from typer.testing import CliRunner

    from gmlmdsl.cli._translation_commands import app

    found = CliRunner().invoke(app, ["check", "-"], input="model m {\n  var x : spim\n}\n")
    assert found.exit_code == 1
    assert "<stdin>:2:11" in found.stdout
    assert CliRunner().invoke(app, ["check", "-", "--fix"], input="model m {\n  var x : spin\n}\n").exit_code == 0
