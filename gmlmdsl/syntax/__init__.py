"""In: text. Out: `SyntaxTree`. Never: names, types."""

from . import _tree as tree
from ._parse import parse as parse
from ._parse import parse_with_errors as parse_with_errors
from ._parse import read_source as read_source

__all__ = ["format_source", "parse", "parse_with_errors", "read_source", "tree"]


def __getattr__(name: str) -> object:
    if name != "format_source":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._format import format_source  # only `gmlm format` and editors need it

    return format_source
