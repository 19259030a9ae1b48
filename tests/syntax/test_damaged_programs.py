"""Mutants and damaged texts come through every door with errors of the language, in time; see `damaged_programs.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from damaged_programs import passed, texts_of
from mutants import MOST_SECONDS
from typer.testing import CliRunner

from gmlmdsl.cli._commands import app

COMMANDS = (
    ("check",),
    ("check", "--json"),
    ("check", "--fix"),
    ("format", "--check"),
    ("format",),
    ("explain",),
    ("info",),
    ("info", "--json"),
)


def faulty(n: int, seed: int) -> list[tuple[str, str, float, str]]:
    """What ends in another error than one of the language's, takes too long, or changes by the formatter or `--fix` as it must not."""
    found = ((name, text, passed(name, text)) for name, _, text in texts_of(n, seed))
    return [(name, f.failed or f.slowest, f.seconds, text) for name, text, f in found if f.failed or f.seconds > MOST_SECONDS]


def test_damaged_texts_are_answered_in_time():
    assert faulty(30, 5) == []


@pytest.mark.slow  # 50,000 texts
def test_very_many_damaged_texts_are_answered_in_time():
    assert faulty(50_000, 39003) == []


def run(texts: list[tuple[str, str, str]], folder: Path) -> None:
    """Every command on every text, as a file: exit status 0, 1 or 2, and no traceback."""
    for k, (_, kind, text) in enumerate(texts):
        path = folder / f"{k}.gmlm"
        for command in COMMANDS:
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            found = CliRunner().invoke(app, [*command[:1], str(path), *command[1:]])
            assert found.exception is None or isinstance(found.exception, SystemExit), (kind, command, text)
            assert found.exit_code in (0, 1, 2), (kind, command, text)
            assert "Traceback" not in found.output


def test_the_command_line_answers_damaged_files(tmp_path: Path):
    run(texts_of(4, 6), tmp_path)


@pytest.mark.slow
def test_the_command_line_answers_many_damaged_files(tmp_path: Path):
    run(texts_of(600, 7), tmp_path)
