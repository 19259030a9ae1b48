"""Whether the process was asked to end: what trains then saves what it has before it does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDED = 128 + signal.SIGTERM  # the status of a process that SIGTERM ended


@contextmanager
def asked_to_end(listens: bool) -> Iterator[Callable[[], bool]]:
    """Within, SIGTERM is noted, and ends the process when what is within is done.

    It is as it was where nothing listens, where it is ignored, and in another thread than the main one, which meets no signal.
    """
    before = signal.getsignal(signal.SIGTERM)
    if not listens or threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield lambda: False
        return
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGTERM, before)
    if asked:
        raise SystemExit(ENDED)
