"""What the command line prints where the output is ASCII, closed, full or no longer read; and texts that a terminal would obey."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from thinned import thinned

from gmlmdsl._diagnostics import MOST_SHOWN, Diagnostic, GmlmError, Source, Span, rendered, shown, visible

HIDDEN = """model m {
  latent z : bit
  var x[i in range(3)] : bit
  param h
  factor h * x[i] * z for i in range(3)
}
mask one = subsets(x, size = 1)
"""


def gmlm(folder: Path, words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`gmlm ..`, as a shell runs it; `words` may redirect."""
    command = f'"{sys.executable}" -m gmlmdsl {words}'
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        errors="replace",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.gmlm").write_text(HIDDEN)
    (tmp_path / "bad.gmlm").write_text("model m {\n  var x : bit\n" + "".join(f"  factor q{k} * x\n" for k in range(300)) + "}\n")
    return tmp_path


@pytest.mark.parametrize("encoding", thinned(["ascii", "latin-1", "utf-8"], 3))
def test_formulas_are_printed_in_every_encoding(encoding: str, folder: Path):
    found = gmlm(folder, "explain m.gmlm", PYTHONIOENCODING=encoding)
    assert (found.returncode, found.stderr) == (0, "")
    assert ("\u2211" in found.stdout) == (encoding == "utf-8") and ("sum{" in found.stdout) == (encoding != "utf-8")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("check m.gmlm >&-", 0, ""),
        ("check bad.gmlm >&-", 1, ""),
        ("explain m.gmlm >&-", 0, ""),
        ("check bad.gmlm >&- 2>&-", 1, ""),
        ("format --stdin <&-", 1, "error[E120 unreadable-file]: the standard input is closed"),
        ("check bad.gmlm | head -n 1; exit ${PIPESTATUS[0]}", 1, ""),
        ("check m.gmlm | true; exit ${PIPESTATUS[0]}", 1, ""),
        ("check m.gmlm > /dev/full", 1, "error: No space left on device\n"),
    ],
)
def test_streams_that_are_closed_full_or_not_read(words: str, status: int, said: str, folder: Path):
    found = gmlm(folder, words)
    assert found.returncode == status
    assert found.stderr.startswith(said) if said else found.stderr == ""


@pytest.mark.slow
def test_a_program_comes_through_a_pipe(folder: Path):
    for words in ("check /dev/stdin < m.gmlm", "check <(cat m.gmlm)", "explain <(cat m.gmlm)", "format --stdin < m.gmlm"):
        assert gmlm(folder, words).returncode == 0
    found = gmlm(folder, "check /dev/stdin < <(cat bad.gmlm)")
    assert found.returncode == 1 and "300 errors in 1 file" in found.stdout


def test_many_errors_are_counted(folder: Path):
    found = gmlm(folder, "check bad.gmlm")
    said = found.stdout.count("error[E203 ")
    assert 40 < said < MOST_SHOWN and f"\nand {300 - said} more errors\n" in found.stdout
    assert 290 < len(found.stdout.splitlines()) <= 300
    assert "300 errors in 1 file" in found.stdout
    assert len(json.loads(gmlm(folder, "check bad.gmlm --json").stdout)) == 300


def test_errors_are_shown_before_warnings():
    many = [Diagnostic("W803", f"w{k}") for k in range(200)] + [Diagnostic("E203", f"e{k}") for k in range(60)]
    texts = rendered(many)
    assert len(texts) == MOST_SHOWN + 1 and texts[-1] == "and 160 more warnings"
    assert [t for t in texts if t.startswith("error")] == [d.render() for d in many[200:]]
    assert str(GmlmError(many)).endswith("and 160 more warnings") and len(GmlmError(many).diagnostics) == 260


def test_one_long_diagnostic_is_shown_whole():
    many = [Diagnostic("E203", f"e{k}", help="\n".join("a" * 400)) for k in range(3)]
    assert rendered(many) == [many[0].render(), "and 2 more errors"]


def test_names_are_cut_with_a_count():
    text = shown(f"`{'a' * 100_000}` is not declared")
    assert len(text) < 300 and "99,877 more characters" in text and text.startswith("`aaa") and text.endswith("aaa` is not declared")
    assert len(shown("word " * 50_000)) < 3000
    kept = "x" * 300 + " " + "y" * 300
    assert shown(kept) == kept


HOSTILE = [
    "\x1b[31m",
    "\x1b]0;title\x07",
    "\r",
    "\x08",
    "\u202e",
    "\u2066",
    "\u200f",
    "\u061c",
    "\x85",
    "\x9b",
    "\u2028",
    "\ufeff",
    "\x00",
    "\ud800",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_terminal_would_obey_is_spelled(text: str):
    source = Source(f"a{text}b.gmlm", f"model m {{\n  factor {text} + wrong\n}}\n")
    start = source.text.index("wrong")
    fault = Diagnostic("E203", f"`{text}` is none", Span(source, start, start + 5), f"here {text}", help=f"not {text}")
    lines = fault.render().split("\n")
    assert all(line.isprintable() for line in lines)
    line, marks = lines[3], lines[4]
    assert line[marks.index("^") :][:5] == "wrong" and marks.count("^") == 5
    assert visible(text)[0] == "\\" and visible(text) in line


def test_a_mark_covers_what_is_spelled():
    source = Source("a.gmlm", "\tx \u202e\x1b y")
    lines = Diagnostic("E111", "m", Span(source, 3, 5)).render().split("\n")
    assert lines[3] == "1 |     x \\u202e\\x1b y" and lines[4] == "  |       ^^^^^^^^^^"


def test_texts_of_every_day_are_left_alone():
    for text in ("größer als 1 °C", "κόσμε", "日本語", "naïve – “quoted” …", "∑ x · y ≤ 3"):
        assert visible(text) == text


def test_names_of_files_and_of_columns_are_spelled(folder: Path):
    (folder / "a\x1b[31mb.gmlm").write_text("model m {")
    found = gmlm(folder, "check a*b.gmlm")
    assert found.returncode == 1 and "\x1b" not in found.stdout and "a\\x1b[31mb.gmlm" in found.stdout
