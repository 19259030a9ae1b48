"""Read a text, and split it into tokens.

A token lists the terminals that it may be, and the parser takes the first one that its state
accepts. This is the contextual lexer of the grammar, except that words are read as a whole. For
example, `factor` is the keyword if a statement may begin, and a name if a name is possible. Faults
of single tokens (an unclosed string, a number that is too large) are found here.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .._diagnostics import Diagnostic, Fix, GmlmError, Source, Span, fail
from ..files import reading
from ._tables import END, Tables
from ._tree import Comment
from ._words import STATEMENT_WORDS
from .limits import MAX_BYTES, MAX_DEPTH, MAX_INTEGER, MAX_STRING

Texts = Mapping[str, str] | None  # used instead of those on disk, by their real paths
ARCHIVE = b"PK\x03\x04"  # the first bytes of a zip file
ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t"}
OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = {close: open_ for open_, close in OPENING.items()}
BRACKETS = frozenset("()[]{}")
QUOTES = {
    "'": "'",
    "`": "`'",
    "\u201c": '\u201d\u201c"',
    "\u201e": '\u201c\u201d"',
    "\u2018": "\u2019\u2018'",
    "\u201a": "\u2018\u2019'",
    "\u00ab": "\u00bb",
}
WRITTEN = {"0x": 16, "0b": 2, "0o": 8}  # the prefixes of numbers of another base in other languages


def read_source(path: str | Path, piped: bool = True, texts: Texts = None) -> Source:
    """Read the text of a file.

    Args:
        path: a file of UTF-8 text of at most 1 MiB. A byte order mark is dropped.
        piped: whether the file may be a pipe that the caller opened, such as `/dev/stdin`.
        texts: the texts that are used instead of those on disk.

    Returns:
        The text with its path as messages show it.

    Raises:
        GmlmError: if the file is missing, a directory, unreadable, too large or not text.
    """
    shown = str(path)
    if texts and (text := texts.get(os.path.realpath(path))) is not None:
        return Source(shown, text)
    with reading(path, piped), open(path, "rb") as file:
        # one byte more than allowed, and three bytes for a byte order mark
        data = file.read(MAX_BYTES + 4)
    if shown.lower().endswith((".csv", ".tsv")):
        help = f"a program is fitted to it: `gmlm fit PROGRAM.gmlm {shown}`"
        raise fail("E101", f"{shown} is a table, not a program", help=help)
    data = data.removeprefix(b"\xef\xbb\xbf")
    if len(data) > MAX_BYTES:
        raise GmlmError(too_large(shown))
    try:
        return Source(shown, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        place = data.count(b"\n", 0, error.start) + 1
        message = f"`{shown}` is not UTF-8 text: byte 0x{data[error.start]:02x} on line {place}"
        help = "save the file as UTF-8"
        if data.startswith(ARCHIVE):
            help = "it is an archive, as `fit.save` writes one: `gmlm sample` takes it, and `gm.load_fit` in Python"
        raise GmlmError(Diagnostic("E119", message, help=help)) from None


def too_large(path: str) -> Diagnostic:
    return Diagnostic("E118", f"`{path}` is larger than 1 MiB", help="data belong to the Python call, not to the program")


class Token(NamedTuple):
    """A token of the text.

    Attributes:
        terminals: the terminals that it may be, or () if it is not part of the language.
        text: the text.
        start: its start in the source.
        end: its end in the source.
        opens_line: whether it is the first token of its line.
    """

    terminals: tuple[str, ...]
    text: str
    start: int
    end: int
    opens_line: bool = False


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a source.

    Attributes:
        source: the text.
        tokens: the tokens. The last one marks the end of the text.
        comments: the comments.
        faults: the faults of single tokens, by the start of the token.
    """

    source: Source
    tokens: list[Token]
    comments: tuple[Comment, ...] = ()
    faults: dict[int, Diagnostic] = field(default_factory=dict)

    def span(self, token: Token) -> Span:
        """Return the place of a token."""
        return Span(self.source, token.start, token.end)


@dataclass(frozen=True, slots=True)
class Lexer:
    """The compiled patterns and the literals of the tables."""

    master: re.Pattern[str]
    literals: dict[str, str]
    name: re.Pattern[str]
    row_name: re.Pattern[str]

    def word(self, text: str) -> tuple[str, ...]:
        """Return the terminals that a word may be: its keyword, a name, or both."""
        keyword = (self.literals[text],) if text in self.literals else ()
        return keyword + (("NAME",) if self.name.fullmatch(text) else ())


@functools.cache
def make_lexer(tables: Tables) -> Lexer:
    """Return the lexer for the terminals of the tables."""
    patterns = tables.patterns
    operators = sorted((t for t in tables.literals if not t[0].isalpha()), key=len, reverse=True)
    groups = {
        "space": patterns["SPACE"],
        "word": "[A-Za-z_][A-Za-z0-9_]*",
        "operator": "|".join(map(re.escape, operators)),
        "number": patterns["NUMBER"],
        "string": patterns["STRING"],
        "comment": patterns["COMMENT"],
    }
    master = re.compile("|".join(f"(?P<{name}>{_without_groups(pattern)})" for name, pattern in groups.items()))
    return Lexer(master, tables.literals, re.compile(patterns["NAME"]), re.compile(patterns["ROW_NAME"]))


def _without_groups(pattern: str) -> str:
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern)


def tokenize(source: Source, tables: Tables) -> Tokens:
    """Split a text into tokens.

    Args:
        source: the text.
        tables: the terminals of the language.

    Returns:
        The tokens, with an empty token at the end, the comments, and the faults of single tokens.

    Raises:
        GmlmError: if brackets are nested deeper than 200.
    """
    lexer, text = make_lexer(tables), source.text
    tokens: list[Token] = []
    comments: list[Comment] = []
    faults: dict[int, Diagnostic] = {}
    known: dict[str, tuple[str, ...]] = {}
    fresh, depth = True, {"{": 0, "(": 0}
    for kind, start, end in _pieces(lexer.master, text):
        piece = text[start:end]
        if kind == "space":
            fresh = fresh or "\n" in piece
            continue
        if kind == "comment":
            comments.append(Comment(Span(source, start, start + len(piece.rstrip())), piece.rstrip(), fresh))
            continue
        if kind == "word":
            terminals = known.get(piece) or known.setdefault(piece, lexer.word(piece))
            if fresh and piece in STATEMENT_WORDS:
                depth["("] = 0  # Unclosed brackets above are a separate mistake.
            if lexer.row_name.match(text, start):
                terminals = ("ROW_NAME", *terminals)
        elif kind == "operator":
            terminals = (lexer.literals[piece],)
            if piece in BRACKETS and _deepen(depth, piece) > MAX_DEPTH:
                raise GmlmError(_too_deep(Span(source, start, end)))
        else:
            terminals, fault = _literal(kind, Span(source, start, end))
            if fault:
                faults[start] = fault
        tokens.append(Token(terminals, piece, start, end, fresh))
        fresh = False
    tokens.append(Token((END,), "", len(text), len(text), True))
    return Tokens(source, tokens, tuple(comments), faults)


def _deepen(depth: dict[str, int], bracket: str) -> int:
    kind = "{" if bracket in "{}" else "("
    depth[kind] += 1 if bracket in OPENING else -1
    return depth["{"] + depth["("]


def _pieces(master: re.Pattern[str], text: str) -> Iterator[tuple[str, int, int]]:
    at = 1 if text.startswith("\ufeff") else 0
    open_until: dict[str, int] = {}
    while at < len(text):
        found = master.match(text, at)
        kind, end = (found.lastgroup or "", found.end()) if found else _unknown(text, at, open_until)
        yield kind, at, end
        at = end


def _unknown(text: str, at: int, open_until: dict[str, int]) -> tuple[str, int]:
    """Return the kind and the end of a piece that is not part of the language.

    It is an unclosed string, a misspelt number or an unknown character. `open_until` contains, for
    each kind of quote, the place up to which no closing quote follows.
    """
    line_end = text.find("\n", at)
    line_end = len(text) if line_end < 0 else line_end
    if text[at] == '"':
        return "unclosed", line_end
    if text[at] in QUOTES:
        if at < open_until.get(text[at], 0):
            return "quoted", at + 1
        end = next((k for k in range(at + 1, line_end) if text[k] in QUOTES[text[at]]), None)
        if end is None:
            open_until[text[at]] = line_end
        return "quoted", at + 1 if end is None else end + 1
    number = re.compile(r"\.?[0-9](?:[eE][+-]|[A-Za-z0-9_.])*").match(text, at)
    if number:
        return "misspelt", number.end()
    strange = re.compile(r"&&|\|\||[^\x20-\x7e\s]+|.", re.DOTALL).match(text, at)
    return "character", strange.end() if strange else at + 1


def _literal(kind: str, span: Span) -> tuple[tuple[str, ...], Diagnostic | None]:
    if kind == "number":
        return ("NUMBER",), _check_number(span)
    if kind == "string":
        return ("STRING",), _check_string(span)
    return (), _FAULTS[kind](span)


def _check_number(span: Span) -> Diagnostic | None:
    digits = span.text
    if digits.isdigit():
        small = digits.lstrip("0")
        if len(small) > 10 or int(small or "0") > MAX_INTEGER:
            help_ = "write a smaller integer, or a real number: `1e10`"
            return Diagnostic("E115", "an integer larger than 2^31", span, "too large", help=help_)
    elif float(digits) == float("inf"):
        return Diagnostic("E115", f"`{short(digits)}` is larger than any floating-point number", span, "too large")
    return None


def _check_string(span: Span) -> Diagnostic | None:
    if span.end - span.start - 2 > MAX_STRING:
        place = Span(span.source, span.start, span.start + 1)
        return Diagnostic("E116", f"a string longer than {MAX_STRING // 1024} KiB", place, "opened here")
    for found in re.finditer(r"\\(.)", span.text) if "\\" in span.text else ():
        if found[1] not in ESCAPES:
            place = Span(span.source, span.start + found.start(), span.start + found.end())
            known = r"the escapes are `\"`, `\\`, `\n` and `\t`; a backslash itself is `\\`"
            fix = Fix(place, f"\\{found[0]}", guess=True)
            return Diagnostic("E113", f"`{found[0]}` is not an escape", place, "unknown escape", help=known, fix=fix)
    return None


def _unclosed(span: Span) -> Diagnostic:
    place = Span(span.source, span.start, span.start + 1)
    return Diagnostic("E112", "a string without end", place, "opened here", help='close the string with `"` on the same line')


def _quoted(span: Span) -> Diagnostic:
    help_ = f'write `"{short(span.text[1:-1])}"`' if len(span.text) > 1 else 'a string is written `"text"`, on one line'
    return Diagnostic(
        "E107", "a string stands in double quotes", span, "single quotes" if span.text[0] == "'" else "other quotes", help=help_
    )


def _misspelt(span: Span) -> Diagnostic:
    text, help_, fix = span.text, "a number is written `12`, `0.5` or `1e-3`", None
    if text.startswith("."):
        help_ = f"write `0{short(text)}`" if re.fullmatch(r"\.[0-9]+", text) else help_
    elif re.fullmatch(r"[0-9]+\.", text):
        help_, fix = f"write `{short(text)}0`, or `{short(text[:-1])}` for an integer", Fix(span, f"{text}0")
    elif plain := _as_written_here(text):
        help_, fix = f"write `{plain}`", Fix(span, plain)
    elif re.fullmatch(r"[0-9]+(\.[0-9]+)?[eE][+-]?", text):
        help_ = f"an exponent has digits, as in `{short(text)}3`; without one write `{re.split('[eE]', text)[0]}`"
    elif re.fullmatch(r"[0-9]+[A-Za-z_]\w*", text):
        help_ = "a name opens with a letter; between a number and a name stands an operator, such as `*`"
        digits = re.match("[0-9]+", text)
        fix = Fix(span, f"{digits[0]} * {text[digits.end() :]}", guess=True) if digits else None
    return Diagnostic("E114", f"`{short(text)}` is not a number", span, "not a number", help=help_, fix=fix)


def _as_written_here(text: str) -> str:
    """Return `1024` for `1_024` and `16` for `0x10`.

    The result is "" if the text is not a number of another language.
    """
    plain = text.replace("_", "")
    if re.fullmatch(r"[0-9]+(_[0-9]+)+(\.[0-9]+)?([eE][+-]?[0-9]+)?", text):
        return plain
    try:
        return str(int(plain, WRITTEN[text[:2].lower()]))
    except (KeyError, ValueError):
        return ""


# Mathematical signs of papers, which are words here.
SIGNS = {
    **dict.fromkeys("∑Σ", "a sum is written `sum(x[i] for i in site)`"),
    **dict.fromkeys("∏Π", "a product is written `prod(a[i] for i in site)`"),
    "∀": "what holds for all is written with a loop: `require x[i] == 1 for i in site`",
    "∃": "what holds somewhere is written `any(x[i] == 1 for i in site)`",
    "√": "a root is written `sqrt(a)`",
    "∞": "a bound that is infinite is left out; what is impossible is `require`",
    "±": "a spin is -1 or +1 by its type: `: spin`",
}
POWERS = {"²": 2, "³": 3}


def _character(span: Span) -> Diagnostic:
    text = span.text
    shown = f"`{short(text)}`" if text.isprintable() and not text.isspace() else f"character U+{ord(text[0]):04X}"
    help_ = "names are made of the letters a-z and A-Z, digits and `_`" if text.isalpha() else ""
    help_ = SIGNS.get(text, help_)
    if text in POWERS:
        help_ = f"a power is written `x ^ {POWERS[text]}`"
    if text.isspace():
        help_ = "use plain spaces"
    if text == "\\":
        help_ = "names have no backslash: `beta`; a sum is written `sum(x[i] for i in site)`"
    return Diagnostic("E111", f"{shown} is not part of the language", span, "unknown character", help=help_)


_FAULTS = {"unclosed": _unclosed, "quoted": _quoted, "misspelt": _misspelt, "character": _character}


def _too_deep(span: Span) -> Diagnostic:
    return Diagnostic(
        "E117",
        f"brackets are nested deeper than {MAX_DEPTH}",
        span,
        f"level {MAX_DEPTH + 1} opens here",
        help="name parts of the expression with `let`, or use `sum(.. for ..)`",
    )


def short(text: str) -> str:
    """Return a piece of the text, truncated to fit a message."""
    return text if len(text) <= 30 else text[:27] + "..."


def closing(tokens: list[Token], at: int) -> int | None:
    """Return the token that closes the bracket at token `at`, or None."""
    depth = 0
    for k in range(at, len(tokens)):
        depth += (tokens[k].text in OPENING) - (tokens[k].text in CLOSING)
        if depth == 0:
            return k
    return None
