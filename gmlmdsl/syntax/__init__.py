"""In: text. Out: `SyntaxTree`. Never: names, types."""

from . import _tree as tree
from ._parse import parse as parse
from ._parse import parse_with_errors as parse_with_errors
from ._parse import read_source as read_source

__all__ = ["parse", "parse_with_errors", "read_source", "tree"]
