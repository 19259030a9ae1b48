"""An explanation as data: sections of words and formulas; printed as plain text or as LaTeX."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from ._notation import Notation

WIDTH = 110


@dataclass(frozen=True)
class Formula:
    """`left = first row`, further rows below it."""

    left: str
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Words:
    """A paragraph; code in backticks. `depth` sets it further in, `mark` stands before it."""

    text: str
    depth: int = 0
    mark: str = ""


@dataclass
class Section:
    """A heading and what follows."""

    title: str
    parts: list[Formula | Words] = field(default_factory=list)

    def formula(self, left: str, *rows: str) -> None:
        """Add a formula."""
        self.parts.append(Formula(left, rows))

    def words(self, text: str, depth: int = 0, mark: str = "") -> None:
        """Add a paragraph."""
        self.parts.append(Words(text, depth, mark))


def as_text(sections: Sequence[Section]) -> str:
    """For a terminal."""
    return "\n\n".join("\n".join([s.title, *(line for part in s.parts for line in _text(part))]) for s in sections) + "\n"


def _text(part: Formula | Words) -> list[str]:
    if isinstance(part, Words):
        before = "  " + "  " * part.depth + (f"{part.mark} " if part.mark else "")
        after = " " * len(before)
        return textwrap.wrap(part.text, WIDTH, initial_indent=before, subsequent_indent=after, break_long_words=False) or [""]
    lines = [f"    {part.left} = {part.rows[0]}"] if part.rows else [f"    {part.left}"]
    indent = " " * (4 + len(part.left) + 1)
    return lines + [f"{indent}{row}" for row in part.rows[1:]]


def as_latex(sections: Sequence[Section], notation: Notation) -> str:
    """For a paper: sections to paste into a document that loads amsmath, amssymb."""
    out = ["% needs \\usepackage{amsmath,amssymb}"]
    for s in sections:
        out += ["", f"\\subsection*{{{notation.prose(s.title)}}}"]
        out += [line for part in s.parts for line in _latex(part, notation)]
    return "\n".join(out) + "\n"


def _latex(part: Formula | Words, notation: Notation) -> list[str]:
    if isinstance(part, Words):
        return ["", ("\\quad " * part.depth) + (f"{part.mark} " if part.mark else "") + notation.prose(part.text), ""]
    if not part.rows:
        return ["\\begin{equation*}", f"  {part.left}", "\\end{equation*}"]
    rows = [f"  {part.left} &= {part.rows[0]}", *(f"  &\\quad {row}" for row in part.rows[1:])]
    return ["\\begin{align*}", " \\\\\n".join(rows), "\\end{align*}"]
