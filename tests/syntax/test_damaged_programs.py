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


OPEN = "  param h[j in range(2)] ~ normal(0,n\n"
FOUND = {  # by nights
    "a loop whose parenthesis a brace closes": "model m {\n  for ( }  in 1:10) {\n    x[i] ~ dbern(p)\n  }\n}\n",
    "an empty body between words": "model second begin\n  end\nmodel first\n  var x : bit\n",
    "a power beyond numbers with a point": "model lm {\n  var x[i in range(8)] : range(10^1200)\n}\n",
    "a power of too long a number": f"index t = range({'1' * 4300} ^ 64 + 5)\nmodel m {{ var x[i in t] : bit }}\n",
    "three hundred calls that do not close": "model m {\n  var s : spin\n" + OPEN * 300 + "  factor h[(s + 1) // 2]\n}\n",
    "axes without names, again and again": "input K : int = 3\nmodel hmm {\n"
    + "  latent z[K] : range(K)\n  var y[K : int(3)\n" * 150
    + "}\n",
    "a set of a thousand million members": (
        "input visits[rows] : int = [2, 1000000000]\nindex person = range(2)\nmodel m {\n"
        "  var y[p in person, t in range(visits[p])] : bit\n  factor 0.1 * y[p, t] for p in person for t in range(visits[p])\n}\n"
    ),
    "a type that is a statement": "network x = mlp(width = 16)\nmodel m {\n  var x[t in range(8)] :conditional x ~ x()\n}\n",
    "an index of a thousand million values": "model m {\n  var k : range(1000000000)\n  var x : bit\n  x ~ bernoulli([0.1, 0.7][k])\n}\n",
    "a number with a comma, which the formatter sets apart": "model m {\n  var x[i in range(1,000)] : bit\n  factor x[0]\n}\n",
    "operators of other languages behind a bracket": (
        "model m {\n  var x : range(2)\n  va] ∧ x[1] ≤ x[2]\n  require x[0] ≥ x[1] ∨ x[1] ≠ x[2]\n  factor 0.1 * x[0] – 0.2 * x[1]\n}\n"
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_nights_found_is_answered_in_time(name: str):
    found = passed("E407_ragged_beyond", FOUND[name])  # without inputs
    assert not found.failed
    assert found.seconds < MOST_SECONDS / 2


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
