"""The same fault has the same code, and the same message, in every command that can meet it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_cases import gmlm
from thinned import thinned

PROGRAM = """\
input n : int = 2
input J : real
model m {
  var x[i in range(n)] : bit
  param h ~ normal(0, 1)
  factor h * x[i] + J * x[0] * x[1] for i in range(n)
}
mask one = subsets(x, size = 1)
sampler s { update x }
"""
EVERY = ("check", "format", "explain", "info", "fit", "sample", "masks")
BINDS = ("check", "explain", "info", "fit", "sample", "masks")
MODELS = ("explain", "fit", "sample", "masks")
# A fault: the commands that can meet it, the program, options, and the heading of what is said.
FAULTS = {
    "missing": (EVERY, "none.gmlm", (), "E120 unreadable-file]: `none.gmlm` does not exist"),
    "near name": (EVERY, "goood.gmlm", (), "E120 unreadable-file]: `goood.gmlm` does not exist"),
    "directory": (EVERY, "folder.gmlm", (), "E120 unreadable-file]: `folder.gmlm` is a directory"),
    "bytes": (EVERY, "bytes.gmlm", (), "E119 not-text]: `bytes.gmlm` is not UTF-8 text: byte 0xff on line 1"),
    "large": (EVERY, "large.gmlm", (), "E118 file-too-large]: `large.gmlm` is larger than 1 MiB"),
    "syntax": (EVERY, "broken.gmlm", (), "E102 unclosed-bracket]: expected `}` to close the model `m` opened here"),
    "name": (BINDS, "name.gmlm", (), "E203 unknown-name]: `spim` is not declared"),
    "no number": (BINDS, "good.gmlm", ("--input", "n=two"), 'E507 bad-argument]: `--input n=two`: "two" is not a number'),
    "no value": (BINDS, "good.gmlm", ("--input", "n"), "E507 bad-argument]: `--input n`: expected `name=value`"),
    "unknown input": (BINDS, "good.gmlm", ("--input", "k=3"), "E402 unknown-input]: the program has no input `k`"),
    "fraction": (BINDS, "good.gmlm", ("--input", "n=2.5", "--input", "J=1"), "E404 input-value]: input `n` must be an integer, got 2.5"),
    "missing arrays": (BINDS, "good.gmlm", ("--inputs", "none.npz"), "E120 unreadable-file]: `none.npz` does not exist"),
    "damaged arrays": (BINDS, "good.gmlm", ("--inputs", "rows.csv"), "E520 file-format]: rows.csv is not an .npz file, or is damaged"),
    "not given": (("fit", "sample", "masks"), "good.gmlm", (), "E401 input-missing]: input `J` is not given"),
    "unknown model": (MODELS, "good.gmlm", ("--model", "q", "--input", "J=1"), "E506 unknown-name-in-call]: the program has no model `q`"),
}
CASES = [(fault, command) for fault, (commands, *_) in FAULTS.items() for command in commands]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.gmlm").write_text(PROGRAM)
    Path("broken.gmlm").write_text("model m {\n  var x : bit\n")
    Path("name.gmlm").write_text(PROGRAM.replace(": bit", ": spim"))
    Path("bytes.gmlm").write_bytes(b"\xff\xfe\n")
    Path("large.gmlm").write_text("#" * (1 << 20) + "\n\n")
    Path("folder.gmlm").mkdir()
    Path("rows.csv").write_text("0,1\n1,1\n")


@pytest.mark.parametrize(("fault", "command"), thinned(CASES, 2))
def test_a_fault_has_one_code_in_every_command(fault: str, command: str) -> None:
    _, program, options, heading = FAULTS[fault]
    data = ("rows.csv",) if command == "fit" else ()
    found = gmlm(command, program, *data, *options, status=1).output
    assert re.findall(r"^error\[(.*)", found, re.M) == [heading]


def test_data_and_fits_that_cannot_be_read_have_the_codes_of_programs() -> None:
    Path("words.csv").write_bytes(b"0,1\n\xe9,1\n")
    for arguments, code in (
        (("fit", "good.gmlm", "none.csv", "--input", "J=1"), "E120"),
        (("fit", "good.gmlm", "folder.gmlm", "--input", "J=1"), "E120"),
        (("fit", "good.gmlm", "words.csv", "--input", "J=1"), "E119"),
        (("sample", "none.fit"), "E120"),
        (("masks", "good.gmlm", "--params", "none.npz", "--input", "J=1"), "E120"),
    ):
        assert f"error[{code} " in gmlm(*arguments, status=1).output, arguments
