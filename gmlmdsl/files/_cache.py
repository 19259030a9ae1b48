"""The user's cache folder and its entries, which can be computed again.

A fault of an entry or of the disk costs only the time of that computation. An entry is written
completely and begins with a digest of its name and content. A truncated or damaged entry, or one
under another name, is therefore ignored. Several processes may read, write and remove entries at
once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
from pathlib import Path

from .._diagnostics import GmlmWarning, tell
from .limits import BETWEEN_LOOKS, MOST_CACHE_BYTES

CACHE = "GMLM_CACHE"  # This environment variable names another folder, or is "off".
HEAD = b"gmlmdsl 1\n"
ENDING = ".entry"


def cache_folder() -> Path | None:
    """Return the user's cache folder.

    It is the folder that `GMLM_CACHE` names, or `gmlmdsl` in the system's cache folder.

    Returns:
        The folder, which need not exist; None if `GMLM_CACHE=off`, or if the user has no home
        folder.
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
            # The XDG standard says that a relative path is ignored.
            base = Path(asked) if os.path.isabs(asked) else Path.home() / ".cache"
    except (RuntimeError, OSError):
        return None
    return base / "gmlmdsl"


def why_not_private(folder: Path) -> str | None:
    """Return the reason why another user may have written the content of a folder.

    The folder belongs to another user, or others may write to it.

    Returns:
        A text such as "may be written by others"; None for a folder of this user alone, and on a
        system without such owners.

    Raises:
        OSError: if the folder does not exist.
    """
    found = folder.stat()
    if not hasattr(os, "geteuid"):
        return None
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    return "may be written by others" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


class CacheEntries:
    """Entries by name, in a folder `<root>/<kind>/<label>`.

    The labels of a kind share one bound on the size.

    Attributes:
        root: the user's cache folder.
        kind: the kind of the entries. Nothing else in the root is changed.
        label: a property in which entries must agree to be usable.
    """

    def __init__(self, root: Path, kind: str, label: str) -> None:
        self.all = root / kind
        self.folder = self.all / label
        # This counts the bytes written since the last check, so that the first write checks.
        self._unseen = BETWEEN_LOOKS

    @classmethod
    def opened(cls, root: Path, kind: str, label: str) -> CacheEntries | None:
        """Return the entries of a folder, which is created for this user alone if necessary.

        Returns:
            The entries; None if the folder cannot be created, or is not private to this user.

        Warns:
            GmlmWarning: if the folder is not private to this user. Whoever can write to it could
            make this process run anything.
        """
        entries = cls(root, kind, label)
        try:
            for folder in (root, entries.all, entries.folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if why := why_not_private(folder):
                    message = f"nothing is kept in {folder}, and nothing is read from it: it {why}"
                    help = f"`chmod go-w`, or set {CACHE} to a folder of your own, or to `off`"
                    tell(f"{message}; {help}", GmlmWarning)
                    return None
        except (OSError, ValueError):
            return None
        return entries

    def get(self, name: str) -> bytes | None:
        """Return the content under a name; None if there is none, or a damaged or foreign one."""
        path = self._path(name)
        try:
            found = path.read_bytes()
        except OSError:
            return None
        content = found[len(_head(name, b"")) :]
        if found != _head(name, content) + content:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # The entry used last is removed last.
        return content

    def put(self, name: str, content: bytes) -> None:
        """Store content under a name, if the disk allows it.

        If the bound on the size is exceeded, the least recently used entries are removed.
        """
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
                self.bound(MOST_CACHE_BYTES)

    def bound(self, most: int) -> None:
        """Reduce the entries to three quarters of a bound if they exceed it.

        The least recently used files, unfinished ones included, are removed first.
        """
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
            # A folder with entries cannot be removed, and stays.
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _path(self, name: str) -> Path:
        return self.folder / (hashlib.sha256(name.encode()).hexdigest() + ENDING)


def _head(name: str, content: bytes) -> bytes:
    return HEAD + hashlib.sha256(name.encode() + b"\0" + content).digest()
