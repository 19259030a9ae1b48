"""Files: which paths can be read, lines of UTF-8 text, and files that are written completely.

A file is written completely or not at all. A line that is too long, or is not text, raises an
error that names its place.
"""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import struct
import time
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import IO

from .._diagnostics import GmlmError, did_you_mean, fail
from .limits import A_MOMENT, LONG_AGO, LONGEST_PREFIX, MOST_BESIDE, MOST_LINE

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# The caller opened files with these paths for us: `cmd | gmlm .. /dev/stdin`, `gmlm .. <(cmd)`.
OPEN = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
# The name of an unfinished file ends so. The machine, the number of the writing process, and a
# random number precede it.
UNFINISHED = ".part"


def why_unreadable(path: str | Path, piped: bool = True) -> str | None:
    """Return the reason why an existing path is not read.

    It is a directory, a pipe that may never be written to, a device, or a socket.

    Args:
        path: the path of a file.
        piped: whether a pipe or terminal that the caller opened, such as `/dev/stdin` or
            `/dev/fd/3`, may be read, once and from its beginning.

    Returns:
        A text such as "is a pipe"; None for a file, and for a pipe or terminal that the caller
        opened.

    Raises:
        OSError, ValueError: if there is no such file.
    """
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode):
        return None
    if piped and str(path).startswith(OPEN) and (stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and _is_terminal(path))):
        return None
    return f"is {KINDS.get(stat.S_IFMT(mode), 'no plain file')}"


def how_to_read(why: str, piped: bool = True) -> str:
    """Return the suggested fix for a result of `why_unreadable`."""
    if why.endswith("directory"):
        return "name a file in it"
    return "pass on what comes out of it: `cat PIPE | gmlm .. /dev/stdin`" if piped and why.endswith("pipe") else "name a file"


def as_path(path: object, code: str = "E120") -> Path:
    """Return a path that was passed from Python.

    The path is to be read or, with the code E560, to be written.

    Raises:
        GmlmError: `code` for anything but a text or a path. A number, for example, would be taken
            as an open file's descriptor, and closed.
    """
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise fail(code, f"a path is a text or a `Path`, got {type(path).__name__}", help='name a file: `"votes.gmlm"`')
    return Path(path)


@contextlib.contextmanager
def reading(path: str | Path, piped: bool = True, help: str = "") -> Iterator[None]:
    """Provide a context around the opening and reading of a file, with one form of error messages.

    Args:
        path: the path of the file.
        piped: as in `why_unreadable`.
        help: a suggested fix that is better than the one that follows from the reason.

    Raises:
        GmlmError: E120.
    """
    as_path(path)
    try:
        if why := why_unreadable(path, piped):
            raise fail("E120", f"`{path}` {why}", help=help or how_to_read(why, piped))
        yield
    except FileNotFoundError:
        help = _near_file(Path(path)) or help or "a relative path starts at the current folder"
        raise fail("E120", f"`{path}` does not exist", help=help) from None
    # The last two arise from a truncated or damaged packed file.
    except (OSError, ValueError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise fail("E120", f"`{path}` cannot be read: {reason[:1].lower()}{reason[1:]}", help=help) from None


def _near_file(path: Path) -> str:
    """Return a suggestion of a file in the same folder with a similar name, or an empty text."""
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
    """Return a folder, such as `examples`, that is shipped with the package.

    It is next to the package in a checkout, and inside the package in a wheel.
    """
    package = Path(__file__).resolve().parent.parent
    installed = package / name
    return installed if installed.is_dir() else package.parent / name


def made_folder(path: str | Path) -> Path:
    """Return a folder, which is created, with its parents, if it does not exist.

    Raises:
        GmlmError: E560 if it cannot be created.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise fail("E560", f"cannot write to {folder}: {why}", help="name a folder that may be made") from None
    return folder


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file completely or not at all; see `whole_file`.

    Raises:
        GmlmError: E560 if it cannot be written.
    """
    with whole_file(path) as part:
        part.write_bytes(content)


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Provide an empty file to write, which replaces `path` at the end.

    The file is in the folder of `path`, and is removed if an exception is raised. A link stays a
    link: the file to which it points is written. An existing file keeps its mode. The content is
    synced to disk before the name is, and the name is synced before the context ends. Unfinished
    files of killed processes are first removed from the folder.

    Raises:
        GmlmError: E560 if the folder does not exist, if the file cannot be written, or if it is not
            a plain file.
    """
    verify_plain(as_path(path, "E560"))
    try:
        target = Path(os.path.realpath(path))
        remove_abandoned(target.parent)
        part, handle = _beside(target)
        try:
            yield part
            put_in_place(part, target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
    except OSError as error:
        raise _cannot(path, error.strerror or str(error)) from None


def verify_plain(path: str | Path) -> None:
    """Raise if a path exists and is not a plain file.

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
    """Create a file in the same folder, and return it with its handle.

    The file has the mode of the file that it replaces, or else the system's default mode. The
    handle is locked, and its owner closes it after writing: see `remove_abandoned`. At no time may
    more users open the file than in the end. The umask of the process cannot be read without
    changing it for all threads.
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
    with contextlib.suppress(OSError):  # Some file systems have no locks.
        _lock(handle)
    if mode is not None:
        with contextlib.suppress(OSError):  # Some file systems have no modes.
            os.fchmod(handle, mode)
    return part, handle


def remove_abandoned(folder: Path) -> None:
    """Remove the unfinished files of a folder whose writers were killed.

    The file of a living process stays. A writer holds a lock on its file. The file's name contains
    the number of the process, because the lock is taken just after the file is created. It also
    contains the machine, because network file systems may restrict locks to one machine. A file of
    another machine is removed only if it is `LONG_AGO` old.
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
    """Return whether the writer of an unfinished file is gone; False if that is unknown.

    Raises:
        OSError: for a lock that is held, for a file system without locks, and for a file that may
            not be opened.
        ValueError, IndexError: for a name that is not that of an unfinished file.
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
    """Return a short name of this machine."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _is_alive(number: int) -> bool:
    """Return whether a process has this number.

    The function is never called on Windows, where `os.kill` would end the process.
    """
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # The process belongs to another user.
    return True


def _lock(handle: int) -> bool:
    """Lock an open file for this process alone, and return whether locks are available.

    Raises:
        OSError: for a lock that another process holds, and for a system without locks.
    """
    try:
        import fcntl
    except ImportError:  # Windows lacks this module.
        return False
    # The lock belongs to the handle, as with `flock`, but is independent of it, because HDF5 uses
    # `flock` itself.
    if hasattr(fcntl, "F_OFD_SETLK"):
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def put_in_place(part: Path, target: Path) -> None:
    """Give a finished file or folder its final name, after its content is on the disk.

    Args:
        part: the file, in a folder of the same file system.
        target: the final name, which no folder has unless it is empty.
    """
    settle(part)
    os.replace(part, target)
    with contextlib.suppress(OSError):  # Not every file system syncs folders.
        settle(target.parent)


def settle(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cannot(path: str | Path, why: str) -> GmlmError:
    return fail("E560", f"cannot write {path}: {why}", help="check that the folder exists and may be written")


def opened_text(path: Path) -> IO[bytes]:
    """Open a text file for reading bytes.

    A file whose name ends in .gz is unpacked as it is read.
    """
    import gzip

    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # pyright: ignore[reportReturnType]


def raw_lines(file: IO[bytes], name: object, help: str) -> Iterator[bytes]:
    r"""Yield the lines of a file, each with the \n at its end, and never hold more than one.

    Args:
        file: a file that is opened for bytes.
        name: how messages call it.
        help: the suggested fix if a line is too long.

    Raises:
        GmlmError: E523 for a line above the limit.
    """
    for number in count(1):
        raw = file.readline(MOST_LINE + 1)
        if not raw:
            return
        if len(raw) > MOST_LINE:
            raise fail("E523", f"{name}, line {number} has more than {MOST_LINE:,} bytes, the limit of a line", help=help)
        yield raw


def decoded_line(line: bytes, name: object, number: int, help: str) -> str:
    """Return the text of a line, without a byte order mark at the beginning of the first line.

    Args:
        line: its bytes.
        name: how messages call the file.
        number: the number of the line, from 1.
        help: the suggested fix if the line is not text.

    Raises:
        GmlmError: E119 for bytes that are not UTF-8 text.
    """
    if b"\0" in line:
        utf16 = number == 1 and line[:2] in (b"\xff\xfe", b"\xfe\xff")
        why = "it looks like UTF-16: save it as UTF-8" if utf16 else f"{help}; save text as UTF-8"
        raise fail("E119", f"{name} is not text: there is a zero byte in line {number}", help=why)
    mark = len(BOM_UTF8) if number == 1 and line.startswith(BOM_UTF8) else 0
    try:
        return line[mark:].decode("utf-8")
    except UnicodeDecodeError as error:
        at = mark + error.start
        message = f"{name} is not text: in line {number}, byte 0x{line[at]:02x} at place {at + 1} is not UTF-8"
        raise fail("E119", message, help=f"{help}; save text as UTF-8") from None
