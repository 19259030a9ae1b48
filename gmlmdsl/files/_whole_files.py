"""Files: what can be read at all, and what is written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._diagnostics import GmlmError, did_you_mean, fail

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# what the caller has opened for us: `cmd | gmlm .. /dev/stdin`, `gmlm .. <(cmd)`
OPEN = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
MOST_BESIDE = 1000  # files of a folder among which a near name is sought
LONGEST_PREFIX = 40  # letters of a name that stand in that of its unfinished file
# the end of such a name, after the machine, the number of the process that writes it, and a random
# number
UNFINISHED = ".part"
A_MOMENT, LONG_AGO = (
    60.0,
    7 * 86400.0,
    # seconds: far more than there are between the making of a file and its lock; and than any write
    # takes
)


def why_unreadable(path: str | Path, piped: bool = True) -> str | None:
    """Why nothing is read from a path that is there: it is a directory, a pipe that nobody may ever write to, a device, a socket.

    Args:
        path: of a file.
        piped: whether a pipe or terminal that the caller opened, `/dev/stdin` or `/dev/fd/3`, may
            be read, once and from its beginning.

    Returns:
        "is a pipe", say; None for a file, and for what the caller opened.

    Raises:
        OSError, ValueError: where there is no such file.
    """
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode):
        return None
    if piped and str(path).startswith(OPEN) and (stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and _is_terminal(path))):
        return None
    return f"is {KINDS.get(stat.S_IFMT(mode), 'no plain file')}"


def how_to_read(why: str, piped: bool = True) -> str:
    """What to do about what `why_unreadable` says."""
    if why.endswith("directory"):
        return "name a file in it"
    return "pass on what comes out of it: `cat PIPE | gmlm .. /dev/stdin`" if piped and why.endswith("pipe") else "name a file"


def as_path(path: Any, code: str = "E120") -> Path:
    """A path that was passed from Python, to be read or, with the code E560, written.

    Raises:
        GmlmError: the code for anything but a text or a path: a number would be taken for an open
            file's, and closed.
    """
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise fail(code, f"a path is a text or a `Path`, got {type(path).__name__}", help='name a file: `"votes.gmlm"`')
    return Path(path)


@contextlib.contextmanager
def reading(path: str | Path, piped: bool = True, help: str = "") -> Iterator[None]:
    """Around what opens and reads a file: why it cannot be read is said in the same words everywhere.

    Args:
        path: of the file.
        piped: as `why_unreadable` has it.
        help: what to do, where something better is known than what follows from the reason.

    Raises:
        GmlmError: E120.
    """
    as_path(path)
    try:
        if why := why_unreadable(path, piped):
            raise fail("E120", f"`{path}` {why}", help=help or how_to_read(why, piped))
        yield
    except FileNotFoundError:
        help = _near_file(Path(path)) or help or "a path is read from the folder at hand"
        raise fail("E120", f"`{path}` does not exist", help=help) from None
    except (OSError, ValueError, EOFError, zlib.error) as error:  # the last two of a packed file that is cut off or damaged
        reason = getattr(error, "strerror", None) or str(error)
        raise fail("E120", f"`{path}` cannot be read: {reason[:1].lower()}{reason[1:]}", help=help) from None


def _near_file(path: Path) -> str:
    """A file beside one that is not there, whose name is near; empty where there is none."""
    try:
        beside = [p.name for p, _ in zip(path.parent.iterdir(), range(MOST_BESIDE), strict=False) if p.suffix == path.suffix]
    except (OSError, ValueError):
        return ""
    near = did_you_mean(path.name, beside, 0.8)
    return f"did you mean `{near}`?" if near else ""


def _is_terminal(path: str | Path) -> bool:
    with open(path, "rb", buffering=0) as file:
        return os.isatty(file.fileno())


def shipped_folder(name: str) -> Path:
    """A folder that stands beside the package in a checkout, and that a wheel carries inside it, such as `examples`."""
    package = Path(__file__).resolve().parent.parent
    installed = package / name
    return installed if installed.is_dir() else package.parent / name


def made_folder(path: str | Path) -> Path:
    """The folder, made with those above it where it is not there.

    Raises:
        GmlmError: E560 if it cannot be made.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise fail("E560", f"cannot write to {folder}: {why}", help="name a folder that may be made") from None
    return folder


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file, whole or not at all; see `whole_file`.

    Raises:
        GmlmError: E560 if it cannot be written.
    """
    with whole_file(path) as part:
        part.write_bytes(content)


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """An empty file in the folder of `path`, to be written: it takes the place of `path` at the end, and vanishes if anything fails.

    A link stays one: the file that it points to is written. A file that was there keeps its mode.
    What was written is on the disk when the name is, and the name is when this returns. Unfinished
    files of processes that were killed are removed from the folder first.

    Raises:
        GmlmError: E560 if the folder is missing, or the file cannot be written, or is no plain
            file.
    """
    verify_plain(as_path(path, "E560"))
    try:
        target = Path(os.path.realpath(path))
        remove_abandoned(target.parent)
        part, handle = _beside(target)
        try:
            yield part
            _settle(part)
            os.replace(part, target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
        with contextlib.suppress(OSError):  # not every file system syncs folders
            _settle(target.parent)
    except OSError as error:
        raise _cannot(path, error.strerror or str(error)) from None


def verify_plain(path: str | Path) -> None:
    """Refuse to write to what is there and is no plain file.

    Raises:
        GmlmError: E560.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise _cannot(path, getattr(error, "strerror", None) or str(error)) from None
    if stat.S_ISDIR(mode):
        raise fail("E560", f"cannot write {path}: it is a folder", help="name a file")
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "no plain file")
        raise fail("E560", f"cannot write {path}: it is {kind}", help="name a file: what is written appears only when it is whole")


def _beside(target: Path) -> tuple[Path, int]:
    """A new file in the same folder, with the mode of the one that it will replace; that of another is as the system makes new files.

    The handle is locked, and its owner closes it after the writing: see `remove_abandoned`.

    At no time may more users open it than in the end. To ask for the process's umask would mean to
    change it, for all threads.
    """
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mode = None
    while True:
        import secrets

        part = target.with_name(f".{target.name[:LONGEST_PREFIX]}.{_machine()}.{os.getpid()}.{secrets.token_hex(4)}{UNFINISHED}")
        with contextlib.suppress(FileExistsError):
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode & 0o777)
            break
    with contextlib.suppress(OSError):  # of a file system that has no locks
        _lock(handle)
    if mode is not None:
        with contextlib.suppress(OSError):  # of a file system that has no modes
            os.fchmod(handle, mode)
    return part, handle


def remove_abandoned(folder: Path) -> None:
    """Remove the unfinished files of a folder whose writers were killed; one of a process that lives stays.

    A writer holds a lock on its file. Its name has the number of the process, because a lock comes
    just after the file, and the machine, because file systems on a network may keep locks to one
    machine: of another machine only a file that is `LONG_AGO` old is removed.
    """
    try:
        with os.scandir(folder) as entries:
            found = [Path(e.path) for e in entries if e.name.startswith(".") and e.name.endswith(UNFINISHED)]
    except OSError:
        return
    for path in found:
        with contextlib.suppress(OSError, ValueError, IndexError):
            if _is_abandoned(path):
                path.unlink(missing_ok=True)


def _is_abandoned(path: Path) -> bool:
    """Whether the writer of an unfinished file is gone; False where that cannot be told.

    Raises:
        OSError: of a lock that is held, where the file system has no locks, and where the file may
            not be opened.
        ValueError, IndexError: of a name that is not that of an unfinished file.
    """
    machine, number = path.name.removesuffix(UNFINISHED).split(".")[-3:-1]
    age = time.time() - os.lstat(path).st_mtime
    here = machine == _machine()
    if os.name != "posix" or (here and age < A_MOMENT and _is_alive(int(number))) or (not here and age < LONG_AGO):
        return False
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return stat.S_ISREG(os.fstat(handle).st_mode) and _lock(handle)
    finally:
        os.close(handle)


def _machine() -> str:
    """A short name of this machine."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _is_alive(number: int) -> bool:
    """Whether a process has this number; never asked on Windows, where this very call would end it."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # of another user
    return True


def _lock(handle: int) -> bool:
    """Lock an open file for this process alone; whether it can be known and was free.

    Raises:
        OSError: of a lock that another process holds, and where there are no locks.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    # of the handle, as that of `flock`, and beside it: HDF5 takes that one for itself
    if hasattr(fcntl, "F_OFD_SETLK"):
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def _settle(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cannot(path: str | Path, why: str) -> GmlmError:
    return fail("E560", f"cannot write {path}: {why}", help="check that the folder exists and may be written")
