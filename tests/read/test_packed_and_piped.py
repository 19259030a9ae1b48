"""Files that are packed, and paths that are no files: what is read, and what is refused before anybody waits for it."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.cli._data_files import Reading, read_data
from gmlmdsl.cli._program_arguments import read_weights
from gmlmdsl.program import check_file
from gmlmdsl.read import _lines
from gmlmdsl.translation import read_lines

PROGRAM = "model m {\n  var x[i in range(2)] : bit\n}\n"
TABLE = "a,b\n0,1\n1,1\n"


def refusal(call: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[str, str]:
    with pytest.raises(gm.GmlmError) as caught:
        call(*arguments, **options)
    return caught.value.codes[0], str(caught.value)


def test_a_packed_table_is_that_table(tmp_path: Path):
    (tmp_path / "a.csv").write_text(TABLE)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    plain, packed = (gm.read_table(tmp_path / name) for name in ("a.csv", "a.csv.gz"))
    np.testing.assert_array_equal(plain.x, packed.x)
    assert packed.columns == ("a", "b") and packed.rows.tolist() == [2, 3]
    source = check_file_of(tmp_path)
    found = read_data(tmp_path / "a.csv.gz", source, "m", {}, Reading())
    np.testing.assert_array_equal(found.x.x, plain.x)
    (tmp_path / "w.csv.gz").write_bytes(gzip.compress(b"w\n1\n2\n"))
    assert read_weights(str(tmp_path / "w.csv.gz"), None).tolist() == [1, 2]


def check_file_of(folder: Path) -> Any:
    (folder / "m.gmlm").write_text(PROGRAM)
    return check_file(folder / "m.gmlm")


def test_a_packed_alignment_is_that_alignment(tmp_path: Path):
    text = ">a\nACD\n>b\nA-D\n"
    (tmp_path / "a.a2m.gz").write_bytes(gzip.compress(text.encode()))
    assert gm.read_alignment(tmp_path / "a.a2m.gz").x.tolist() == [["A", "C", "D"], ["A", "-", "D"]]
    found = read_data(tmp_path / "a.a2m.gz", check_file_of(tmp_path), "m", {}, Reading())
    assert found.width == 3


def test_packed_files_that_are_damaged_or_packed_otherwise(tmp_path: Path):
    data = gzip.compress(TABLE.encode() * 1000)
    (tmp_path / "a.csv.gz").write_bytes(data[:-20])
    assert refusal(gm.read_table, tmp_path / "a.csv.gz")[0] == "E520"
    (tmp_path / "a.csv.gz").write_bytes(data[:30] + bytes([data[30] ^ 255]) + data[31:])
    assert refusal(gm.read_table, tmp_path / "a.csv.gz")[0] == "E520"
    (tmp_path / "a.csv.gz").write_text(TABLE)
    assert refusal(gm.read_table, tmp_path / "a.csv.gz")[0] == "E520"
    (tmp_path / "a.csv").write_bytes(data)
    code, text = refusal(gm.read_table, tmp_path / "a.csv")
    assert code == "E119" and ".csv.gz" in text
    (tmp_path / "a.npz.gz").write_bytes(data)
    code, text = refusal(read_data, tmp_path / "a.npz.gz", check_file_of(tmp_path), "m", {}, Reading())
    assert code == "E520" and "gunzip" in text


def test_a_small_file_does_not_unpack_to_a_large_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with gzip.open(tmp_path / "a.csv.gz", "wb") as file:
        for _ in range(20):
            file.write((b"0,1" + b" " * 252 + b"\n") * (1 << 12))
    assert (tmp_path / "a.csv.gz").stat().st_size * 200 < 20 << 20
    code, text = refusal(gm.read_table, tmp_path / "a.csv.gz")
    assert code == "E523" and "unpacks to more than" in text
    monkeypatch.setattr(_lines, "MOST_TEXT", 1 << 20)
    code, text = refusal(gm.read_table, tmp_path / "a.csv.gz")
    assert code == "E523" and "more than the limit" in text


def special(kind: str, folder: Path) -> Path:
    path = folder / kind.replace(" ", "_")
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a directory":
        path.mkdir()
    elif kind == "a device":
        path = Path("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as made:
            here = Path.cwd()
            os.chdir(folder)
            made.bind(path.name)
            os.chdir(here)
    return path


@pytest.mark.parametrize("kind", ["a pipe", "a directory", "a device", "a socket"])
def test_what_is_no_file_is_refused_at_once(kind: str, tmp_path: Path):
    path = special(kind, tmp_path)
    readers: dict[str, Callable[[Path], Any]] = {
        "program": gm.load,
        "table": gm.read_table,
        "alignment": gm.read_alignment,
        "fit": gm.load_fit,
        "bundle": gm.load_translator,
        "lines": lambda p: list(read_lines(p)),
        "weights": lambda p: read_weights(str(p), None),
    }
    for reader in readers.values():
        code, text = refusal(reader, path)
        assert code == "E120" and f"is {kind}" in text
    (tmp_path / "importing.gmlm").write_text(f'import "{path.name}"\n{PROGRAM}')
    if path.parent == tmp_path:
        code, text = refusal(gm.load, tmp_path / "importing.gmlm")
        assert code == "E315" and f"is {kind}" in text


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_names_that_no_file_has_are_refused_by_every_reader(name: str, tmp_path: Path):
    for reader in (gm.load, gm.read_table, gm.read_alignment, gm.load_fit, gm.load_translator, read_lines):
        code, text = refusal(reader, tmp_path / name)
        assert code == "E120" and "\0" not in text and text.isprintable() == ("\n" not in text)


def test_tables_and_programs_come_through_pipes_that_the_caller_opened():
    for text, call in (
        (TABLE, lambda p: gm.read_table(p).x.tolist() == [[0, 1], [1, 1]]),
        (PROGRAM, lambda p: gm.load(p).model() is not None),
    ):
        reading, writing = os.pipe()
        os.write(writing, text.encode())
        os.close(writing)
        assert call(f"/dev/fd/{reading}")
        os.close(reading)


FITTING = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background hands on that it is ignored
from gmlmdsl import cli
sys.argv = ["gmlm", "fit", "m.gmlm", "d.csv", "--out", "o.fit"]
def swallowed(*arguments, **options):
    print("fitting", flush=True)
    try:
        time.sleep(60)
    except BaseException:  # as a library may
        pass
    time.sleep(60)
import gmlmdsl.model._joint_model
gmlmdsl.model._joint_model.fit_model = swallowed
cli.main()
"""


@pytest.mark.slow
def test_an_interrupt_ends_a_fit_with_130_and_leaves_nothing_even_where_it_is_swallowed(tmp_path: Path):
    (tmp_path / "m.gmlm").write_text(
        "model m {\n  var x[i in range(2)] : bit\n  param h\n  factor h * x[i] for i in range(2)\n}\nmask one = subsets(size = 1)\n"
    )
    (tmp_path / "d.csv").write_text(TABLE)
    made = subprocess.Popen([sys.executable, "-c", FITTING], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert made.stdout is not None and made.stdout.readline() == "fitting\n"
    made.send_signal(signal.SIGINT)
    started = time.monotonic()
    out, err = made.communicate(timeout=50)
    assert (made.returncode, out, err) == (130, "", "")
    assert time.monotonic() - started < 45
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.csv", "m.gmlm"]
