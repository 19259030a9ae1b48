"""An explanation as data: sections of words and formulas, printed as plain text or as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ._lines import broken_formula, wrapped
from ._notation import Notation
from .limits import WIDTH


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
