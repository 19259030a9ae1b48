"""One run at a time in a folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from .._diagnostics import fail


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Make a folder, and keep a second run out of it. A folder that was made, and is empty in the end, goes again.

    Raises:
        GmlmError: E560 where it cannot be written; E588 where a run is at work there.
    """
    path, made = folder / ".lock", not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError as error:
        raise fail("E560", f"cannot write {folder}: {error.strerror or error}", help="choose another folder") from None
    with lock:
        try:
            import fcntl
        except ImportError:  # not everywhere
            yield
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.fstat(lock.fileno()).st_nlink > 0  # else the run that ended just now removed it
        except BlockingIOError:
            held = False
        except OSError as error:
            raise fail("E560", f"cannot lock {folder}: {error.strerror or error}", help="choose a folder of another file system") from None
        if not held:
            raise fail("E588", f"another run is at work in {folder}", help="wait for it, or choose another folder")
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if path.stat().st_ino == os.fstat(lock.fileno()).st_ino:  # else somebody removed the folder, and another run is there
                    path.unlink()
                if made:
                    folder.rmdir()  # not where it holds something
