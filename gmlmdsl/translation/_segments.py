"""Lines of text in the form that a model reads: whole, split at ends of sentences, or cut."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._diagnostics import counted, fail

if TYPE_CHECKING:
    from ._vocabulary import Vocabulary

# A sentence ends with a full stop, question or exclamation mark, optional closing characters, and
# white space. Chinese and Japanese marks need no white space. A run of marks is matched once, as a
# whole, so that a line of dots takes no longer than any other line.
ENDS = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+(\s+)|[。！？]+[」』”’）]*(\s*)")


@dataclass(frozen=True)
class Segments:
    """A line in the form that the model reads.

    Attributes:
        pieces: the subword tokens of each part, including the end mark; an empty line has no part.
        joints: the text between successive parts, one entry fewer than there are parts.
        cut: the number of parts that were cut.
    """

    pieces: tuple[tuple[int, ...], ...]
    joints: tuple[str, ...] = ()
    cut: int = 0


def lines_cut(lines: int) -> str:
    """Return the message about a number of lines with parts that were cut."""
    return f"{counted(lines, 'line')} lost the end of a sentence that is longer than the model takes"


def sentences_in(line: str) -> tuple[list[str], list[str]]:
    """Return the sentences of a line, and the white space between them."""
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
    """Return translated sentences, joined by the white space between the source sentences.

    If there is none, a blank joins them, except after wide letters such as Chinese ones.
    """
    found = texts[0]
    for joint, text in zip(joints, texts[1:], strict=True):
        space = " " if found and unicodedata.east_asian_width(found[-1]) not in ("W", "F") else ""
        found += (joint or space) + text
    return found


def segments(line: str, vocabulary: Vocabulary, cells: int, number: int, cut: bool) -> Segments:
    """Split a line that does not fit into sentences; return any other line as one part.

    Lines that fit stay whole. A model that was trained on single sentences drops all but one of
    several.

    Args:
        line: the text.
        vocabulary: the vocabulary of its subword tokens.
        cells: the maximum number of subword tokens of a part, including the end mark.
        number: the number of the line, counted from 1, for messages.
        cut: whether a sentence that does not fit is cut.

    Raises:
        GmlmError: E582 for a sentence that does not fit, unless `cut` is true.
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
