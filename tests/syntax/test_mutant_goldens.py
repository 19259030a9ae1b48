"""What is said of slips of the hand: seeded changes of every good program, with the rendered errors, kept as text.

`GMLM_UPDATE_GOLDEN=1 pytest tests/syntax/test_mutant_goldens.py` writes the texts anew; read the difference before keeping it.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from pathlib import Path

import pytest
from mutants import errors_of, invalid_mutants, programs, said_of
from thinned import thinned

from gmlmdsl._diagnostics import Diagnostic

GOLDEN = Path(__file__).parents[1] / "programs" / "mutants"
UPDATE = os.environ.get("GMLM_UPDATE_GOLDEN") == "1"
TEXTS = programs()
EACH = 6  # of every program


def changed_lines(before: str, after: str) -> str:
    """The lines that a change takes away and puts in."""
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return "\n".join(line.rstrip() for line in lines if line[0] in "+-")


def written(name: str) -> str:
    """The golden text of a program: for each change its kind, its lines, and what is said of it."""
    parts = []
    for kind, text in invalid_mutants(name, TEXTS[name], EACH, seed=3):
        said = "\n\n".join(d.render() for d in errors_of(text, f"{name}.gmlm"))
        parts.append(f"== {kind}\n{changed_lines(TEXTS[name], text)}\n{said}\n")
    return "\n".join(parts)


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_said_of_a_slip_is_kept(name: str) -> None:
    golden, found = GOLDEN / f"{name}.txt", written(name)
    if UPDATE:
        golden.write_text(found, encoding="utf-8")
    assert golden.is_file(), f"{golden.name} is missing: run with GMLM_UPDATE_GOLDEN=1"
    assert found == golden.read_text(encoding="utf-8")


def test_there_are_three_hundred_slips_and_no_text_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(TEXTS)
    assert sum(path.read_text().count("\n== ") + 1 for path in GOLDEN.glob("*.txt")) >= 300


def key(d: Diagnostic) -> tuple[str, str]:
    """What makes two errors one before and after an edit, which moves lines."""
    return d.code, d.message


def verify_fix(text: str, path: str, d: Diagnostic, found: tuple[Diagnostic, ...]) -> None:
    """The edit of one diagnostic takes it away and brings no other, warnings of programs that were valid included."""
    assert d.fix is not None
    after, before = Counter(map(key, said_of(d.fix.applied(text), path))), Counter(map(key, found))
    errors = Counter(k for k in after.elements() if k[0].startswith("E"))
    assert errors <= before, f"{d.render()}\n{d.fix}"
    assert after[key(d)] < before[key(d)], f"{d.render()}\n{d.fix}"


@pytest.mark.parametrize("name", thinned(TEXTS, 3))  # the others' fixes are in the kept texts
def test_every_fix_of_a_slip_mends_it_and_nothing_else_breaks(name: str) -> None:
    for _, text in invalid_mutants(name, TEXTS[name], EACH, seed=3):
        found = said_of(text, f"{name}.gmlm")
        for d in found:
            if d.fix is not None:
                verify_fix(text, f"{name}.gmlm", d, found)


@pytest.mark.slow
def test_one_slip_in_four_at_least_has_a_fix() -> None:
    slips = [(name, changed) for name, text in TEXTS.items() for _, changed in invalid_mutants(name, text, EACH, seed=3)]
    fixed = [any(d.fix is not None for d in said_of(changed, f"{name}.gmlm")) for name, changed in slips]
    assert sum(fixed) / len(fixed) >= 0.25
