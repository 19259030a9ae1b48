"""One list of checks: the Makefile has it; CI, pre-commit and the nightly job make its targets and say nothing of their own."""

import re
import tomllib

import pytest
import tidy
from markdown_blocks import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.M))
GATE = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
FIRST = {"lint", "types"}  # what a commit makes: the gate makes them before its tests or beside them


def test_pre_commit_makes_what_ci_makes_beside_its_tests():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert {*re.findall(r"^ +entry: (.*)$", hooks, re.M)} == {f"make {target}" for target in FIRST}
    assert re.findall(r"repo: (.*)", hooks) == ["local"]  # none is fetched: they run where there is no network
    made = re.findall(r"^ *in_venv ([a-z]+)", GATE, re.M)
    assert made[0] == "lint"  # the quickest to fail
    assert FIRST | {"test", "examples"} == set(made) <= TARGETS


@pytest.mark.parametrize("tool", ["ruff", "pyright", "tests/tidy.py"])
def test_a_tool_is_called_in_one_place(tool):
    assert tool in MAKEFILE
    assert not [
        p for p in (".ci/run", ".pre-commit-config.yaml", ".github/workflows/ci.yml") if tool in (ROOT / p).read_text(encoding="utf-8")
    ]


def test_the_workflow_runs_the_gate_and_the_nightly_targets():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert "- run: .ci/run" in text
    (nightly,) = re.findall(r"target: \[(.*)\]", text)
    assert {*nightly.split(", ")} == {"nightly", "coverage", "doubles", "versions"} <= TARGETS
    jobs = [job for job in re.split(r"^  (?=[a-z]+:$)", text, flags=re.M) if "setup-python" in job]
    assert len(jobs) == 3
    for job in jobs:
        assert "cache: pip" in job
    assert text.count("./.github/compiled") == 2


def test_the_folder_that_is_kept_is_the_one_that_tests_use():
    kept = (ROOT / ".github" / "compiled" / "action.yml").read_text(encoding="utf-8")
    assert "path: /tmp/gmlmdsl-tests-runner\n" in kept
    assert 'f"gmlmdsl-tests-{getpass.getuser()}"' in (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")


def test_coverage_counts_branches_and_has_a_floor():
    coverage = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["coverage"]
    assert coverage["run"] == {"branch": True, "source": ["gmlmdsl"]}
    assert 0 < coverage["report"]["fail_under"] <= 100


def test_texts_are_tidy(capsys):
    assert tidy.main() == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.md", "one \ntwo\n", "1: blanks at the end of the line"),
        ("a.md", "one\ntwo", "2: a file ends in one newline"),
        ("a.md", "one\n\n", "2: a file ends in one newline"),
        ("a.toml", "a = \n", "1: Invalid value (at line 1, column 5)"),
        ("a.json", "{]\n", "1: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ],
)
def test_an_untidy_text_is_said(tmp_path, name, text, fault):
    (tmp_path / name).write_text(text)
    assert list(tidy.faults(tmp_path / name))[:1] == [fault]


def test_a_text_that_is_not_utf_8_is_said(tmp_path):
    (tmp_path / "a.py").write_bytes(b"\xff")
    assert "utf-8" in next(tidy.faults(tmp_path / "a.py"))


def test_every_folder_of_the_checkout_is_looked_at():
    seen = {p.relative_to(ROOT).parts[0] for p in tidy.texts()}
    assert {"Makefile", "LICENSE", "README.md", "pyproject.toml", *tidy.FOLDERS} <= seen
