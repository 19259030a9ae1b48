"""A lexer for Pygments: programs in colour in Sphinx, Jupyter, MkDocs and on the terminal.

Pygments finds it by its entry point under the name `gmlm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

from ._words import BODIES, CALLED, DECLARING, FUNCTIONS, OPERATORS, TYPES


class GmlmLexer(RegexLexer):
    """Lexer of `.gmlm` programs. Words of forms are coloured only before a parenthesis."""

    name = "gmlmdsl"
    aliases: ClassVar[Sequence[str]] = ["gmlm"]
    filenames: ClassVar[Sequence[str]] = ["*.gmlm"]
    url = "https://pypi.org/project/gmlmdsl"
    tokens: ClassVar = {
        "root": [
            (rf"^([ \t]*)({'|'.join(DECLARING)})\b(?=\s+[\w(\"-])", bygroups(Text, Keyword.Declaration)),
            (rf"(?<=[{{}};])([ \t]*)({'|'.join(DECLARING)})\b(?=\s+[\w(\"-])", bygroups(Text, Keyword.Declaration)),
            (r"\n|[^\S\n]+", Text),
            (r"#[^\n]*", Comment.Single),
            (r'"(?:\\.|[^"\\\n])*"', String),
            (r"\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+", Number.Float),
            (r"\d+", Number.Integer),
            (words(("true", "false"), prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (words(OPERATORS, prefix=r"\b", suffix=r"\b"), Operator.Word),
            (words(CALLED, prefix=r"\b", suffix=r"(?=\s*\()"), Name.Builtin),
            (words(FUNCTIONS, prefix=r"\b", suffix=r"(?=\s*\()"), Name.Function),
            (words(TYPES, prefix=r"\b", suffix=r"\b"), Keyword.Type),
            (words(BODIES, prefix=r"\b", suffix=r"\b"), Keyword),
            (r"[A-Za-z_]\w*", Name),
            (r"==|!=|<=|>=|//|[-+*/%^~=<>:]", Operator),
            (r"[\[\](){},.;]", Punctuation),
        ]
    }
