"""Progress bars for long work, on the standard error if it is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ._diagnostics import truth

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

_WITHIN: ContextVar[bool] = ContextVar("within work that is waited for", default=False)
PATIENCE = 1.0  # Seconds until a bar appears for work whose steps cannot be counted.


def shows_progress(wanted: bool | None) -> bool:
    """Return whether to show a bar: as `wanted`, otherwise if the standard error is a terminal.

    Without `wanted`, no bar is shown if the environment variable `CI` is set.

    Raises:
        GmlmError: E507 for a value that is neither true nor false.
    """
    if wanted is not None:
        return truth("progress", wanted)
    return sys.stderr.isatty() and not os.environ.get("CI")


def bar(*columns: ProgressColumn, show: bool = True) -> Progress:
    """Return a `rich.progress.Progress` of these columns on the standard error.

    The standard output thus contains only results, which can be piped.
    """
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), disable=not show)


def tracked(steps: range, text: str, show: bool) -> Iterator[int]:
    """Yield the steps, and show a bar meanwhile."""
    with bar(show=show) as shown:
        yield from shown.track(steps, description=text)


@contextmanager
def waiting(text: str, show: bool) -> Iterator[None]:
    """Show a bar with the elapsed time for work whose steps cannot be counted.

    The bar appears after a second and disappears when the work ends. Work within other work shows
    no bar: the outer call decides for all its inner calls.
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
        later.join()  # The timer may be starting the bar at this moment.
        shown.stop()


class DrawsBar:
    """Progress bar over draws with time left, log p and flip rate; does nothing unless shown.

    Args:
        total: the number of draws.
        show: whether the bar is shown.
        done: the number of draws that an earlier run has made.
    """

    def __init__(self, total: int, show: bool, done: int = 0):
        self.total, self.show, self.done, self.progress = total, show, done, None

    def __enter__(self) -> Callable[[int, dict[str, Any]], None]:
        if not self.show:
            return lambda count, out: None
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

        done, note = TextColumn("{task.completed}/{task.total} draws"), TextColumn("{task.fields[note]}")
        progress = self.progress = bar(TextColumn("sampling"), BarColumn(), done, TimeRemainingColumn(), note)
        progress.start()
        task = progress.add_task("", total=self.total, completed=self.done, note="")

        def moved(count: int, out: dict[str, Any]) -> None:
            rate = out["info"].changed.sum() / max(out["info"].drawn.sum(), 1)
            score = "" if out["score"] is None else f"log p {out['score'][-1].mean():.4g}, "
            note = f"{score}flip rate {rate:.2g}"
            progress.update(task, advance=count, note=note)

        return moved

    def __exit__(self, *exc: object) -> None:
        if self.progress is not None:
            self.progress.stop()
