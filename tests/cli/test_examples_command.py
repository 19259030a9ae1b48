"""`gmlm examples`: what comes with the package is listed, and copied out with what it imports; nothing is overwritten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_cases import ROOT, gmlm
from cli_cases import folder as folder

from gmlmdsl._diagnostics import GmlmError
from gmlmdsl.cli import _starter
from gmlmdsl.program import check_file

NAMES = list(_starter.examples())


def refused(code: str, name: str, out: str | Path = "") -> str:
    with pytest.raises(GmlmError) as caught:
        _starter.copy_example(name, Path(out))
    assert caught.value.codes == (code,)
    return str(caught.value)


def test_every_example_is_listed_with_what_it_is():
    lines = gmlm("examples").output.splitlines()
    for name in NAMES:
        (line,) = (words for words in map(str.split, lines) if words[:1] == [name])
        assert len(line) > 4, f"the first comment of {name}.gmlm says too little"


def test_the_programs_of_the_folder_are_the_examples():
    of_folders = {"guided": "amplification brackets constrained lists testcases", "translator": "base choices long small tiny"}
    below = [f"{folder}/{name}" for folder, names in of_folders.items() for name in names.split()]
    assert NAMES[-len(below) :] == below
    assert NAMES[: -len(below)] == sorted(p.stem for p in (ROOT / "examples").glob("*.gmlm"))


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_whole_and_checks(name, tmp_path):
    written = _starter.copy_example(name, tmp_path)
    assert written[0] == tmp_path / f"{Path(name).name}.gmlm"
    of_lab = ROOT / "examples" / "labs" / Path(name).name / written[0].name  # beside its laboratory
    source = of_lab if name in ("guided/brackets", "guided/testcases") else ROOT / "examples" / f"{name}.gmlm"
    assert written[0].read_bytes() == source.read_bytes()
    check_file(written[0])


def test_what_an_example_imports_comes_along(folder):
    assert gmlm("examples", "adaptive", "--out", "new/here").output == "wrote new/here/adaptive.gmlm\nwrote new/here/ising.gmlm\n"
    assert gmlm("check", "new/here/adaptive.gmlm").exit_code == 0


def test_a_copy_may_have_another_name(folder):
    assert gmlm("examples", "translator/tiny", "--out", "mine.gmlm").output == "wrote mine.gmlm\n"
    assert gmlm("examples", "votes").output == "wrote votes.gmlm\n"


def test_nothing_is_overwritten(folder):
    gmlm("examples", "ising")
    before = Path("ising.gmlm").read_bytes()
    assert "E560" in gmlm("examples", "ising", status=1).output
    assert gmlm("examples", "adaptive").output == "wrote adaptive.gmlm\n"  # the same file is there already, and stays
    os.unlink("adaptive.gmlm")
    Path("ising.gmlm").write_bytes(before + b"# mine\n")
    assert "ising.gmlm: there is a file already" in refused("E560", "adaptive")
    assert not Path("adaptive.gmlm").exists()
    assert Path("ising.gmlm").read_bytes() == before + b"# mine\n"
    os.symlink("nowhere", "text.gmlm")
    assert "there is a file already" in refused("E560", "text")


def test_an_unknown_name_has_a_suggestion(folder):
    assert "there is no example `isnig`\nhelp: did you mean `ising`?" in refused("E507", "isnig")
    assert "did you mean `votes`?" in refused("E507", "votes.gmlm")
    assert "did you mean `translator/tiny`?" in refused("E507", "tiny")
    assert "`gmlm examples` lists them" in refused("E507", "zebra")
    assert "`gmlm examples` lists them" in refused("E507", "../examples/ising")


def test_a_folder_that_cannot_be_made_is_an_error(folder):
    assert "cannot write to x.csv" in refused("E560", "ising", "x.csv")
    assert "cannot write to x.csv/below" in refused("E560", "ising", "x.csv/below")


def test_a_package_without_its_examples_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(_starter, "shipped_folder", lambda name: tmp_path / name)
    assert "install the package anew" in refused("E120", "ising")


def test_a_place_without_a_name_is_a_fault_of_use(folder):
    assert "name the example to copy" in gmlm("examples", "--out", "here", status=2).output
