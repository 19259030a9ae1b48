"""The command line: what it prints, what it writes, its exit status, and that no fault of a user ends in a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import typer
from cli_cases import CHAIN, ROOT, gmlm, process
from cli_cases import folder as folder
from typer.testing import CliRunner

from gmlmdsl.cli import _console
from gmlmdsl.cli._commands import app
from gmlmdsl.cli._translation_commands import app as app_of_all

# The program itself


def test_help_lists_every_command():
    output = gmlm("--help").output
    for command in ("check", "format", "explain", "info", "fit", "sample", "masks", "import", "export", "examples", "new", "mock", "demo"):
        assert command in output


@pytest.mark.check
def test_version():
    assert gmlm("--version").output.startswith("gmlm")


@pytest.mark.check
@pytest.mark.parametrize(
    "command", ["check", "format", "explain", "info", "fit", "sample", "masks", "import", "export", "examples", "demo"]
)
def test_every_command_has_help(command):
    assert len(gmlm(command, "--help").output) > 300


def test_no_paragraph_of_a_help_is_broken_inside_a_sentence(monkeypatch):
    """At a width at which every paragraph is one line; and no flag looks as if it took a value."""
    monkeypatch.setenv("COLUMNS", "400")
    group = typer.main.get_command(app_of_all)
    broken = []
    for name, command in group.commands.items():
        said = gmlm(name, "--help").output.partition("Usage:")[2].partition("╭")[0]
        lines = [line.strip() for line in said.splitlines()[1:] if line.strip()]
        assert lines and lines == command.help.split("\n\n")
        broken += [line for line in lines if not line.endswith((".", ":"))]
        flags = [p for p in command.params if getattr(p, "is_flag", False)]
        assert all(flag.metavar == "" for flag in flags)
    assert len(group.commands) > 20 and broken == []


def test_usage_errors_have_status_2(folder):
    gmlm("nonsense", status=2)
    gmlm("check", status=2)
    gmlm("fit", "m.gmlm", "x.csv", "--seed", "x", status=2)
    gmlm("explain", "m.gmlm", "--stage", "foo", status=2)
    gmlm("format", status=2)


# check


def test_check_imports_nothing_heavy(folder):
    script = (
        "import sys; sys.argv = ['gmlm', 'check', 'm.gmlm']\nfrom gmlmdsl.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('jax', 'jaxlib', 'scipy', 'typer', 'rich', 'pydantic')])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.splitlines()[-1] == "[]"


@pytest.mark.check
def test_check_says_what_it_finds_in_every_file(folder):
    (folder / "bad.gmlm").write_text(CHAIN.replace("J * x[i]", "K * x[i]"))
    run = process("check", "m.gmlm", "bad.gmlm", "nope.gmlm", ".")
    assert run.returncode == 1
    assert "error[E203 unknown-name]: `K` is not declared" in run.stdout
    assert "--> bad.gmlm:8:10" in run.stdout
    assert "`nope.gmlm` does not exist" in run.stdout
    assert "`.` is a directory" in run.stdout
    assert run.stdout.splitlines()[-1] == "3 errors in 4 files; indices and sizes are looked at once the text has none"
    assert run.stderr == ""


def test_check_passes_warnings(folder):
    (folder / "w.gmlm").write_text(CHAIN.replace("  param J", "  param unused\n  param J"))
    for result in (gmlm("check", "w.gmlm"), gmlm("check", "w.gmlm", "--json")):
        assert "W803" in result.output
    assert process("check", "w.gmlm").returncode == 0
    assert gmlm("check", "m.gmlm").output == "no faults in 1 file\n"


def test_check_json_is_data(folder):
    (folder / "bad.gmlm").write_text("model m { var x : spn }")
    found = json.loads(gmlm("check", "--json", "bad.gmlm", status=1).output)
    assert found[0]["place"]["line"] == 1
    assert found[0]["severity"] == "error"


def test_check_of_what_is_not_text(folder):
    (folder / "noise.gmlm").write_bytes(bytes(range(256)))
    (folder / "deep.gmlm").write_text("model m { var x : spin factor " + "(" * 100_000 + "x" + ")" * 100_000 + " }")
    for name in ("noise.gmlm", "deep.gmlm"):
        run = process("check", name)
        assert run.returncode == 1
        assert run.stdout.startswith("error[E1")
        assert "Traceback" not in run.stderr


# format


def test_format_writes_the_canonical_text_once(folder):
    (folder / "m.gmlm").write_text("model   m{var x:spin;  factor  2*x # a comment\n}")
    assert "would change m.gmlm" in gmlm("format", "--check", "m.gmlm", status=1).output
    assert "formatted m.gmlm" in gmlm("format", "m.gmlm").output
    text = (folder / "m.gmlm").read_text()
    assert "# a comment" in text
    assert gmlm("format", "m.gmlm").output == ""
    assert gmlm("format", "--check", "m.gmlm").output == ""
    assert gmlm("format", "--stdin", stdin=text).output == text


def test_format_leaves_a_faulty_file_alone(folder):
    (folder / "bad.gmlm").write_text("model m { var x spin")
    (folder / "m.gmlm").write_text("model   m { var x : spin }")
    output = gmlm("format", "bad.gmlm", "m.gmlm", status=1).output
    assert "error[E" in output
    assert "formatted m.gmlm" in output
    assert (folder / "bad.gmlm").read_text() == "model m { var x spin"
    gmlm("format", "--stdin", stdin="model {", status=1)


# explain and info


def test_explain_reads_files_codes_and_slugs(folder):
    assert "log p(x) = " in gmlm("explain", "m.gmlm").output
    latex = gmlm("explain", "m.gmlm", "--latex", "--plans").output
    assert "\\begin{align*}" in latex and "log Z by chain: 4 cells" in latex and "chain(" not in latex
    assert "E203 unknown-name" in gmlm("explain", "E203").output
    assert "E203 unknown-name" in gmlm("explain", "unknown-name").output
    assert "did you mean `unknown-name`" in gmlm("explain", "unknwon-name", status=1).output
    assert "does not exist" in gmlm("explain", "nope.gmlm", status=1).output
    assert "did you mean `single`" in gmlm("explain", "m.gmlm", "--mask", "singel", status=1).output


def test_explain_explains_words_unless_a_file_has_the_suffix(folder):
    (folder / "factor").write_text("no program")
    (folder / "factor.gmlm").write_text(CHAIN)
    assert gmlm("explain", "factor").output.startswith("factor: a keyword")
    assert "log p(x) = " in gmlm("explain", "factor.gmlm").output
    assert "a distribution" in gmlm("explain", "bernoulli").output
    wrong = gmlm("explain", "facter", status=1).output
    assert "E507" in wrong and "did you mean `factor`" in wrong


@pytest.mark.parametrize("width", [80, 40, 20])
def test_numbers_of_a_table_are_never_broken(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    rows = [["h[a name that is long]", -0.1856, 0.0997, -1234.5678], ["J[a, b]", 1.4833, 0.1973, 0.002]]
    numbers = []
    for columns in (200, width):
        monkeypatch.setattr(_console, "PIPED_WIDTH", columns)
        _console.print_table(["parameter", "estimate", "std_error", "3%"], rows)
        numbers.append([word for word in capsys.readouterr().out.split() if word[-1].isdigit()])
    assert len(numbers[0]) == 6 and numbers[0] == numbers[1]


def test_explain_keeps_plans_back_and_wraps_to_the_width(folder, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    short, full = (gmlm("explain", "m.gmlm", *more).output for more in ((), ("--plans",)))
    assert "log Z is summed exactly." in short and "log Z by chain" not in short
    assert "log Z by chain" in full and len(full) > len(short)
    assert max(map(len, full.splitlines())) <= 100
    monkeypatch.setenv("COLUMNS", "60")
    narrow = gmlm("explain", "m.gmlm", "--plans").output
    assert max(map(len, narrow.splitlines())) <= 60
    assert narrow.split() == full.split()
    monkeypatch.setenv("COLUMNS", "200")
    assert gmlm("explain", "m.gmlm", "--plans").output == full


def test_explain_takes_inputs(folder):
    assert "(6 cells)" in gmlm("explain", "m.gmlm", "--input", "L=3").output
    assert "plans of m" in gmlm("explain", "m.gmlm", "--stage", "plan").output
    (folder / "n.gmlm").write_text(CHAIN.replace(" = 2\n", "\n"))
    assert "These need inputs: `L`" in gmlm("explain", "n.gmlm").output
    assert "input `L` is not given" in gmlm("explain", "n.gmlm", "--stage", "graph", status=1).output


def test_info_as_text_and_as_data(folder):
    output = gmlm("info", "m.gmlm").output
    assert "4 cells, 7 factors" in output
    found = json.loads(gmlm("info", "m.gmlm", "--json", "-i", "L=3").output)
    assert found["models"]["m"]["cells"] == 6
    assert list(found["models"]["m"]["masks"]) == ["single", "pairs"]


def test_demo_asks_for_scikit_learn(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert 'pip install "gmlmdsl[demo]"' in gmlm("demo", status=1).output


# How commands end


@pytest.mark.parametrize("after", [0.02, 2])
def test_an_interrupt_ends_quietly(folder, after):
    script = (
        "import os, signal, sys, threading\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nsys.argv = ['gmlm', 'format', '--stdin']\nfrom gmlmdsl.cli import main\n"
        f"threading.Timer({after}, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\nmain()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as run:
        assert run.wait(timeout=60) == 130
        assert run.stderr is not None
        assert b"Traceback" not in run.stderr.read()


def test_a_reader_that_leaves_early_is_no_fault(folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = f"{sys.executable} -m gmlmdsl explain m.gmlm --stage tree | head -1"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=environment)
    assert run.stdout.count("\n") == 1
    assert "Traceback" not in run.stderr
    assert "internal error" not in run.stderr


def test_a_fault_of_the_program_is_no_fault_of_the_user(folder, monkeypatch):
    import gmlmdsl.explain

    def broken(*_, **__):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(gmlmdsl.explain, "describe", broken)
    result = CliRunner().invoke(app, ["info", "m.gmlm"])
    assert result.exit_code == 70
    assert "internal error: ZeroDivisionError: oops" in result.output
    assert "Please report it" in result.output
