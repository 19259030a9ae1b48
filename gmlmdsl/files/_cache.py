"""The user's cache folder, and entries in it: what may be made anew. Whatever is wrong with one, or with the disk, costs only that time.

An entry is written whole and begins with a digest of its name and content, so that one that was cut
off, damaged or put under another name is none. Several processes may read, write and remove at
once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import warnings
from pathlib import Path

from .._diagnostics import GmlmWarning

CACHE = "GMLM_CACHE"  # the environment variable that names another folder, or says "off"
MOST_BYTES = 2**30
BETWEEN_LOOKS = 2**25  # bytes that a process writes before it looks at the size of the folder again
HEAD = b"gmlmdsl 1\n"
ENDING = ".entry"


def cache_folder() -> Path | None:
    """Where the user's caches lie: the folder that `GMLM_CACHE` names, or `gmlmdsl` among the caches of the system's users.

    Returns:
        The folder, which need not be there; None where `GMLM_CACHE=off`, and where the user has no
        home.
    """
    named = os.environ.get(CACHE, "")
    if named.lower() == "off":
        return None
    try:
        if named:
            return Path(named).expanduser().absolute()
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            asked = os.environ.get("XDG_CACHE_HOME", "")
            # a relative one is none, says the standard
            base = Path(asked) if os.path.isabs(asked) else Path.home() / ".cache"
    except (RuntimeError, OSError):
        return None
    return base / "gmlmdsl"


def why_not_private(folder: Path) -> str | None:
    """Why what lies in a folder may be somebody else's: it belongs to another user, or others may write to it.

    Returns:
        "may be written by others", say; None for a folder of this user alone, and where the system
        has no such owners.

    Raises:
        OSError: the folder is not there.
    """
    found = folder.stat()
    if not hasattr(os, "geteuid"):
        return None
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    return "may be written by others" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


class CacheEntries:
    """Entries by name, in a folder of one kind of them: `<root>/<kind>/<label>`; all labels of a kind share the bound.

    Attributes:
        root: the user's cache folder.
        kind: of the entries; nothing else in the root is touched.
        label: what entries must agree in to be of use.
    """

    def __init__(self, root: Path, kind: str, label: str) -> None:
        self.all = root / kind
        self.folder = self.all / label
        self._unseen = BETWEEN_LOOKS  # bytes written since the last look; the first write looks

    @classmethod
    def opened(cls, root: Path, kind: str, label: str) -> CacheEntries | None:
        """The entries in a folder that is made where it is not there, for this user alone.

        Returns:
            None where it cannot be made, and where it is not this user's alone.

        Warns:
            GmlmWarning: it is not this user's alone; who can write to it could have this process
                run anything.
        """
        entries = cls(root, kind, label)
        try:
            for folder in (root, entries.all, entries.folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if why := why_not_private(folder):
                    message = f"nothing is kept in {folder}, and nothing is read from it: it {why}"
                    help = f"`chmod go-w`, or set {CACHE} to a folder of your own, or to `off`"
                    warnings.warn(f"{message}; {help}", GmlmWarning, stacklevel=2)
                    return None
        except (OSError, ValueError):
            return None
        return entries

    def get(self, name: str) -> bytes | None:
        """The content that was put under this name; None where there is none, or a damaged or foreign one."""
        path = self._path(name)
        try:
            found = path.read_bytes()
        except OSError:
            return None
        content = found[len(_head(name, b"")) :]
        if found != _head(name, content) + content:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # what was used last stays longest
        return content

    def put(self, name: str, content: bytes) -> None:
        """Keep content under a name, if the disk allows it; what was used least goes where there is more than the bound."""
        path = self._path(name)
        import secrets

        part = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):
            try:
                with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(_head(name, content) + content)
                os.replace(part, path)
            finally:
                part.unlink(missing_ok=True)
            self._unseen += len(content)
            if self._unseen >= BETWEEN_LOOKS:
                self._unseen = 0
                self.bound(MOST_BYTES)

    def bound(self, most: int) -> None:
        """Remove what was used least, unfinished files among it, until three quarters of the bound are left where there is more."""
        found = []
        for path in self.all.glob(f"*/*{ENDING}*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in found)
        if total <= most:
            return
        for _, size, path in sorted(found):
            if total <= 0.75 * most:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
        for folder in self.all.iterdir():
            with contextlib.suppress(OSError):  # one with entries stays
                folder.rmdir()

    def _path(self, name: str) -> Path:
        return self.folder / (hashlib.sha256(name.encode()).hexdigest() + ENDING)


def _head(name: str, content: bytes) -> bytes:
    return HEAD + hashlib.sha256(name.encode() + b"\0" + content).digest()
