"""Damaged files of every kind that is read, from Python and from the command line: the language's own errors, quickly, in little memory."""

from __future__ import annotations

import io
import json
import os
import resource
import struct
import sys
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import Files, damaged
from sound_files import FAMILY, models_of_files, readers, sound_files
from typer.testing import CliRunner

import gmlmdsl as gm
from gmlmdsl.cli._commands import app
from gmlmdsl.read import _array_files, read_arrays

pytestmark = pytest.mark.usefixtures("standard_promotion")
SEED = 20261126
SECONDS = 2.0
MOST_MORE = 1 << 30  # bytes of memory that reading may have taken beside what was there


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return models_of_files()


@pytest.fixture(scope="module")
def files(models: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Files:
    return sound_files(models, tmp_path_factory.mktemp("sound"))


def words_of(name: str, path: Path, sound: Path) -> list[list[str]]:
    """Commands that read a file of this name; each ends before anything is fitted."""
    if name.endswith(".fit"):
        return [["sample", str(path), "--sampler", "none"]]
    if name.endswith(".gmlm"):
        return [["check", str(path)], ["check", "--json", str(path)], ["format", "--check", str(path)], ["info", str(path)]]
    if name == "w.csv":
        return [["fit", str(sound / "m.gmlm"), str(sound / "d.csv"), "--weights", str(path), "--mask", "none"]]
    if name == "params.npz":
        return [["sample", str(sound / "m.gmlm"), "--params", str(path), "--sampler", "none"]]
    program = "f.gmlm" if any(ending in name for ending in (".a2m", ".a3m", ".fasta", ".sto")) else "m.gmlm"
    return [["fit", str(sound / program), str(path), "--mask", "none"]]


@dataclass
class Found:
    """What reading damaged files gave."""

    read: int = 0
    slowest: tuple[float, str] = (0.0, "")
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def one(self, call: Callable[[], str], what: str) -> None:
        """One reading: `call` says how it ended."""
        started = time.process_time()  # of this process: what others take at the same time is not the reader's
        try:
            self.outcomes[call()] += 1
        except gm.GmlmError as error:
            self.outcomes[error.codes[0]] += 1
        except BaseException as error:
            self.faults.append(f"{what}: {type(error).__name__}: {str(error)[:200]}")
        self.read += 1
        self.slowest = max(self.slowest, (time.process_time() - started, what))


def from_python(read: Callable[[Path], Any], path: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read(path)
    return "read"


def from_words(words: list[str]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner().invoke(app, words)
    said = result.output
    if any(text in said for text in ("Traceback", "fault of gmlmdsl", "internal error")) or result.exit_code not in (0, 1, 2):
        raise AssertionError(f"status {result.exit_code}: {said[-300:]}")
    return f"status {result.exit_code}"


def run(models: dict[str, Any], files: Files, folder: Path, count: int, seed: int, commands: int = 1) -> Found:
    """So many damaged files, all kinds in turn, each read from Python, and one of so many from the command line too."""
    sound, found = folder / "sound", Found()
    models["m"].log_prob({"h": np.zeros(3), "J": np.zeros(3)}, [[0, 1, 1]])  # what is compiled once is no reader's time
    sound.mkdir()
    for name, data in {**files, "f.gmlm": FAMILY.encode()}.items():
        (sound / name).write_bytes(data)
    names = sorted(files)
    for k in range(count):
        name = names[k % len(names)]
        how, data = damaged(seed + k, name, files)
        path = folder / name
        path.write_bytes(data)
        what = f"seed {seed + k}, {name}, {how}"
        for read in readers(models, name):
            found.one(lambda read=read, path=path: from_python(read, path), what)
        if "DAMAGE_RECORD" in os.environ and k % 250 == 249:
            Path(os.environ["DAMAGE_RECORD"] + ".part").write_text(f"{k + 1} files, {found.read} readings, {found.slowest}, {found.faults}")
        for words in words_of(name, path, sound) if k % commands == 0 else ():
            found.one(lambda words=words: from_words(words), f"{what}, gmlm {words[0]}")
    return found


def npy(head: str, entries: bytes, length: int | None = None) -> bytes:
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head) if length is None else length) + head.encode() + entries


def header(shape: str, descr: str = "'<i8'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


def archive(parts: list[tuple[str, bytes]], kind: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in parts:
            file.writestr(name, data)
    return buffer.getvalue()


SIX = np.arange(6, dtype=np.int64).tobytes()
SOUND = npy(header("(2, 3)"), SIX)
PACKED = archive([("x.npy", SOUND * 40)], zipfile.ZIP_DEFLATED)
DAMAGED = {
    "more entries than declared": ("d.npy", npy(header("(1, 3)"), SIX), "declares 24 bytes, the file has 48"),
    "fewer than declared": ("d.npy", npy(header("(1000000000000,)"), SIX), "GiB"),
    "a shape below 0": ("d.npy", npy(header("(-1,)"), SIX), "declares the shape (-1,)"),
    "a bracket that does not close": ("d.npy", npy("{'descr': '<i8', 'shape': (2,\n", SIX), "damaged"),  # TokenError
    "a type that is none": ("d.npy", npy(header("(6,)", "'<f99'"), SIX), "damaged"),  # TypeError
    "a shape with text": ("d.npy", npy(header("('a',)"), SIX), "damaged"),
    "objects": ("d.npy", npy(header("(6,)", "'|O'"), SIX), "Python objects"),
    "a part that stands twice": ("d.npz", archive([("x.npy", SOUND), ("x.npy", SOUND)]), "'x.npy' twice"),
    "a bomb": ("d.npz", archive([("x.npy", npy(header("(500000,)"), bytes(4_000_000)))], zipfile.ZIP_DEFLATED), "unpacks to"),
    "packed bytes that changed": ("d.npz", PACKED[:35] + b"\xff" * 20 + PACKED[55:], "damaged"),  # zlib.error
}


def test_a_fit_that_lists_one_part_many_times_is_refused_at_once(tmp_path: Path):
    """Found by the five thousand: its parts were counted once for each of them, for minutes."""
    one = archive([("x.npy", SOUND)])
    at, end = one.rfind(b"PK\1\2"), one.rfind(b"PK\5\6")
    tail, count = bytearray(one[end:]), 40_000
    tail[8:10] = tail[10:12] = struct.pack("<H", count)
    tail[12:16] = struct.pack("<I", count * (end - at))
    (tmp_path / "m.fit").write_bytes(one[:at] + one[at:end] * count + bytes(tail))
    started = time.process_time()
    with pytest.raises(gm.GmlmError, match="40,000 parts, more than the limit"):
        gm.load_fit(tmp_path / "m.fit")
    (tmp_path / "m.fit").rename(tmp_path / "m.npz")
    with pytest.raises(gm.GmlmError, match="more than the limit"):
        read_arrays(tmp_path / "m.npz")
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize("name", DAMAGED)
def test_headers_and_archives_that_lie(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_array_files, "SURE_UNPACKED_ARRAYS", 1 << 20)
    path = tmp_path / DAMAGED[name][0]
    path.write_bytes(DAMAGED[name][1])
    with pytest.raises(gm.GmlmError) as caught:
        read_arrays(path)
    assert caught.value.codes == ("E520",)
    assert DAMAGED[name][2] in caught.value.diagnostics[0].message


def test_damaged_files_are_refused_by_the_languages_own_errors(models: dict[str, Any], files: Files, tmp_path: Path):
    found = run(models, files, tmp_path, 150, SEED, commands=7)
    assert not found.faults, "\n".join(found.faults)
    assert found.slowest[0] < SECONDS, found.slowest


@pytest.mark.slow
def test_five_thousand_damaged_files(models: dict[str, Any], files: Files, tmp_path: Path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = run(models, files, tmp_path, 5000, SEED + 10_000, commands=3)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    words = {"readings": found.read, "slowest": found.slowest, "MiB more": more >> 20, "outcomes": dict(found.outcomes.most_common())}
    (Path(os.environ.get("DAMAGE_RECORD", tmp_path / "record.json"))).write_text(json.dumps(words, indent=1))
    print(words, file=sys.stderr)
    assert not found.faults, "\n".join([f"{len(found.faults)} faults", *found.faults[:20]])
    assert found.slowest[0] < SECONDS, found.slowest
    assert more < MOST_MORE
