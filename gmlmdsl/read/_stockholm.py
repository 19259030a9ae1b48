"""Sequences of a Stockholm file: the format of Pfam and Rfam, in blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from .._diagnostics import fail

HEADER = re.compile(r"#\s*STOCKHOLM\s+1\.\d+")
END = "//"
EXAMPLE = "a line has a name and letters, `DYR_ECOLI/1-159  MISLIAALAV`"


def begins_stockholm(line: str) -> bool:
    """Return whether a first line is that of a Stockholm file, of whatever version."""
    return re.match(r"#\s*STOCKHOLM\b", line) is not None


def stockholm_records(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the name and the letters of each sequence, as an a2m file has them.

    Match columns become upper case letters and `-`, insertions lower case letters and `.`. A column
    is an insertion if its letters are lower case, or if it has `.` alone. In all other columns `.`
    is a gap. Lines that begin with `#` are annotations, which are left out.

    Args:
        path: the file, for messages.
        lines: its lines with their numbers, from the header on.

    Raises:
        GmlmError: E530 for a file of another form, for a second alignment, and for a column that
            has upper and lower case letters.
    """
    names, starts, texts = _sequences(path, lines)
    if not texts:
        return
    for name, start, text in zip(names, starts, texts, strict=True):
        where = f"{path}, line {start}, sequence `{name}`"
        wrong = re.search(r"[^A-Za-z.-]", text)
        if wrong:
            raise fail("E530", f"{where} has the character `{wrong[0]}`", help="sequences have letters, `-` and `.`")
        if len(text) != len(texts[0]):
            message = f"{where} has {len(text)} columns in all blocks, the first sequence has {len(texts[0])}"
            raise fail("E530", message, help="each block has one line for each sequence, all of one length")
    letters = np.frombuffer("".join(texts).encode("ascii"), np.uint8).reshape(len(texts), -1)
    for row, start, name in zip(_as_a2m(path, letters, names, starts), starts, names, strict=True):
        yield start, name, row.tobytes().decode("ascii")


def _sequences(path: Path, lines: Iterable[tuple[int, str]]) -> tuple[list[str], list[int], list[str]]:
    """Return the names of the sequences, the lines on which they begin, and their letters."""
    parts: dict[str, list[str]] = {}
    starts: dict[str, int] = {}
    is_open, ended = False, 0
    for number, line in lines:
        text = line.strip()
        if begins_stockholm(text):
            _verify_header(path, number, text, is_open or bool(ended))
            is_open = True
        elif text == END and not ended:
            ended = number
        elif text and ended:
            message = f"{path}, line {number}: there is text behind the `//` of line {ended}"
            raise fail("E530", message, help="a file has one alignment: write the others into files of their own")
        elif text and not text.startswith("#"):
            words = text.split()
            if len(words) != 2:
                message = f"{path}, line {number}: expected a name and letters, found {len(words)} words"
                raise fail("E530", message, help=EXAMPLE)
            starts.setdefault(words[0], number)
            parts.setdefault(words[0], []).append(words[1])
    if not ended:
        message = f"{path} ends without `//`, the last line of an alignment"
        raise fail("E530", message, help="the file was cut off: get it again, or add the line")
    return list(parts), list(starts.values()), ["".join(p) for p in parts.values()]


def _verify_header(path: Path, number: int, text: str, is_second: bool) -> None:
    if is_second:
        message = f"{path}, line {number}: a second alignment begins"
        raise fail("E530", message, help="a file has one alignment: write each into a file of its own")
    if HEADER.fullmatch(text) is None:
        message = f"{path}, line {number}: expected `# STOCKHOLM 1.0`, found `{text:.40}`"
        raise fail("E530", message, help="version 1 of the format is read")


def _as_a2m(path: Path, letters: np.ndarray, names: list[str], starts: list[int]) -> np.ndarray:
    """Return letters whose match columns have `-` for each gap, and whose insertions have `.`.

    Args:
        path: the file, for messages.
        letters: the character codes, shape (sequences, columns).
        names: the names of the sequences.
        starts: the lines on which they begin.
    """
    is_upper = (letters >= ord("A")) & (letters <= ord("Z"))
    is_lower = (letters >= ord("a")) & (letters <= ord("z"))
    mixed = np.flatnonzero(is_upper.any(axis=0) & is_lower.any(axis=0))
    if mixed.size:
        column = int(mixed[0])
        a, b = (int(np.argmax(found[:, column])) for found in (is_upper, is_lower))
        first, second = (f"`{chr(letters[k, column])}` in line {starts[k]} (sequence `{names[k]}`)" for k in (a, b))
        message = f"{path}: column {column + 1} has {first} and {second}"
        raise fail("E530", message, help="a match column has upper case letters, an insertion lower case ones")
    is_insertion = is_lower.any(axis=0) | (letters == ord(".")).all(axis=0)
    is_gap = (letters == ord(".")) | (letters == ord("-"))
    gaps = np.where(is_insertion, np.uint8(ord(".")), np.uint8(ord("-")))
    return np.where(is_gap, gaps, letters)
