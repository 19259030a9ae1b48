"""`gmlm check` binds what needs no input that is not given, and says every fault that this shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gmlmdsl.cli._check_files import check_files
from gmlmdsl.cli._commands import app
from gmlmdsl.plan import check_bound
from gmlmdsl.program import check_file

ROOT = Path(__file__).parents[2]
WIDE = "index t = range(4000)\nmodel m {\n  var x[i in t] : bit\n  factor x[i] for i in t\n"
HEAD = "input n : int\ninput k : int = 4\nindex t = range(4)\nindex s = range(n)\n"
MODEL = "model m {\n  var x[i in t] : bit\n  var y[i in t] : bit\n%s}\n"
# A program that depends on no input, and the codes of what binding shows.
FAULTS = {
    "an index out of range": (MODEL % "  factor x[i] * x[i + 1] for i in t\n", ["E407"]),
    "a cycle": ("model m {\n  param p[i in range(2), v in range(2)] : simplex\n  var x : bit\n  var y : bit\n"
                "  x ~ categorical(p[y])\n  y ~ categorical(p[x])\n}\n", ["E413"]),
    "two distributions": (MODEL % "  x[i] ~ categorical([0.5, 0.5]) for i in t\n  x[0] ~ categorical([0.1, 0.9])\n", ["E413"]),
    "no edge": ("graph G = chain(4)\nmodel m {\n  var x[i in G.nodes] : bit\n  param J[(i, j) in G.edges]\n"
                "  factor J[0, 2] * x[0] * x[2]\n  factor J[0, 1] * x[0] * x[1]\n}\n", ["E414"]),
    "too large a subset": (MODEL % "  factor x[0] * y[0]\n" + "mask a for m = subsets(x, size = 5)\n", ["E410"]),
    "a negative weight": (MODEL % "  factor x[0] * y[0]\n" + "mask a for m given x { choose {y[0]} weight x[0] - 1  choose {y[1]} weight 1 }\n", ["E409"]),
    "an empty support": (MODEL % "  factor x[0] * y[0]\n" + "mask a for m = blocks({x[i]} for i in t if i > 7)\n", ["E410"]),
    "too large a set": ("index t = range(2000000000)\n" + MODEL % "  factor x[0] * y[0]\n", ["E406"]),
    "too large a graph": ("graph G = complete(20000)\nmodel m {\n  var x[i in G.nodes] : bit\n}\n", ["E412"]),
    "six": (MODEL % "  factor x[i] * x[i + 1] for i in t\n  factor 0.5 * x[4] + y[i - 1] for i in t\n"
            + "mask five for m = subsets(x, size = 5)\nmask listed for m = blocks({x[0], x[4]})\nsampler sweep for m { update x[i] for i in range(5)  update y }\n",
            ["E407", "E407", "E407", "E410", "E407", "E407"]),
}  # fmt: skip


def gmlm(*words: str):
    return CliRunner().invoke(app, list(words))


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def codes(text: str, *words: str) -> list[str]:
    Path("p.gmlm").write_text(text)
    return [d["code"] for d in json.loads(gmlm("check", "--json", "p.gmlm", *words).stdout) if d["severity"] == "error"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_depends_on_no_input_is_found(name: str) -> None:
    text, expected = FAULTS[name]
    text = text if "index t" in text else f"index t = range(4)\n{text}"
    assert codes(text) == expected
    # and beside what needs an input that is not given
    other = "input n : int\nindex s = range(n)\nmodel other {\n  var w[i in s] : bit\n  factor w[9]\n}\n"
    assert codes(text + other) == expected


def test_what_needs_an_input_is_looked_at_where_it_is_given() -> None:
    text = HEAD + MODEL % "  var z[i in s] : bit\n  let w = z[2]\n  factor w * x[0]\n  factor y[k]\n"
    assert codes(text) == ["E407"]  # `k` has a default
    assert codes(text, "--input", "k=3") == []
    assert codes(text, "--input", "n=2") == ["E407", "E407"]
    assert codes(text, "--input", "n=3", "--input", "k=3") == []
    assert codes(text, "--input", "m=3") == ["E402"]
    np.savez("inputs.npz", n=2, k=3)
    assert codes(text, "--inputs", "inputs.npz") == ["E407"]
    assert codes(text, "--input", "n=0") == ["E406", "E407"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("index t = range(20000)\nmodel m {\n  var x[i in t] : bit\n  factor x[i + 1] for i in t\n}\n", "model `m` has 20,000 cells"),
        ("index t = range(9000)\nmodel m {\n  var x[i in t] : bit\n  factor x[i] * x[j + 1] for i in t for j in t\n}\n", "81,000,000"),
        (
            "".join(["model m {\n  var x[i in range(9)] : bit\n", *(f"  factor {k} * x[0] * x[1]\n" for k in range(2000)), "}\n"]),
            "statements",
        ),
        (f"{WIDE}}}\nmask a = blocks({{x[i], x[j]}} for i in t for j in t)\n", "mask `a` has too many blocks"),
        (f"{WIDE}}}\nsampler s {{ update {{x[i], x[j]}} for i in t for j in t if i < j }}\n", "an update has too many blocks"),
        (f"{WIDE}  param p[i in t, j in t]\n  factor p[0, 1] * x[0]\n}}\n", "parameter `p` has 16,000,000 entries"),
        (
            "model m {\n  var x[i in range(30)] : bit\n  factor log(sum(x[i] for i in range(30)))\n}\n",
            "cells with 1,073,741,824 joint values, too many to try, at p.gmlm:3:3",
        ),
        ("graph G = complete(9000)\nmodel m {\n  var x[i in G.nodes] : bit\n  factor x[9000]\n}\n", "graph `G` has more than 100,000"),
        ("# " + "a" * 100_000 + "\nmodel m {\n  var x[i in range(3)] : bit\n  factor x[3]\n}\n", "more than 100,000 characters"),
    ],
)
def test_what_would_take_long_is_passed_over_and_said(text: str, words: str) -> None:
    Path("p.gmlm").write_text(text)
    found = gmlm("check", "p.gmlm")
    assert (found.exit_code, found.stdout) == (0, "no faults in 1 file\n")
    assert words in found.stderr and "only its text is checked" in found.stderr


def test_a_default_without_a_length_is_no_input() -> None:
    text = "input U[k] : real = 0\nmodel m {\n  var x[i in range(3)] : bit\n  factor U[0] * x[3]\n  factor x[4]\n}\n"
    assert codes(text) == ["E407"]
    text = "input U[k] : real = 0\nindex s = range(k)\nmodel m {\n  var x[i in range(3)] : bit\n  var z[i in s] : bit\n"
    assert codes(text + "  factor U[0] * z[0]\n  factor z[5] * x[3]\n  factor x[4]\n}\n") == ["E407"]


def test_ten_thousand_cells_are_bound() -> None:
    text = "graph G = grid(100, 100)\nmodel m {\n  var x[i in G.nodes] : spin\n  factor 0.2 * x[i] * x[j] for (i, j) in G.edges\n"
    assert codes(text + "  factor x[10000]\n}\n") == ["E407"]


def test_numpy_is_imported_to_bind_and_jax_never() -> None:
    script = (
        "import sys; sys.argv = ['gmlm', 'check', sys.argv[1]]\nfrom gmlmdsl.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'jax', 'jaxlib', 'scipy', 'equinox', 'numpy', 'typer', 'rich'}))"
    )
    Path("bad.gmlm").write_text("model m {\n  var x : spim\n}\n")
    Path("sets.gmlm").write_text("index t = range(3)\n")
    Path("good.gmlm").write_text(f"index t = range(4)\n{FAULTS['six'][0]}")
    for file, loaded in (("bad.gmlm", "[]"), ("sets.gmlm", "[]"), ("good.gmlm", "['numpy']")):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        run = subprocess.run([sys.executable, "-c", script, file], capture_output=True, text=True, check=True, env=environment)
        assert run.stdout.splitlines()[-1] == loaded, file


PROGRAMS = [p for p in sorted((ROOT / "examples").rglob("*.gmlm")) if p.stem != "reactions"]  # it needs a folder of weights


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_examples_have_no_fault_that_binding_shows(path: Path) -> None:
    too_large = () if path.stem != "topics" else ("a statement has cells with 10,000 joint values, too many to try",)
    faults, skipped = check_bound(check_file(path), {})
    large = [words.split(", at ")[0] for words in skipped if "without a default" not in words]
    assert (faults, large) == ((), list(too_large))


def test_inputs_that_binding_waits_for_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = "input n : int\ninput k : int\nindex t = range(n)\nmodel m {\n  var x[i in t] : bit\n  factor k * x[i + 1] for i in t\n}\n"
    path = tmp_path / "m.gmlm"
    path.write_text(text)
    for inputs, named in (((), "`k`, `n` without a default: "), (("n=4",), "`k` without a default: "), (("n=4", "k=1"), "")):
        assert check_files([path], inputs=inputs) == int(not named)
        said = capfd.readouterr()
        assert (named in said.err) and ("without" in said.err) == bool(named)
        assert ("E407" in said.out) == (not named)
