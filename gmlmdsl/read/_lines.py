"""Lines of a text file, read one by one: what is too large, or no text, is refused with its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .._diagnostics import fail
from .._text_lines import decoded_line, raw_lines
from ._array_files import verify_readable

MOST_TEXT = 1 << 28  # bytes of a file
KINDS = "data files are .csv, .a2m, .npy or .npz"


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, with their ends.

    Raises:
        GmlmError: E521 for what cannot be read, E523 for a file or a line above the limit, E524 for bytes that are no UTF-8 text.
    """
    verify_readable(path)
    _verify_size(path.stat().st_size, path)
    with path.open("rb") as file:
        total = 0
        for number, line in enumerate(raw_lines(file, path, "is it one table or alignment, with a line for each row?"), 1):
            total += len(line)
            _verify_size(total, path)  # a pipe has no size beforehand
            yield decoded_line(line, path, number, KINDS)


def _verify_size(size: int, path: Path) -> None:
    if size > MOST_TEXT:
        message = f"{path} has {size / 2**20:,.0f} MiB of text, more than the limit of {MOST_TEXT / 2**20:,.0f}"
        raise fail("E523", message, help="save the data as .npz, or split the file")
