"""A text that is open in an editor: its tree, names, faults, and places by line and column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .._diagnostics import Diagnostic, GmlmError, Source, Span
from ..program import Program, check_file
from ..syntax import parse_with_errors, tree
from ._names import NameTable


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
    """

    def __init__(self, path: str, text: str):
        self.path, self.text = path, text
        self.source = Source(path, text)

    @cached_property
    def parsed(self) -> tree.SyntaxTree:
        """The tree of the statements that can be parsed."""
        return parse_with_errors(self.text, self.path)[0]

    @cached_property
    def names(self) -> NameTable:
        """The names of the text, with their declarations."""
        return NameTable(self.parsed)

    @cached_property
    def _checked(self) -> tuple[Program | None, tuple[Diagnostic, ...]]:
        try:
            program = check_file(self.path, self.text)
        except GmlmError as error:
            return None, error.diagnostics
        return program, program.warnings

    @property
    def program(self) -> Program | None:
        """The checked program, or None if its text has errors."""
        return self._checked[0]

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All faults and warnings, also those that binding the known inputs shows."""
        program, found = self._checked
        if program is None or not program.models:
            return found
        from ..plan import check_bound

        return (*found, *check_bound(program, {})[0])

    def place(self, offset: int) -> Place:
        """Return the place of a character."""
        line, column = self.source.position(min(offset, len(self.text)))
        start = offset - column + 1
        return Place(line - 1, len(self.text[start:offset].encode("utf-16-le")) // 2)

    def offset(self, place: Place) -> int:
        """Return the number of the character at a place; the end of the line if it is shorter."""
        lines = self.text.split("\n")
        if place.line >= len(lines):
            return len(self.text)
        before = sum(len(line) + 1 for line in lines[: place.line])
        units = 0
        for k, c in enumerate(lines[place.line]):
            if units >= place.column:
                return before + k
            units += 1 + (ord(c) > 0xFFFF)
        return before + len(lines[place.line])

    def is_own(self, span: Span | None) -> bool:
        """Return whether a span lies in this text, and not in an imported file."""
        return span is not None and span.source.path == self.path
