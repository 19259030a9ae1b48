"""What a person sees of work that takes a while: bars on the standard error, none where nobody watches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from ._diagnostics import truth

_WITHIN: ContextVar[bool] = ContextVar("within work that is waited for", default=False)
PATIENCE = 1.0  # seconds before a bar appears for work whose steps cannot be counted


def shows_progress(wanted: bool | None) -> bool:
    """Whether to show a bar: as wanted, or where a person watches.

    Raises:
        GmlmError: E507 for what is neither true nor false.
    """
    if wanted is not None:
        return truth("progress", wanted)
    return sys.stderr.isatty() and not os.environ.get("CI")


def bar(*columns: Any, show: bool = True) -> Any:
    """A `rich.progress.Progress` of these columns on the standard error, so that what is printed can be piped."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), disable=not show)


def tracked(steps: range, text: str, show: bool) -> Iterator[int]:
    """Steps, with a bar while they last."""
    with bar(show=show) as shown:
        yield from shown.track(steps, description=text)


@contextmanager
def waiting(text: str, show: bool) -> Iterator[None]:
    """A bar for work whose steps cannot be counted, with the time since its start; it appears after a second and goes with the work.

    Work within other work shows none: what was called decides for all that it calls.
    """
    inner = _WITHIN.get()
    token = _WITHIN.set(True)
    try:
        with _bar_after_a_while(text) if show and not inner else nullcontext():
            yield
    finally:
        _WITHIN.reset(token)


@contextmanager
def _bar_after_a_while(text: str) -> Iterator[None]:
    from threading import Timer

    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    shown = bar(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    shown.live.transient = True
    shown.add_task(text, total=None)
    later = Timer(PATIENCE, shown.start)
    later.daemon = True
    later.start()
    try:
        yield
    finally:
        later.cancel()
        later.join()  # it may be starting just now
        shown.stop()
