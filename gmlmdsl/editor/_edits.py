"""Changes of a text: renaming, formatting, and the fixes of diagnostics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .._diagnostics import Diagnostic, Span, fail
from ..syntax import RESERVED, format_tree
from ._document import Document
from ._names import Declaration, Occurrence, is_file

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
        GmlmError: E507 if there is none.
    """
    found = document.names.at(offset)
    if found is None:
        raise fail("E507", "there is no name to rename here", help="place the pointer on a name that the program declares")
    return found


def uses(texts: Iterable[Document], declaration: Declaration) -> list[Span]:
    """Return the places of a declaration in some texts, which may import its file."""
    own = declaration.span.source.path
    can_mean_it = [t for t in texts if "import" in t.text or is_file(t.path, own)]
    return [o.span for t in can_mean_it if declaration.name in t.text for o in t.names.of(declaration)]


def references(texts: Sequence[Document], offset: int, declared: bool) -> list[Span]:
    """Return the places in all texts of the name at a place of the first text; none if there is no name.

    Args:
        texts: the text with the place, and the other texts of the workspace.
        offset: the place.
        declared: whether the place of the declaration is among them.
    """
    found = texts[0].names.at(offset)
    if found is None:
        return []
    place = found.declaration.span
    spans = uses(texts, found.declaration)
    return [s for s in spans if declared or s.start != place.start or not is_file(s.source.path, place.source.path)]


def rename(document: Document, offset: int, new: str, others: Sequence[Document] = ()) -> list[Edit]:
    """Return the edits that give the name at a place, and all its uses, another name.

    Args:
        document: the text with the name.
        offset: its place.
        new: the new name.
        others: the other texts of the workspace. The file that declares the name must be among
            them if it is another one. All uses in them are renamed too.

    Raises:
        GmlmError: E507 if there is no such name, if its file is unknown, if the new one is no name,
            or if it is visible where the old one is used.
    """
    declaration = renamed_place(document, offset).declaration
    if not any(d.is_own(declaration.span) for d in (document, *others)):
        path = declaration.span.source.path
        raise fail("E507", f"`{declaration.name}` is declared in {path}", help="open the folder of that file and of all that import it")
    if not NAME.fullmatch(new) or new in RESERVED:
        help = "a name has letters, digits and `_`, begins with no digit and is not an operator"
        raise fail("E507", f"`{new}` is not a name", help=help)
    for text in (document, *(d for d in others if new in d.text)):
        names = [text.names.visible_at(s.start, text.parsed) for s in uses([text], declaration)]
        of_file = text.names.file.get(declaration.name)
        names += [text.names.file] * (of_file is not None and of_file.is_same(declaration))
        taken = next((n[new] for n in names if new in n), None)
        if taken is not None and not taken.is_same(declaration):
            raise fail("E507", f"`{new}` is taken: `{taken.text.splitlines()[0]}`", help="choose another name")
    return [Edit(span, new) for span in uses((document, *others), declaration)]


def formatted(document: Document) -> list[Edit]:
    """Return the edit that writes a text in its canonical form.

    The line ends are those of the first line. There is no edit if the text has syntax errors.
    """
    if document.has_syntax_errors:
        return []
    end = "\r\n" * document.text.partition("\n")[0].endswith("\r") or "\n"
    text = format_tree(document.parsed).replace("\n", end)
    return [] if text == document.text else [Edit(Span(document.source, 0, len(document.text)), text)]


def titled(edits: Sequence[Edit]) -> str:
    """Return what the edits of one fix do, such as "Replace `hh` by `h`"; all write the same text."""
    old, new = (" ".join(text.split()) for text in (edits[0].span.text, edits[0].text))
    old, new = (f"`{text if len(text) <= MOST_TITLE else f'{text[:MOST_TITLE]} ..'}`" if text else "" for text in (old, new))
    words = f"Replace {old} by {new}" if old and new else f"Insert {new}" if new else f"Remove {old}"
    return f"{words} in {len(edits)} places" if len(edits) > 1 else words


def fixes(document: Document, start: int, end: int) -> Iterator[tuple[Diagnostic, list[Edit]]]:
    """Yield the diagnostics between two places that one edit mends, with the edits."""
    for d in document.mendable(start, end):
        if d.fix is not None:
            yield d, [Edit(place, d.fix.text) for place in d.fix.places]
