"""Unfinished files: those of killed writers are removed at the next save in their folder, those of living ones never."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gmlmdsl.files import _whole_files as module
from gmlmdsl.files import write_whole

WRITER = """
import sys, time
from gmlmdsl.files import whole_file
with whole_file(sys.argv[1]) as part:
    part.write_bytes(b"half")
    print(part, flush=True)
    time.sleep(600)
"""


def writer(path: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process in the middle of a save, and its unfinished file."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_the_next_save_removes_what_a_killed_one_left_and_leaves_a_living_one_alone(tmp_path: Path):
    killed, left = writer(tmp_path / "k.fit")
    living, kept = writer(tmp_path / "other.fit")
    try:
        end(killed)
        assert left.read_bytes() == b"half"
        write_whole(tmp_path / "new.csv", b"whole")
        assert not left.exists() and kept.read_bytes() == b"half"
        os.utime(kept, (0, 0))  # however long it takes
        write_whole(tmp_path / "new.csv", b"whole")
        assert kept.exists()
    finally:
        end(living)
    write_whole(tmp_path / "new.csv", b"whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.csv"]


def unfinished(folder: Path, machine: str, number: int | str, age: float = 0.0) -> Path:
    """An unfinished file that no process holds."""
    path = folder / f".k.fit.{machine}.{number}.0123abcd{module.UNFINISHED}"
    path.write_bytes(b"half")
    os.utime(path, (time.time() - age, time.time() - age))
    return path


@pytest.mark.parametrize(
    ("machine", "age", "stays"),
    [
        (None, 0.0, True),  # the number may be that of a process between the making of its file and the lock
        (None, 2 * module.A_MOMENT, False),  # the number was given again
        ("another", 2 * module.A_MOMENT, True),
        ("another", 2 * module.LONG_AGO, False),
    ],
)
def test_a_file_without_a_lock_is_removed_where_its_writer_is_surely_gone(tmp_path: Path, machine: str | None, age: float, stays: bool):
    path = unfinished(tmp_path, machine or module._machine(), os.getpid(), age)
    write_whole(tmp_path / "new.csv", b"whole")
    assert path.exists() == stays


def test_other_files_of_the_folder_stay(tmp_path: Path):
    strange = [tmp_path / ".part", tmp_path / f".a{module.UNFINISHED}", tmp_path / ".k.fit.0123abcd"]
    for path in strange:
        path.write_bytes(b"")
        os.utime(path, (0, 0))
    link = tmp_path / f".k.fit.{module._machine()}.0.0123abcd{module.UNFINISHED}"
    link.symlink_to(strange[-1])
    write_whole(tmp_path / "new.csv", b"whole")
    assert all(p.exists() for p in strange) and link.is_symlink()


def test_a_file_system_without_locks_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def none(handle: int) -> bool:
        raise OSError("no locks")

    monkeypatch.setattr(module, "_lock", none)
    path = unfinished(tmp_path, module._machine(), 2**22 + 1, 0.0)
    write_whole(tmp_path / "new.csv", b"whole")
    assert path.exists() and (tmp_path / "new.csv").read_bytes() == b"whole"
