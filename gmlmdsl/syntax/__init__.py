"""In: text. Out: `SyntaxTree`. Never: names, types."""

from typing import TYPE_CHECKING

from . import _tree as tree
from ._lex import Texts, read_source
from ._machine import words_after
from ._old_forms import old_forms
from ._parse import parse, parse_with_errors
from ._words import FILE_WORDS, MODEL_WORDS, RESERVED
from ._words import NAMES as KEYWORDS

if TYPE_CHECKING:
    from ._format import format_source as format_source
    from ._format import format_tree as format_tree


def __getattr__(name: str) -> object:
    """Return the formatter, which is loaded at its first use.

    Only `gmlm format` and editors need it.
    """
    if name not in ("format_source", "format_tree"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _format

    return getattr(_format, name)
