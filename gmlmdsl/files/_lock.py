"""A lock that lets one run at a time work in a folder; other runs report which one holds it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from .._diagnostics import GmlmError, fail
from .limits import LOCK_TRIES, MOST_LOCK_BYTES

LOCK = ".lock"


@contextlib.contextmanager
def alone(folder: str | Path) -> Iterator[None]:
    """Create a folder, and keep a second run out of it.

    A folder that was created here and is empty in the end is removed. The system holds the lock for
    the process and releases it when the process ends in any way. The file of a killed run therefore
    blocks no other run. The file names the process and its start time.

    Raises:
        GmlmError: E560 if the folder cannot be written; E588 if another run works there.
    """
    folder = Path(folder)
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = _taken(folder)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise fail("E560", f"cannot write {folder}: {reason}", help="choose another folder") from None
    try:
        yield
    finally:
        _let_go(handle, folder, made)


def _taken(folder: Path) -> int | None:
    """Return a handle of the locked file, or None if the system has no such locks."""
    try:
        import fcntl
    except ImportError:  # Some systems lack this module.
        return None
    for _ in range(LOCK_TRIES):
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            held = _held(handle, folder) if isinstance(error, BlockingIOError) else _without_locks(error, folder)
            os.close(handle)
            raise held from None
        if os.fstat(handle).st_nlink > 0:
            os.ftruncate(handle, 0)
            os.write(handle, json.dumps({"pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}).encode())
            return handle
        os.close(handle)  # A run that has just ended removed the file.
    raise fail("E588", f"runs begin and end in {folder}", help="try again, or choose another folder")


def _held(handle: int, folder: Path) -> GmlmError:
    """Return the error for a folder that another run holds, with the content of its lock file."""
    said, pid = "", 0
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        found = json.loads(os.pread(handle, MOST_LOCK_BYTES, 0).decode())
        pid = int(found["pid"])
        said = f": process {pid}, since {found['since']!s:.40}"
    stop = f"stop it, `kill {pid}`" if said else "stop it"
    return fail("E588", f"another run is at work in {folder}{said}", help=f"wait for it, {stop}, or choose another folder")


def _without_locks(error: OSError, folder: Path) -> GmlmError:
    return fail("E560", f"cannot lock {folder}: {error.strerror or error}", help="choose a folder of another file system")


def _let_go(handle: int | None, folder: Path, made: bool) -> None:
    path = folder / LOCK
    if handle is not None:
        with contextlib.suppress(OSError):
            # If the files differ, somebody removed the folder, and another run works there.
            if path.stat().st_ino == os.fstat(handle).st_ino:
                path.unlink()
        os.close(handle)
    if made:
        with contextlib.suppress(OSError):
            folder.rmdir()  # This fails if the folder is not empty.
