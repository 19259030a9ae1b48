"""The log of a training run: JSON lines for transferred losses and for measurements, each once."""

from __future__ import annotations

import json
from pathlib import Path

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
