"""Changes of a text: renaming, formatting, and the fixes of diagnostics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .._diagnostics import Diagnostic, GmlmError, Span, fail
from ..syntax import RESERVED, format_source
from ._document import Document
from ._names import Occurrence

MOST_TITLE = 40  # characters of a text in the title of a fix
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Edit:
    """The text that replaces the text of a span."""

    span: Span
    text: str


def renamed_place(document: Document, offset: int) -> Occurrence:
    """Return the name at a place that may be renamed.

    Raises:
        GmlmError: E507 if there is none, or if another file declares it.
    """
    found = document.names.at(offset)
    if found is None:
        raise fail("E507", "there is no name to rename here", help="place the pointer on a name that the program declares")
    if not document.is_own(found.declaration.span):
        path = found.declaration.span.source.path
        raise fail("E507", f"`{found.declaration.name}` is declared in {path}", help="rename it there, and in all files that import it")
    return found


def rename(document: Document, offset: int, new: str) -> list[Edit]:
    """Return the edits that give the name at a place, and all its uses in the text, another name.

    Raises:
        GmlmError: E507 if there is no such name, if the new one is no name, or if it is visible
            where the old one is used.
    """
    found = renamed_place(document, offset)
    if not NAME.fullmatch(new) or new in RESERVED:
        help = "a name has letters, digits and `_`, does not begin with a digit, and is no operator"
        raise fail("E507", f"`{new}` is not a name", help=help)
    uses = document.names.of(found.declaration)
    taken = next((n[new] for u in uses if new in (n := document.names.visible_at(u.span.start, document.parsed))), None)
    if taken is not None and taken != found.declaration:
        raise fail("E507", f"`{new}` is taken: `{taken.text.splitlines()[0]}`", help="choose another name")
    return [Edit(u.span, new) for u in uses]


def formatted(document: Document) -> list[Edit]:
    """Return the edit that writes a text in its canonical form; none if it has syntax errors."""
    try:
        text = format_source(document.text, document.path)
    except GmlmError:
        return []
    return [] if text == document.text else [Edit(Span(document.source, 0, len(document.text)), text)]


def titled(edits: Sequence[Edit]) -> str:
    """Return what the edits of one fix do, such as "Replace `hh` by `h`"; all write the same text."""
    old, new = (" ".join(text.split()) for text in (edits[0].span.text, edits[0].text))
    old, new = (f"`{text if len(text) <= MOST_TITLE else f'{text[:MOST_TITLE]} ..'}`" if text else "" for text in (old, new))
    words = f"Replace {old} by {new}" if old and new else f"Insert {new}" if new else f"Remove {old}"
    return f"{words} in {len(edits)} places" if len(edits) > 1 else words


def fixes(document: Document, start: int, end: int) -> Iterator[tuple[Diagnostic, list[Edit]]]:
    """Yield the diagnostics between two places that one edit mends, with the edits."""
    for d in document.diagnostics:
        if d.fix is not None and document.is_own(d.span) and d.span is not None and d.span.start <= end and start <= d.span.end:
            yield d, [Edit(place, d.fix.text) for place in d.fix.places]
