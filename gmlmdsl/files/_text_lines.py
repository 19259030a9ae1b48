"""Lines of UTF-8 text, read one by one.

A line that is too long, or is not text, raises an error that names its place.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import IO

from .._diagnostics import fail
from .limits import MOST_LINE


def opened_text(path: Path) -> IO[bytes]:
    """Open a text file for reading bytes.

    A file whose name ends in .gz is unpacked as it is read.
    """
    import gzip

    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # pyright: ignore[reportReturnType]


def raw_lines(file: IO[bytes], name: object, help: str) -> Iterator[bytes]:
    r"""Yield the lines of a file, each with the \n at its end, and never hold more than one.

    Args:
        file: a file that is opened for bytes.
        name: how messages call it.
        help: the suggested fix if a line is too long.

    Raises:
        GmlmError: E523 for a line above the limit.
    """
    for number in count(1):
        raw = file.readline(MOST_LINE + 1)
        if not raw:
            return
        if len(raw) > MOST_LINE:
            raise fail("E523", f"{name}, line {number} has more than {MOST_LINE:,} bytes, the limit of a line", help=help)
        yield raw


def decoded_line(line: bytes, name: object, number: int, help: str) -> str:
    """Return the text of a line, without a byte order mark at the beginning of the first line.

    Args:
        line: its bytes.
        name: how messages call the file.
        number: the number of the line, from 1.
        help: the suggested fix if the line is not text.

    Raises:
        GmlmError: E119 for bytes that are not UTF-8 text.
    """
    if b"\0" in line:
        utf16 = number == 1 and line[:2] in (b"\xff\xfe", b"\xfe\xff")
        why = "it looks like UTF-16: save it as UTF-8" if utf16 else f"{help}; save text as UTF-8"
        raise fail("E119", f"{name} is not text: there is a zero byte in line {number}", help=why)
    mark = len(BOM_UTF8) if number == 1 and line.startswith(BOM_UTF8) else 0
    try:
        return line[mark:].decode("utf-8")
    except UnicodeDecodeError as error:
        at = mark + error.start
        message = f"{name} is not text: in line {number}, byte 0x{line[at]:02x} at place {at + 1} is not UTF-8"
        raise fail("E119", message, help=f"{help}; save text as UTF-8") from None
