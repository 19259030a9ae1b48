"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ._diagnostics import fail


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file by renaming a finished one into place.

    Raises:
        GmlmError: E560 if the folder is missing or the file cannot be written.
    """
    path = Path(path)
    if path.is_dir():
        raise fail("E560", f"cannot write {path}: it is a folder", help="name a file")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise fail(
            "E560", f"cannot write {path}: {error.strerror or error}", help="check that the folder exists and may be written"
        ) from None
