"""A text that is open in an editor: its tree, names, faults, and places by line and column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from .._diagnostics import Diagnostic, GmlmError, Source, Span
from ..program import ParsedText, Program, checker_of, clean_fixes
from ..syntax import Texts, parse_with_errors, tree
from ._names import NameTable, is_file

if TYPE_CHECKING:
    from ..graph import Lowered
    from ..plan import Kept


@dataclass(frozen=True)
class Place:
    """A place in a text: the line, and the column in units of UTF-16, both counted from 0."""

    line: int
    column: int


class Document:
    """A text in an editor.

    Attributes:
        path: the file, from which imports are read; it need not exist.
        text: the text as it stands in the editor.

    Args:
        before: an earlier version of the text. Models that did not change are not bound again.
        texts: the texts of all open files, by their real paths. Imports are read from these first.
    """

    def __init__(self, path: str, text: str, before: Document | None = None, texts: Texts = None):
        self.path, self.text, self._texts = path, text, texts
        self.source = Source(path, text)
        self._tried: dict[Diagnostic, Diagnostic] = {}
        self._kept: Kept = {} if before is None or before.path != path else dict(before._kept)

    @cached_property
    def _parsed(self) -> ParsedText:
        return parse_with_errors(self.text, self.path)

    @property
    def parsed(self) -> tree.SyntaxTree:
        """The tree of the statements that can be parsed."""
        return self._parsed[0]

    @property
    def has_syntax_errors(self) -> bool:
        """Whether some of the text cannot be parsed."""
        return bool(self._parsed[1])

    @cached_property
    def names(self) -> NameTable:
        """The names of the text, with their declarations."""
        return NameTable(self.parsed, self._texts)

    @cached_property
    def _check(self) -> Callable[[Source], Program]:
        return checker_of(self.path, self._parsed, self._texts)

    @cached_property
    def _checked(self) -> tuple[Program | None, tuple[Diagnostic, ...]]:
        try:
            program = self._check(self.source)
        except GmlmError as error:
            return None, error.diagnostics
        return program, program.warnings

    @property
    def program(self) -> Program | None:
        """The checked program, or None if its text has errors."""
        return self._checked[0]

    @cached_property
    def _bound(self) -> tuple[tuple[Diagnostic, ...], dict[str, Lowered]]:
        if self.program is None or not self.program.models:
            return (), {}
        from ..plan import check_bound

        found = check_bound(self.program, {}, self._kept)[0]
        return found, {name: of for name, (_, of) in self._kept.items()}

    @property
    def text_diagnostics(self) -> tuple[Diagnostic, ...]:
        """The faults and warnings that the text alone shows, without binding any input."""
        return self._checked[1]

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All faults and warnings, also those that binding the known inputs shows.

        Their fixes are not tried.
        """
        return (*self._checked[1], *self._bound[0])

    def mendable(self, start: int, end: int) -> list[Diagnostic]:
        """Return the diagnostics between two places of the text that may have a fix.

        The fixes of faults are tried here: each trial checks the whole text again. A fix that
        does not mend its fault, or adds another one, is left out.
        """
        near = [d for d in self.diagnostics if d.fix and self._touches(d.span, start, end)]
        if self.program is not None:
            return near
        new = [d for d in near if d not in self._tried]
        mended = clean_fixes(self._check, self.source, self.diagnostics, new)
        self._tried |= zip(new, mended, strict=True)
        return [self._tried[d] for d in near]

    @property
    def lowered(self) -> dict[str, Lowered]:
        """The models without faults, by name, with the parts whose sizes the defaults of inputs determine."""
        return self._bound[1]

    def place(self, offset: int) -> Place:
        """Return the place of a character."""
        line, column = self.source.position(min(offset, len(self.text)))
        start = offset - column + 1
        units = self.text[start:offset].encode("utf-16-le", "surrogatepass")
        return Place(line - 1, len(units) // 2)

    def offset(self, place: Place) -> int:
        """Return the number of the character at a place; the end of the line if it is shorter."""
        lines = self.text.split("\n")
        if place.line >= len(lines):
            return len(self.text)
        before = sum(len(line) + 1 for line in lines[: place.line])
        units = lines[place.line].encode("utf-16-le", "surrogatepass")
        return before + len(units[: 2 * place.column].decode("utf-16-le", "surrogatepass"))

    def _touches(self, span: Span | None, start: int, end: int) -> bool:
        return span is not None and self.is_own(span) and span.start <= end and start <= span.end

    def is_own(self, span: Span | None) -> bool:
        """Return whether a span lies in this text, and not in an imported file."""
        return span is not None and is_file(span.source.path, self.path)
