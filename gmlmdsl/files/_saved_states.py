"""The latest states of a long run in a folder: each is written completely or not at all.

A run that was killed goes on from the latest state. Each file has a hash, and everything that the
run depends on: a damaged file is passed over, and a file of another run raises an error.

A lock lets one run at a time work in a folder; other runs report which one holds it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from .._diagnostics import GmlmError, GmlmWarning, fail, tell
from .._types import JsonObject
from ._archive import MANIFEST, ArchiveKind, opened, pack, unpack
from ._whole_files import write_whole
from .limits import KEPT_STATES, LOCK_TRIES, MOST_ARCHIVE_BYTES, MOST_LOCK_BYTES, SAVED_EVERY

NAMED = re.compile(r"([0-9]{1,18})\.state")
STATE = "state"
KIND = ArchiveKind(
    name="state of a run",
    format=1,
    before=(),
    limit=lambda name: {MANIFEST: 1 << 26, STATE: MOST_ARCHIVE_BYTES}.get(name),
    needed=(STATE,),
    entries=("run", "notes"),
    code="E753",
    what="checkpoint",
    help="remove the folder to begin the run anew",
)
ENDED = 128 + signal.SIGTERM  # The exit status of a process that SIGTERM ended.
LOCK = ".lock"


class SavedStates:
    """The latest states of one run in one folder.

    Args:
        folder: the folder, which exists.
        identity: everything that the run depends on, by part.
    """

    def __init__(self, folder: Path, identity: Mapping[str, str]):
        self.folder, self.identity, self.saved = folder, dict(identity), time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether the latest state is so old that another one is to be saved."""
        return time.monotonic() - self.saved >= SAVED_EVERY

    def steps(self) -> list[int]:
        """Return the numbers of the states on disk, ascending."""
        return sorted(int(found[1]) for path in self.folder.iterdir() if (found := NAMED.fullmatch(path.name)))

    def save(self, step: int, state: bytes, notes: JsonObject) -> None:
        """Write a state, then remove older ones.

        Args:
            step: the number of the state, larger than those before it.
            state: its content.
            notes: what else belongs to it.

        Raises:
            GmlmError: E560 if it cannot be written; the earlier ones stay.
        """
        write_whole(self._place(step), pack(KIND, {"run": self.identity, "notes": notes}, {STATE: state}))
        self.saved = time.monotonic()
        for old in self.steps()[:-KEPT_STATES]:
            self._place(old).unlink(missing_ok=True)

    def latest(self) -> tuple[int, bytes, JsonObject] | None:
        """Return number, content and notes of the latest state, or None if there is none.

        A damaged state is passed over with a warning if there is another.

        Raises:
            GmlmError: E752 for a state of another run, E753 if all are damaged.
        """
        damaged = None
        for step in reversed(self.steps()):
            try:
                with opened(self._place(step)) as file:
                    entries, parts = unpack(KIND, file, self._place(step))
            except GmlmError as error:
                damaged = damaged or error
                continue
            if entries["run"] != self.identity:
                raise self._another(differing(self.identity, entries["run"]))
            if damaged is not None:
                tell(f"{damaged.diagnostics[0].message}; the run goes on from step {step}, before it", GmlmWarning)
            return step, parts[STATE], entries["notes"]
        if damaged is not None:
            raise damaged
        return None

    def clear(self) -> None:
        """Remove all states."""
        for step in self.steps():
            self._place(step).unlink(missing_ok=True)

    def _another(self, parts: list[str]) -> GmlmError:
        named = f"these differ: {', '.join(parts)}" if parts else "another version of gmlmdsl wrote it"
        help = "make the same call to go on with that run; or take another name for this one, or remove the folder"
        return fail("E752", f"`{self.folder}` holds an unfinished run of another call; {named}", help=help)

    def _place(self, step: int) -> Path:
        return self.folder / f"{step}.state"


def differing(mine: Mapping[str, object], theirs: object) -> list[str]:
    """Return the sorted names of the parts in which two runs differ.

    The list is empty if another version wrote the other run, since its parts are not known.
    """
    if not isinstance(theirs, Mapping):
        return []
    return sorted(k for k in {*mine, *theirs} if mine.get(k) != theirs.get(k))


@contextmanager
def asked_to_end(listens: bool, of_all: Callable[[int], list[int]] | None = None) -> Iterator[Callable[[], bool]]:
    """Note SIGTERM and Ctrl-C within the block, and end the process after the block.

    The context manager yields a function that returns whether a signal has arrived. `of_all`
    returns the numbers of several processes; they call the function together, and it returns
    whether a signal has arrived at any of them. A second Ctrl-C ends the process at once. The signal handlers stay
    unchanged in three cases:

    - `listens` is false;
    - the signal is ignored;
    - the thread is not the main thread, since only the main thread receives signals.
    """
    asked: list[int] = []
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    before = {n: handler for n, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    if not listens or threading.current_thread() is not threading.main_thread():
        before = {}

    def note(number: int, frame: FrameType | None) -> None:
        again, own = number in asked, before[signal.Signals(number)]
        asked.append(number)
        if number == signal.SIGINT and again and callable(own):
            own(number, frame)
        if number == signal.SIGINT and not again:
            print("what was done is being saved; Ctrl-C again ends at once", file=sys.stderr)

    def arrived() -> bool:
        if of_all is not None:
            asked.extend(number for number in of_all(asked[0] if asked else 0) if number and not asked)
        return bool(asked)

    for number in before:
        signal.signal(number, note)
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked:
        raise SystemExit(ENDED) if asked[0] == signal.SIGTERM else KeyboardInterrupt


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
