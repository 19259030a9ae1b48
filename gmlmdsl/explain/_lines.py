"""Breaks words and formulas into lines of a width, never inside a part that is read as one."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from ._notation import HARD_SPACE

# A line ends before an operator, never behind one, and a relation stays with both its sides.
_STAYS_BEHIND = {
    *"+−·/=≠<≤>≥∈∉∋:|",
    *("and", "or", "not", "mod", "if", "else", "for", "unless", "where", "some", "every", "log"),
}


def wrapped(text: str, width: int, before: str, least: int = 40) -> list[str]:
    """A paragraph behind `before`, under which its further lines are set in.

    Code in backticks and formulas stay on one line where they are short. A terminal of fewer
    columns than `least` breaks the lines itself.
    """
    room = max(width, least)
    held = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", HARD_SPACE), text)
    held = re.sub(r"[^ ]+", lambda part: _released(part[0], room * 2 // 3), held)
    lines = textwrap.wrap(
        held,
        room,
        initial_indent=before,
        subsequent_indent=" " * len(before),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(HARD_SPACE, " ") for line in lines] or [""]


def _released(part: str, most: int) -> str:
    return part.replace(HARD_SPACE, " ") if len(part) > most else part


def broken_formula(left: str, rows: Sequence[str], width: int, least: int = 40) -> list[str]:
    """`left = first row`, the further rows under it; what is too long goes on further in."""
    room, start = max(width, least), " " * 4
    if not rows:
        return list(_broken(left, start, 2 * start, room))
    under = len(start) + len(left) + 1
    pad = 2 * start if under > room // 3 else " " * under
    first = _broken(f"{left} = {rows[0]}", start, pad + start, room)
    return [*first, *(line for row in rows[1:] for line in _broken(row, pad, pad + start, room))]


def _broken(text: str, first: str, further: str, width: int) -> Iterator[str]:
    """The lines of one row: `first` stands before the first, `further` before the others."""
    before = first
    while len(before) + len(text) > width:
        place = _best_break(text, width - len(before))
        if place is None:
            break
        yield before + text[:place].rstrip()
        text, before = text[place:].lstrip(), further
    yield before + text


def _best_break(text: str, room: int) -> int | None:
    """The last of the best places in the line but its first third, or there, or behind it."""
    found = list(_breaks(text))
    fitting = [(place, worse) for place, worse in found if place <= room]
    if not fitting:
        return found[0][0] if found else None
    late = [(place, worse) for place, worse in fitting if place > room // 3] or fitting
    least = min(worse for _, worse in late)
    return max(place for place, worse in late if worse == least)


def _breaks(text: str) -> Iterator[tuple[int, int]]:
    """The places at which a formula may be broken, with how bad each is.

    The fewer brackets are open the better; a sign is better than another space, and this than
    a product.
    """
    opened: list[bool] = []  # whether each open bracket holds the indices of an entry
    quoted = False
    for place, character in enumerate(text):
        quoted ^= character == '"'
        if quoted:
            continue
        if character in "([{⌊":
            opened.append(_opens_entry(text[: place + 1]))
        elif character in ")]}⌋" and opened:
            opened.pop()
        if any(opened) or place == 0:
            continue
        if character == " " and _may_break(text, place):
            yield place, 2 * len(opened) + (text[place + 1] not in "+−")
        if character == "·":
            yield place, 2 * len(opened) + 2


def _opens_entry(text: str) -> bool:
    """Whether the last bracket is that of `J[i, j]`, which is not broken; `E[..]` is a mean."""
    return re.search(r"[\w\]]\[$", text) is not None and re.search(r"(^|\W)E\[$", text) is None


def _may_break(text: str, place: int) -> bool:
    last, following = text[:place].split(" ")[-1], text[place:].split(" ", 2)[1]
    return last not in _STAYS_BEHIND and following not in "=≠<≤>≥∈∉∋"
