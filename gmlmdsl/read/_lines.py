"""Lines of a text file, read one by one.

A file that is too large, or is not text, raises an error that names the place.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from .._diagnostics import fail
from ..files import decoded_line, opened_text, raw_lines
from ._array_files import verify_readable
from .limits import MOST_TEXT, MOST_UNPACKED, SURE_UNPACKED_TEXT

KINDS = "data files are .csv, .a2m or .sto, packed by gzip (.csv.gz) or not, .parquet, .npy or .npz"


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file, with their line ends.

    Raises:
        GmlmError: E520 for a damaged file; E120 for a file that cannot be read; E523 for a file or
            a line above the limit; E119 for bytes that are not UTF-8 text.
    """
    verify_readable(path)
    size = path.stat().st_size
    _verify_size(size, path)
    try:
        if is_packed(path):
            _verify_unpacked(path, size, max(SURE_UNPACKED_TEXT, MOST_UNPACKED * size))
        with opened_text(path) as file:
            total = 0
            for number, line in enumerate(raw_lines(file, path, "is it one table or alignment, with a line for each row?"), 1):
                total += len(line)
                # The size of a pipe or a packed file is not known beforehand.
                _verify_size(total, path)
                yield decoded_line(line, path, number, KINDS)
    except gzip.BadGzipFile:
        raise fail("E520", f"{path} is not packed by gzip", help="leave `.gz` out of its name") from None
    except (OSError, EOFError, zlib.error) as error:  # gzip raises EOFError for a truncated file.
        raise fail("E520", f"{path} is damaged: {getattr(error, 'strerror', None) or error}") from None


def _verify_unpacked(path: Path, size: int, most: int) -> None:
    """Raise E523, before a line is parsed, if a file unpacks to far more bytes than any table."""
    with opened_text(path) as file:
        total = 0
        while block := file.read(1 << 20):
            total += len(block)
            _verify_size(total, path)
            if total > most:
                message = f"{path} has {size:,} bytes and unpacks to more than {most:,}"
                raise fail("E523", message, help="unpack it yourself where that is right")


def is_packed(path: Path) -> bool:
    """Return whether a file is unpacked as it is read, which is done only for gzip."""
    return path.suffix.lower() == ".gz"


def ending_of(path: Path) -> str:
    """Return the extension that states a file's content, such as `.csv`, whether packed or not."""
    return (path.with_suffix("") if is_packed(path) else path).suffix.lower()


def _verify_size(size: int, path: Path) -> None:
    if size > MOST_TEXT:
        message = f"{path} has {size / 2**20:,.0f} MiB of text, more than the limit of {MOST_TEXT / 2**20:,.0f}"
        raise fail("E523", message, help="save the data as .npz, or split the file")


def text_of_file(path: Path, most: int, code: str) -> str:
    """Return the text of a file, with plain line ends and without a byte order mark.

    Args:
        path: the file.
        most: the most characters that it may have.
        code: the error code of a larger file.

    Raises:
        GmlmError: `code` for a file above the limit; otherwise as `lines_of`.
    """
    found: list[str] = []
    total = 0
    for line in lines_of(path):
        total += len(line)
        if total > most:
            message = f"{path} has more than {most:,} characters of text, the limit"
            raise fail(code, message, help="split it into smaller files")
        found.append(line.replace("\r\n", "\n"))
    return "".join(found)
