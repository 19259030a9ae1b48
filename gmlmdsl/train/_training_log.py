"""The log of a training run as JSON lines, and its progress bar."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .._diagnostics import fail
from .._types import JsonObject
from ..files import write_whole


class TrainingLog:
    """A log that appends lines to a file; without a path it writes nothing.

    Args:
        path: the file.
        first: the step at which the run resumes. Later lines, which an interrupted run left, are
            removed.
        writes: whether this process writes the file; of several processes only one does.

    Raises:
        GmlmError: E560 for a file that cannot be written or that is not such a log.
    """

    def __init__(self, path: str | Path | None, first: int, writes: bool = True):
        self.path, self.writes = None if path is None else Path(path), writes
        if writes and self.path is not None and self.path.exists():
            self._cut(self.path, first)

    def _cut(self, path: Path, first: int) -> None:
        """Keep the lines up to step `first`; an incomplete last line is removed too."""
        try:
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        except (OSError, UnicodeDecodeError) as error:
            raise fail("E560", f"cannot write `{path}`: {getattr(error, 'strerror', None) or 'it is not text'}") from None
        steps = [_step_of(line) for line in lines]
        if None in steps:
            message = f"`{path}` is not a log of a training: its line {steps.index(None) + 1} is not one, and it would be lost"
            raise fail("E560", message, help="name another file as `log`")
        kept = [line for line, step in zip(lines, steps, strict=True) if step is not None and step <= first]
        write_whole(path, "".join(f"{line}\n" for line in kept).encode())

    def note(self, line: JsonObject) -> None:
        """Append a line.

        Raises:
            GmlmError: E560 if the line cannot be written.
        """
        if self.path is None or not self.writes:
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise fail("E560", f"cannot write `{self.path}`: {error.strerror or error}") from None


def _step_of(line: str) -> int | None:
    try:
        step = json.loads(line).get("step")
    except (ValueError, AttributeError):
        return None
    return step if isinstance(step, int) else None


class TrainingBar:
    """A progress bar over steps, shown only if `show` is true.

    Args:
        total: the number of steps of the run.
        first: the step at which the run resumes.
        widths: the number of widths of rows; a program is compiled for each.
        show: whether to show the bar.
    """

    def __init__(self, total: int, first: int, widths: int, show: bool):
        self.total, self.first, self.widths, self.show = total, first, widths, show
        self.compiled: set[int] = set()
        self._bar: Any = None
        self._task: Any = None
        self._loss = self._shown = ""

    def __enter__(self) -> TrainingBar:
        if self.show:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("training"), BarColumn(), TextColumn("{task.completed}/{task.total} steps"), TimeRemainingColumn())
            self._bar = Progress(*columns, TextColumn("{task.fields[note]}"))
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total, completed=self.first, note="")
        return self

    def begins(self, width: int) -> None:
        """Announce a batch of rows with `width` cells.

        The first batch of a width waits for compilation.
        """
        if width in self.compiled:
            self._say(self._loss)
        else:
            self.compiled.add(width)
            self._say(f"compiling for rows of {width} cells, {len(self.compiled)} of {self.widths} widths")

    def measures(self) -> None:
        """Announce a measurement of the validation loss, which needs programs of its own."""
        self._say("measuring the loss of validation")

    def moved(self, done: int, loss: float, speed: float) -> None:
        """Update the bar after `done` steps; `speed` is in cells per second."""
        self._loss = f"loss {loss:.4g}, {speed:,.0f} cells/s"
        self._say(self._loss, completed=done)

    def _say(self, note: str, **more: int) -> None:
        if self._bar is not None and (more or note != self._shown):
            self._bar.update(self._task, note=note, **more)
        self._shown = note

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()
