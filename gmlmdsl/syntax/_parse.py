"""Parse a text into a tree: the entry point of this package.

Limits are checked before anything is built.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from .._diagnostics import Diagnostic, GmlmError, Source, Span, fail, in_text_order
from ..files import reading
from ._lex import Tokens, tokenize
from ._machine import Stack, run
from ._tables import load_tables
from ._tree import SyntaxTree
from .limits import MAX_BYTES

Texts = Mapping[str, str] | None  # used instead of those on disk, by their real paths
ARCHIVE = b"PK\x03\x04"  # the first bytes of a zip file


def parse(text: str, path: str = "<text>") -> SyntaxTree:
    """Parse a program.

    Args:
        text: the program.
        path: the name of the program in messages.

    Returns:
        Its syntax tree. Names and types are not checked.

    Raises:
        GmlmError: if the text has syntax errors. The error contains all of them.
    """
    tree, errors, _ = parse_with_errors(text, path)
    if errors:
        raise GmlmError(errors)
    return tree


def parse_with_errors(text: str, path: str = "<text>") -> tuple[SyntaxTree, tuple[Diagnostic, ...], frozenset[str]]:
    """Parse the valid statements of a program.

    Args:
        text: the program.
        path: the name of the program in messages.

    Returns:
        The tree of the statements that could be parsed. The syntax errors, in the order of the
            text. The names that occur in skipped text, any of which may be declared there.
    """
    source = Source(path, text)
    nothing = SyntaxTree(Span(source, 0, len(text)), ())
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return nothing, (_too_large(path),), frozenset()
    tables = load_tables()
    try:
        tokens = tokenize(source, tables)
    except GmlmError as error:
        return nothing, error.diagnostics, frozenset(re.findall(r"[A-Za-z_]\w*", text))
    stack = Stack()
    stop = run(tables, source, tokens.tokens, stack)
    errors, skipped = tuple(tokens.faults.values()), frozenset[str]()
    if stop is not None:
        from ._recover import recover  # A program without faults never needs it.

        stack, errors, skipped = recover(tables, tokens, stack, stop)
    return _tree(tokens, stack), in_text_order(errors), skipped


def _tree(tokens: Tokens, stack: Stack) -> SyntaxTree:
    return SyntaxTree(Span(tokens.source, 0, len(tokens.source.text)), stack.parts[-1][0], tokens.comments)


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
        raise GmlmError(_too_large(shown))
    try:
        return Source(shown, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        place = data.count(b"\n", 0, error.start) + 1
        message = f"`{shown}` is not UTF-8 text: byte 0x{data[error.start]:02x} on line {place}"
        help = "save the file as UTF-8"
        if data.startswith(ARCHIVE):
            help = "it is an archive, as `fit.save` writes one: `gmlm sample` takes it, and `gm.load_fit` in Python"
        raise GmlmError(Diagnostic("E119", message, help=help)) from None


def _too_large(path: str) -> Diagnostic:
    return Diagnostic("E118", f"`{path}` is larger than 1 MiB", help="data belong to the Python call, not to the program")
