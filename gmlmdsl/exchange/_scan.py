"""Text files split into tokens, with the place of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._diagnostics import GmlmError, Source, Span, fail
from ..files import as_path
from ..read import text_of_file
from .limits import MOST_CHARACTERS

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
WHOLE = re.compile(r"\d{1,9}", re.ASCII)


def read_source(path: str | Path, most: int | None = None) -> Source:
    """Return the text of a file.

    Args:
        path: the file.
        most: the most characters that it may have; if None, those of most formats.

    Raises:
        GmlmError: E120, E119 or E520 for a file that is not readable text; E535 for one above the
            limit.
    """
    path = as_path(path)
    return Source(str(path), text_of_file(path, MOST_CHARACTERS if most is None else most, "E535"))


class Token(NamedTuple):
    """A piece of a text; the last one of a text is empty and not quoted."""

    text: str
    start: int
    end: int
    is_quoted: bool = False


class Scanner:
    """The tokens of a text, one after another.

    Args:
        source: the text.
        pattern: the tokens. The group `text` is a quoted token, without its quotes; matches without
            a group are skipped.
    """

    def __init__(self, source: Source, pattern: re.Pattern[str]) -> None:
        self.source = source
        self._pattern = pattern
        self._tokens = self._found(0)
        self._next = next(self._tokens)
        self.last = self._next

    def _found(self, start: int) -> Iterator[Token]:
        for match in self._pattern.finditer(self.source.text, start):
            group = match.lastgroup
            if group is not None:
                yield Token(match[group], match.start(), match.end(), group == "text")
        while True:
            yield Token("", len(self.source.text), len(self.source.text))

    @property
    def upcoming(self) -> Token:
        """The next token."""
        return self._next

    @property
    def at_end(self) -> bool:
        """Whether all tokens are taken."""
        return self._next.start == len(self.source.text)

    def sees(self, text: str) -> bool:
        """Return whether the next token is this word or sign."""
        return self._next.text == text and not self._next.is_quoted

    def take(self) -> Token:
        """Return the next token and step over it.

        Raises:
            GmlmError: E532 at the end of the text.
        """
        if self.at_end:
            raise self.fault("the file ends too early", self.last, "behind this", CUT)
        self.last = self._next
        self._next = next(self._tokens)
        return self.last

    def go_to(self, position: int) -> None:
        """Go on at a place of the text, where a token ends."""
        self._tokens = self._found(position)
        self._next = next(self._tokens)

    def took(self, text: str) -> bool:
        """Return whether the next token is this one, and step over it if so."""
        found = self.sees(text)
        if found:
            self.take()
        return found

    def expect(self, text: str, where: str) -> Token:
        """Return the next token, which must be this word or sign.

        Raises:
            GmlmError: E532 for any other token.
        """
        is_right, token = self.sees(text), self.take()
        if not is_right:
            raise self.fault(f"expected `{text}` {where}, found `{token.text}`", token, "not expected")
        return token

    def span(self, token: Token) -> Span:
        """Return the place of a token."""
        return Span(self.source, token.start, token.end)

    def fault(self, message: str, token: Token, label: str, help: str = "") -> GmlmError:
        """Return an E532 at a token."""
        return fail("E532", message, self.span(token), label, help=help)

    def number(self) -> float:
        """Return the next token as a finite number of at least 0.

        Raises:
            GmlmError: E532 for a token that is no number, E533 for a number below 0 or too large.
        """
        token = self.take()
        if NUMBER.fullmatch(token.text) is None or token.is_quoted:
            help = "numbers are written as 0.25 or 2.5e-1, with a point"
            raise self.fault(f"expected a number, found `{token.text}`", token, "not a number", help)
        value = float(token.text)
        if not 0 <= value < np.inf:
            help = "a probability lies between 0 and 1, a factor is finite and at least 0"
            raise fail("E533", f"{token.text} is not a probability or factor", self.span(token), help=help)
        return value

    def whole(self, what: str, most: int) -> int:
        """Return the next token as a whole number.

        Args:
            what: how messages call the number.
            most: the largest one that is allowed.

        Raises:
            GmlmError: E532 for a token that is no whole number, E535 for one above the limit.
        """
        token = self.take()
        if token.text.isdecimal() and (WHOLE.fullmatch(token.text) is None or int(token.text) > most):
            message = f"{what} is {token.text}, more than the limit of {most:,}"
            raise fail("E535", message, self.span(token), "too large", help="check the count, or split the model")
        if WHOLE.fullmatch(token.text) is None:
            raise self.fault(f"{what} is a whole number, found `{token.text}`", token, "not a number")
        return int(token.text)


CUT = "the file was cut off, or its counts are too large: get it again"
