"""The latest states of a long run in a folder: each is written completely or not at all.

A run that was killed goes on from the latest state. Each file has a hash, and everything that the
run depends on: a damaged file is passed over, and a file of another run raises an error.
"""

from __future__ import annotations

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
from .limits import KEPT_STATES, MOST_ARCHIVE_BYTES, SAVED_EVERY

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
