"""Parse a text into a tree: the entry point of this package.

Limits are checked before anything is built.
"""

from __future__ import annotations

import re

from .._diagnostics import Diagnostic, GmlmError, Source, Span, in_text_order
from ._lex import Tokens, tokenize, too_large
from ._machine import Stack, run
from ._tables import load_tables
from ._tree import SyntaxTree
from .limits import MAX_BYTES


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
        return nothing, (too_large(path),), frozenset()
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
