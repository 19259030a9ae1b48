"""Lines that are longer than a model takes: split where a sentence ends, or cut, or refused."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._diagnostics import counted, fail

if TYPE_CHECKING:
    from ._vocabulary import Vocabulary

# A full stop, question or exclamation mark with what closes behind it, then white space; those of
# Chinese and Japanese need none. A run of marks is tried once, as a whole: a line of dots takes no
# longer than another one.
ENDS = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(\s+)|[。！？]+[」』”’）]*(\s*)")


@dataclass(frozen=True)
class Segments:
    """A line as the model reads it.

    Attributes:
        pieces: of each part, the end mark last; no part for an empty line.
        joints: what stood between the parts, one fewer than those.
        cut: parts whose end was cut off.
    """

    pieces: tuple[tuple[int, ...], ...]
    joints: tuple[str, ...] = ()
    cut: int = 0


def lines_cut(lines: int) -> str:
    """What is said of so many lines with parts that are cut."""
    return f"{counted(lines, 'line')} lost the end of a sentence that is longer than the model takes"


def sentences_in(line: str) -> tuple[list[str], list[str]]:
    """The sentences of a line, and what stands between them."""
    parts, joints, start = [], [], 0
    for found in ENDS.finditer(line):
        space = found[1] if found[1] is not None else found[2]
        end = found.end() - len(space)
        if found.end() >= len(line):
            break
        parts.append(line[start:end])
        joints.append(space)
        start = found.end()
    return [*parts, line[start:]], joints


def joined_text(texts: Sequence[str], joints: Sequence[str]) -> str:
    """Translations of sentences with what stood between these; for nothing a space, but behind wide letters, as Chinese has them."""
    found = texts[0]
    for joint, text in zip(joints, texts[1:], strict=True):
        space = " " if found and unicodedata.east_asian_width(found[-1]) not in ("W", "F") else ""
        found += (joint or space) + text
    return found


def segments(line: str, vocabulary: Vocabulary, cells: int, number: int, cut: bool) -> Segments:
    """A line whole where it fits, else a part for each of its sentences: what was trained on lines of a sentence drops others.

    Args:
        line: text.
        vocabulary: of its pieces.
        cells: how many pieces a part may have, the end mark among them.
        number: of the line, from 1, for messages.
        cut: whether a sentence that does not fit loses its end.

    Raises:
        GmlmError: E582 for a sentence that does not fit.
    """
    if not line.strip():
        return Segments(())
    whole = vocabulary.encode([line])[0]
    if len(whole) <= cells:
        return Segments((tuple(whole),))
    parts, joints = sentences_in(line)
    encoded = vocabulary.encode(parts)
    over = next((len(pieces) for pieces in encoded if len(pieces) > cells), None)
    if over is not None and not cut:
        message = f"line {number} has a sentence of {over:,} pieces, and the model takes {cells - 1:,} and an end mark"
        raise fail("E582", message, help="split it, or allow that its end is cut off (`--cut`, `cut=True`)")
    found = tuple(tuple(pieces) if len(pieces) <= cells else (*pieces[: cells - 1], pieces[-1]) for pieces in encoded)
    return Segments(found, tuple(joints), sum(len(pieces) > cells for pieces in encoded))
