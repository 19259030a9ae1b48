"""The progress bar of a training run: steps, loss, cells per second, time left, compilation."""

from __future__ import annotations

from typing import Any


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
