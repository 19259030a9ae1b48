"""Lines of a text file, read one by one: what is too large, or no text, is refused with its place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from .._diagnostics import fail
from ._array_files import verify_readable

MOST_TEXT = 1 << 28  # bytes of a file
MOST_LINE = 1 << 24  # bytes of a line


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, with their ends.

    Raises:
        GmlmError: E521 for what cannot be read, E523 for a file or a line above the limit, E524 for bytes that are no UTF-8 text.
    """
    verify_readable(path)
    _verify_size(path.stat().st_size, path)
    with path.open("rb") as file:
        total = 0
        for number in count(1):
            line = file.readline(MOST_LINE + 1)
            if not line:
                return
            total += len(line)
            _verify_size(total, path)  # a pipe has no size beforehand
            if len(line) > MOST_LINE:
                help = "is it one table or alignment, with a line for each row?"
                raise fail("E523", f"{path}, line {number} has more than {MOST_LINE:,} bytes, the limit of a line", help=help)
            yield _decoded(line, path, number)


def _verify_size(size: int, path: Path) -> None:
    if size > MOST_TEXT:
        message = f"{path} has {size / 2**20:,.0f} MiB of text, more than the limit of {MOST_TEXT / 2**20:,.0f}"
        raise fail("E523", message, help="save the data as .npz, or split the file")


def _decoded(line: bytes, path: Path, number: int) -> str:
    if b"\0" in line:
        utf16 = number == 1 and line[:2] in (b"\xff\xfe", b"\xfe\xff")
        help = "it looks like UTF-16: save it as UTF-8" if utf16 else "data files are .csv, .a2m, .npy or .npz"
        raise fail("E524", f"{path} is not text: there is a zero byte in line {number}", help=help)
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        message = f"{path} is not text: in line {number}, byte 0x{line[error.start]:02x} is not UTF-8"
        raise fail("E524", message, help="data files are .csv, .a2m, .npy or .npz; save text as UTF-8") from None
