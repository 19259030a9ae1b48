"""Signals that request the end of the process: a long run saves its state before it ends."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDED = 128 + signal.SIGTERM  # The exit status of a process that SIGTERM ended.


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
