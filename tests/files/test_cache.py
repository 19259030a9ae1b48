"""The user's cache folder: where it is, who may write to it, and entries that are damaged, foreign, too many or written by several."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gmlmdsl import GmlmWarning
from gmlmdsl.files import CacheEntries, cache_folder
from gmlmdsl.files import _cache as module

CONTENT = bytes(range(256)) * 4


@pytest.fixture
def entries(tmp_path: Path) -> CacheEntries:
    found = CacheEntries.opened(tmp_path / "cache", "programs", "here")
    assert found is not None
    return found


def files(entries: CacheEntries) -> list[Path]:
    return sorted(p for p in entries.all.rglob("*") if p.is_file())


@pytest.mark.parametrize(
    ("system", "named", "expected"),
    [
        ("linux", {}, "home/.cache/gmlmdsl"),
        ("linux", {"XDG_CACHE_HOME": "/big"}, "/big/gmlmdsl"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "home/.cache/gmlmdsl"),
        ("darwin", {}, "home/Library/Caches/gmlmdsl"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/gmlmdsl"),
        ("win32", {}, "home/AppData/Local/gmlmdsl"),
        ("linux", {"GMLM_CACHE": "/mine", "XDG_CACHE_HOME": "/big"}, "/mine"),
        ("linux", {"GMLM_CACHE": "~/mine"}, "home/mine"),
        ("linux", {"GMLM_CACHE": "off", "XDG_CACHE_HOME": "/big"}, None),
        ("darwin", {"GMLM_CACHE": "OFF"}, None),
    ],
)
def test_the_folder_is_where_each_system_has_such_folders(
    system: str, named: dict[str, str], expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("GMLM_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": str(tmp_path / "home"), **named}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module.sys, "platform", system)
    assert cache_folder() == (None if expected is None else tmp_path / expected)


def test_a_user_without_a_home_has_no_folder(monkeypatch: pytest.MonkeyPatch):
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("GMLM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module.Path, "home", nowhere)
    assert cache_folder() is None


def test_what_is_put_comes_back_from_folders_of_this_user_alone(entries: CacheEntries):
    entries.put("jit_a-1", CONTENT)
    assert entries.get("jit_a-1") == CONTENT and entries.get("jit_a-2") is None
    assert [oct(p.stat().st_mode & 0o777) for p in (entries.all.parent, entries.all, entries.folder)] == ["0o700"] * 3
    assert [oct(p.stat().st_mode & 0o777) for p in files(entries)] == ["0o600"]


@pytest.mark.parametrize("depth", [0, 1, 2], ids=["root", "kind", "label"])
def test_a_folder_that_others_may_write_to_is_not_used(depth: int, entries: CacheEntries):
    root = entries.all.parent
    (root, entries.all, entries.folder)[depth].chmod(0o777)
    with pytest.warns(GmlmWarning, match="may be written by others.*GMLM_CACHE") as said:
        assert CacheEntries.opened(root, "programs", "here") is None
    assert len(said) == 1


def test_a_folder_of_another_user_is_not_used(entries: CacheEntries, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(GmlmWarning, match="belongs to another user"):
        assert CacheEntries.opened(entries.all.parent, "programs", "here") is None


def test_a_folder_that_cannot_be_made_is_none(tmp_path: Path):
    (tmp_path / "file").write_text("")
    assert CacheEntries.opened(tmp_path / "file" / "cache", "programs", "here") is None


DAMAGE = {
    "empty": lambda b: b"",
    "cut off": lambda b: b[:-1],
    "cut off in its head": lambda b: b[:20],
    "a flipped bit": lambda b: b[:200] + bytes([b[200] ^ 1]) + b[201:],
    "a flipped bit of the digest": lambda b: b[:15] + bytes([b[15] ^ 1]) + b[16:],
    "more behind it": lambda b: b + b"x",
    "of another format": lambda b: b"gmlmdsl 2\n" + b[10:],
    "nothing of ours": lambda b: b"#!/bin/sh\n",
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_entry_is_none_and_is_put_anew(how: str, entries: CacheEntries):
    entries.put("a", CONTENT)
    path = files(entries)[0]
    path.write_bytes(DAMAGE[how](path.read_bytes()))
    assert entries.get("a") is None
    entries.put("a", CONTENT)
    assert entries.get("a") == CONTENT


def test_an_entry_under_another_name_is_none(entries: CacheEntries):
    entries.put("a", CONTENT)
    path = files(entries)[0]
    entries.put("b", CONTENT[::-1])
    other = next(p for p in files(entries) if p != path)
    path.replace(other)
    assert entries.get("a") is None and entries.get("b") is None


def test_a_full_disk_costs_only_the_entry(entries: CacheEntries, monkeypatch: pytest.MonkeyPatch):
    entries.put("a", CONTENT)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    entries.put("b", CONTENT)
    assert entries.get("a") == CONTENT and entries.get("b") is None
    assert len(files(entries)) == 1  # the unfinished one is gone


def test_what_was_used_least_goes_and_nothing_else_in_the_folder(entries: CacheEntries):
    others = CacheEntries.opened(entries.all.parent, "programs", "of an older release")
    assert others is not None
    others.put("old", CONTENT)
    for k in range(8):
        entries.put(str(k), CONTENT)
    for age, path in enumerate(sorted(files(entries), key=lambda p: p.stat().st_mtime_ns)):
        os.utime(path, (age, age))
    mine = [entries.all / "mine.txt", entries.all.parent / "mine.entry", entries.folder / "mine"]
    for path in mine:
        path.write_bytes(CONTENT * 100)
    assert entries.get("0") == CONTENT  # used now
    size = files(others)[0].stat().st_size
    entries.bound(9 * size)
    assert others.get("old") == CONTENT  # nine fit
    os.utime(next(p for p in others.folder.iterdir()), (0, 0))
    entries.bound(8 * size)
    left = [name for name in map(str, range(8)) if entries.get(name)]
    assert left == ["0", "3", "4", "5", "6", "7"]  # three quarters of the bound
    assert not others.folder.exists()  # no entry was left in it
    assert all(p.exists() for p in mine)


def test_the_bound_holds_while_entries_are_written(entries: CacheEntries, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_CACHE_BYTES", 20 * len(CONTENT))
    monkeypatch.setattr(module, "BETWEEN_LOOKS", 2 * len(CONTENT))
    for k in range(60):
        entries.put(str(k), CONTENT)
        assert sum(p.stat().st_size for p in files(entries)) <= 24 * len(CONTENT)
    assert entries.get("59") == CONTENT and entries.get("0") is None


HAMMER = """
import random, sys
from pathlib import Path
from gmlmdsl.files import CacheEntries

entries, turn, found = CacheEntries.opened(Path(sys.argv[1]), "programs", "here"), random.Random(int(sys.argv[2])), 0
for _ in range(1500):
    name = str(turn.randrange(12))
    expected = name.encode() * 3000
    if turn.random() < 0.5:
        entries.put(name, expected)
    else:
        content = entries.get(name)
        assert content in (None, expected)
        found += content is not None
    if turn.random() < 0.02:
        entries.bound(20_000)
print(found)
"""


def test_processes_at_once_read_whole_entries_or_none(tmp_path: Path):
    running = [
        subprocess.Popen([sys.executable, "-c", HAMMER, tmp_path, str(k)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for k in range(3)
    ]
    ended = [(*process.communicate(timeout=120), process.returncode) for process in running]
    assert [(err, status) for _, err, status in ended] == [("", 0)] * 3
    assert min(int(out) for out, _, _ in ended) > 0  # how many depends on which process runs when
    assert not [p for p in tmp_path.rglob("*.entry.*")]
