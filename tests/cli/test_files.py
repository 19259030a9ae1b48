"""Files that are written whole or not at all, and paths that are no files."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from saved_cases import SAVED
from typer.testing import CliRunner

import gmlmdsl as gm
from gmlmdsl.cli._translation_commands import app
from gmlmdsl.files._whole_files import whole_file, write_whole
from gmlmdsl.report import Report


def save_fit(path: Path) -> object:
    return gm.load_fit(SAVED / "before_network.fit").save(path)


def save_report(path: Path) -> object:
    return Report("t").save(path)


def save_draws(path: Path) -> object:
    import numpy as np

    from gmlmdsl.sample._arviz import save, to_arviz

    draws = np.zeros((1, 4), int)
    return save(to_arviz({"x": draws}, {"x": []}, {}, {}), path)


WRITERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "fit": (save_fit, "a.fit"),
    "report": (save_report, "a.html"),
    "draws": (save_draws, "a.npz"),
    "bytes": (lambda path: write_whole(path, b"content"), "a.txt"),
}


@pytest.fixture(params=WRITERS)
def writer(request: pytest.FixtureRequest) -> tuple[Callable[[Path], object], str]:
    return WRITERS[request.param]


def test_formatting_and_fixing_keep_links_and_modes(tmp_path: Path):
    from gmlmdsl.cli._check_files import fix_file

    target, link = tmp_path / "a.gmlm", tmp_path / "b.gmlm"
    target.write_text("model m {\n  var x : bit\n  require x == 1 && x == 1\n}\n")
    target.chmod(0o600)
    link.symlink_to(target)
    assert fix_file(link) == 1
    assert link.is_symlink() and stat.S_IMODE(target.stat().st_mode) == 0o600 and "and" in target.read_text()


def test_a_link_stays_a_link_and_a_mode_stays(writer, tmp_path: Path):
    write, name = writer
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / f"t-{name}", tmp_path / name
    target.write_bytes(b"before")
    target.chmod(0o600)
    link.symlink_to(target)
    write(link)
    assert link.is_symlink() and stat.S_IMODE(target.stat().st_mode) == 0o600 and target.read_bytes() != b"before"
    assert sorted(p.name for p in tmp_path.rglob("*")) == sorted(["far", name, f"t-{name}"])


def test_a_link_to_nothing_is_followed(writer, tmp_path: Path):
    write, name = writer
    (tmp_path / name).symlink_to(tmp_path / f"t-{name}")
    write(tmp_path / name)
    assert (tmp_path / name).is_symlink() and (tmp_path / f"t-{name}").stat().st_size


def test_a_new_file_has_the_mode_that_the_process_gives(writer, tmp_path: Path):
    write, name = writer
    before = os.umask(0o027)
    try:
        write(tmp_path / name)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [None, 0o600])
def test_writing_changes_nothing_of_the_process_and_is_never_open_to_more(
    mode: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The mask of modes is that of all threads; and what is opened before a mode is narrowed stays readable."""
    target, modes = tmp_path / "a", []
    if mode is not None:
        target.touch(mode)
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the mask of the process was changed"))
    chmod = os.fchmod
    monkeypatch.setattr(os, "fchmod", lambda file, new: (modes.append(stat.S_IMODE(os.fstat(file).st_mode)), chmod(file, new)))
    write_whole(target, b"x")
    assert modes == ([] if mode is None else [0o600])


@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a folder"])
def test_what_is_no_file_is_not_replaced(kind: str, writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write, name = writer
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    if kind == "a pipe":
        os.mkfifo(name)
    elif kind == "a folder":
        Path(name).mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(name)
    mode = os.stat(name).st_mode
    with pytest.raises(gm.GmlmError, match=f"it is {kind}") as caught:
        write(Path(name))
    assert caught.value.codes == ("E560",) and os.stat(name).st_mode == mode and os.listdir() == [name]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300, "none/a"])
def test_names_that_no_file_has(name: str, writer, tmp_path: Path):
    write, ending = writer
    with pytest.raises(gm.GmlmError) as caught:
        write(tmp_path / f"{name}{Path(ending).suffix}")
    assert caught.value.codes == ("E560",) and not list(tmp_path.iterdir())


def test_the_longest_name_that_a_file_can_have(tmp_path: Path):
    name = "ß" * 127
    write_whole(tmp_path / name, b"content")
    assert (tmp_path / name).read_bytes() == b"content"


def test_links_in_a_circle(writer, tmp_path: Path):
    write, name = writer
    (tmp_path / name).symlink_to(tmp_path / f"b-{name}")
    (tmp_path / f"b-{name}").symlink_to(tmp_path / name)
    with pytest.raises(gm.GmlmError, match="cannot write"):
        write(tmp_path / name)


def test_file_and_folder_are_synced_before_the_name_is_there(writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In that order: what was written, the name, the folder."""
    write, name = writer
    seen: list[str] = []
    replace, sync = os.replace, os.fsync

    def noted(handle: int) -> None:
        seen.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"file of {os.fstat(handle).st_size} bytes")
        sync(handle)

    monkeypatch.setattr("os.fsync", noted)
    monkeypatch.setattr("os.replace", lambda a, b: (seen.append("name"), replace(a, b)))
    write(tmp_path / name)
    assert seen == [f"file of {(tmp_path / name).stat().st_size} bytes", "name", "folder"]


def test_what_breaks_off_leaves_nothing(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"before")
    for fault in (KeyboardInterrupt, ValueError, MemoryError):
        with pytest.raises(fault):
            _break_off(tmp_path / "a", fault)
        assert (tmp_path / "a").read_bytes() == b"before" and os.listdir(tmp_path) == ["a"]


def _break_off(path: Path, fault: type[BaseException]) -> None:
    with whole_file(path) as part:
        part.write_bytes(b"half")
        raise fault


READERS = {
    "check": "check FILE",
    "format": "format FILE",
    "explain": "explain FILE",
    "info": "info FILE",
    "fit": "fit FILE rows.csv",
    "fit, data": "fit ok.gmlm FILE",
    "sample": "sample FILE",
    "sample, params": "sample ok.gmlm --params FILE",
    "masks": "masks FILE",
    "train": "train FILE a.en a.de --out run",
    "distill": "distill FILE a.en --out made",
    "translate": "translate FILE ok.gmlm",
    "evaluate": "evaluate FILE a.en a.de",
    "export-translator": "export-translator FILE --out made",
    "latency": "latency FILE ok.gmlm",
    "pipeline": "pipeline FILE a.en a.de --out run",
}


@pytest.mark.parametrize("name", ["missing.gmlm", "folder.gmlm"])
@pytest.mark.parametrize("command", READERS)
def test_a_file_that_cannot_be_read_has_one_code_in_every_command(command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("ok.gmlm").write_text(
        "model m { var x[i in range(2)] : bit  param h  factor h * x[i] for i in range(2) }\nmask one = subsets(x, size = 1)\n"
    )
    Path("folder.gmlm").mkdir()
    for text in ("rows.csv", "a.en", "a.de"):
        Path(text).write_text("a,b\n0,1\n")
    result = CliRunner().invoke(app, READERS[command].replace("FILE", name).split())
    assert result.exit_code == 1 and "error[E120 unreadable-file]" in result.output and name in result.output
