"""An explanation as data: sections of words and formulas, printed as plain text or as LaTeX.

Words and formulas are broken into lines of a width, never inside an unbreakable part.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ._notation import HARD_SPACE, Notation
from .limits import WIDTH

# A line ends before an operator, never after one, and a relation stays with both its sides.
_STAYS_BEHIND = {
    *"+−·/=≠<≤>≥∈∉∋:|",
    *("and", "or", "not", "mod", "if", "else", "for", "unless", "where", "some", "every", "log"),
}


def wrapped(text: str, width: int, before: str, least: int = 40) -> list[str]:
    """Wrap a paragraph after `before`, and indent its further lines by the width of `before`.

    Code in backticks and formulas stay on one line if they are short.

    Args:
        text: the paragraph.
        width: the number of columns.
        before: the text before the first line.
        least: the smallest number of columns. A terminal of fewer columns breaks the lines itself.
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
    """Break `left = first row` into lines, with the further rows under the first.

    A row that is too long continues on a further indented line.

    Args:
        left: the left side.
        rows: the rows; without rows `left` is the whole formula.
        width: the number of columns.
        least: the smallest number of columns.
    """
    room, start = max(width, least), " " * 4
    if not rows:
        return list(_broken(left, start, 2 * start, room))
    under = len(start) + len(left) + 1
    pad = 2 * start if under > room // 3 else " " * under
    first = _broken(f"{left} = {rows[0]}", start, pad + start, room)
    return [*first, *(line for row in rows[1:] for line in _broken(row, pad, pad + start, room))]


def _broken(text: str, first: str, further: str, width: int) -> Iterator[str]:
    """Yield the lines of one row: `first` precedes the first line, and `further` the others."""
    before = first
    while len(before) + len(text) > width:
        place = _best_break(text, width - len(before))
        if place is None:
            break
        yield before + text[:place].rstrip()
        text, before = text[place:].lstrip(), further
    yield before + text


def _best_break(text: str, room: int) -> int | None:
    """Return the last of the best places to break a line.

    Places in the first third of the line are taken only if there are no later ones. If no place
    fits in the line, the first place after it is taken.
    """
    found = list(_breaks(text))
    fitting = [(place, worse) for place, worse in found if place <= room]
    if not fitting:
        return found[0][0] if found else None
    late = [(place, worse) for place, worse in fitting if place > room // 3] or fitting
    least = min(worse for _, worse in late)
    return max(place for place, worse in late if worse == least)


def _breaks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places at which a formula may be broken, each with a penalty.

    The penalty rises with the number of open brackets. A sign is better than another space, and
    another space is better than a product.
    """
    opened: list[bool] = []  # whether each open bracket encloses the indices of an entry
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
    """Return whether the last bracket is that of `J[i, j]`, which is not broken.

    A bracket of `E[..]` is that of a mean, which may be broken.
    """
    return re.search(r"[\w\]]\[$", text) is not None and re.search(r"(^|\W)E\[$", text) is None


def _may_break(text: str, place: int) -> bool:
    last, following = text[:place].split(" ")[-1], text[place:].split(" ", 2)[1]
    return last not in _STAYS_BEHIND and following not in "=≠<≤>≥∈∉∋"


@dataclass(frozen=True)
class Formula:
    """A formula `left = first row`, with further rows below it."""

    left: str
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Words:
    """A paragraph with code in backticks; `depth` indents it, and `mark` precedes it."""

    text: str
    depth: int = 0
    mark: str = ""


@dataclass
class Section:
    """A heading with its paragraphs and formulas."""

    title: str
    parts: list[Formula | Words] = field(default_factory=list)

    def formula(self, left: str, *rows: str) -> None:
        """Add a formula."""
        self.parts.append(Formula(left, rows))

    def words(self, text: str, depth: int = 0, mark: str = "") -> None:
        """Add a paragraph, unless it is empty."""
        if text:
            self.parts.append(Words(text, depth, mark))


def as_text(sections: Sequence[Section], width: int = WIDTH) -> str:
    """Return sections for a terminal, in lines of `width` columns."""
    return "\n\n".join("\n".join(_lines(section, width)) for section in sections) + "\n"


def _lines(section: Section, width: int) -> list[str]:
    return [section.title, *(line for part in section.parts for line in _text(part, width))]


def _text(part: Formula | Words, width: int) -> list[str]:
    if isinstance(part, Formula):
        return broken_formula(part.left, part.rows, width)
    mark = f"{part.mark} " if part.mark else ""
    return wrapped(part.text, width, f"{'  ' * (part.depth + 1)}{mark}")


def as_latex(sections: Sequence[Section], notation: Notation) -> str:
    """Return sections for a paper.

    They can be pasted into a document that loads amsmath and amssymb.
    """
    out = ["% needs \\usepackage{amsmath,amssymb}"]
    for s in sections:
        out += ["", f"\\subsection*{{{notation.prose(s.title)}}}"]
        out += [line for part in s.parts for line in _latex(part, notation)]
    return "\n".join(out) + "\n"


def _latex(part: Formula | Words, notation: Notation) -> list[str]:
    if isinstance(part, Words):
        before = "\\quad " * part.depth + (f"{part.mark} " if part.mark else "")
        return ["", before + notation.prose(part.text), ""]
    if not part.rows:
        return ["\\begin{equation*}", f"  {part.left}", "\\end{equation*}"]
    rows = [f"  {part.left} &= {part.rows[0]}", *(f"  &\\quad {row}" for row in part.rows[1:])]
    return ["\\begin{align*}", " \\\\\n".join(rows), "\\end{align*}"]
