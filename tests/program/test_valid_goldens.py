"""Valid programs of many kinds: what the formatter writes and what the checker says of them, kept as text; all of them bind and lower.

`GMLM_UPDATE_GOLDEN=1 pytest tests/program/test_valid_goldens.py` writes the texts anew; read the difference before keeping it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from mutants import load

from gmlmdsl.program import check_file
from gmlmdsl.syntax import format_source

PROGRAMS = Path(__file__).parents[1] / "programs"
VALID = sorted(path for folder in ("good", "valid") for path in (PROGRAMS / folder).glob("*.gmlm"))
# Errors whose message or label itself says what to write: a bound, the word that is missing, how a form is written.
SAID = {"E101", "E102", "E109", "E111", "E115", "E116", "E205", "E210", "E214", "E217", "E302", "E303", "E319", "E328", "E412"}
UPDATE = os.environ.get("GMLM_UPDATE_GOLDEN") == "1"
WIDTH = 100


@pytest.mark.check
@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_program_is_formatted_and_judged_as_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    golden, said = path.with_suffix(".txt"), [d.render() for d in check_file(Path(path.name)).warnings]
    found = "\n\n".join([format_source(path.read_text(encoding="utf-8")), *said]).rstrip() + "\n"
    if UPDATE:
        golden.write_text(found, encoding="utf-8")
    assert golden.is_file(), f"{golden.name} is missing: run with GMLM_UPDATE_GOLDEN=1"
    assert found == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [p for p in VALID if p.parent.name == "valid"], ids=lambda path: path.stem)
def test_a_valid_program_binds_and_lowers(path: Path) -> None:
    load(check_file(path), {})


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_formatted_line_fits_the_page_unless_nothing_can_be_broken(path: Path) -> None:
    lines = format_source(path.read_text(encoding="utf-8")).splitlines()
    assert [line for line in lines if len(line) > WIDTH and not line.lstrip().startswith("#") and "# gmlm:" not in line] == []


def test_there_are_three_hundred_invalid_programs_and_half_as_many_valid_ones() -> None:
    invalid = [path for folder in ("bad", "habits") for path in (PROGRAMS / folder).glob("*.txt")]
    assert len(invalid) >= 300 and len(VALID) >= 150
    for folder in ("good", "valid"):
        assert {p.stem for p in (PROGRAMS / folder).glob("*.txt")} == {p.stem for p in VALID if p.parent.name == folder}


def test_every_error_names_a_cure() -> None:
    texts = [path.read_text(encoding="utf-8") for folder in ("bad", "habits") for path in (PROGRAMS / folder).glob("*.txt")]
    errors = [e for text in texts for e in re.split(r"(?m)^(?=(?:error|warning)\[)", text) if e.startswith("error[")]
    bare = [e for e in errors if "\nhelp: " not in e]
    assert len(errors) > 500 and len(bare) < 0.15 * len(errors)
    assert {e[len("error[") :][:4] for e in bare} <= SAID
