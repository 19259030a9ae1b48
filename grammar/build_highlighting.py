"""Write the TextMate grammar of the language from the words of the grammar and of the table of forms.

python grammar/build_highlighting.py

Editors and web sites that know TextMate grammars (Visual Studio Code, Sublime Text, GitHub, Shiki)
colour programs by it. `tests/editor/test_highlighting.py` fails if the file is not up to date.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gmlmdsl.editor import word_lists

TARGET = Path(__file__).with_name("vscode") / "gmlm.tmLanguage.json"


def grammar() -> dict[str, object]:
    """Return the TextMate grammar."""
    words = word_lists()

    def any_of(name: str) -> str:
        return "|".join(sorted(words[name]))

    patterns: Sequence[tuple[str, str]] = (
        (r"#.*$", "comment.line.number-sign.gmlm"),
        (r'"(?:\\.|[^"\\])*"', "string.quoted.double.gmlm"),
        (r"\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b", "constant.numeric.gmlm"),
        (r"\b(?:true|false)\b", "constant.language.gmlm"),
        (rf"\b(?:{any_of('operators')})\b", "keyword.operator.word.gmlm"),
        (rf"(?:^|(?<=[{{}};]))\s*(?:{any_of('declaring')})\b(?=\s+[\w(\"-])", "storage.type.gmlm"),
        (rf"\b(?:{any_of('called')})(?=\s*\()", "support.class.gmlm"),
        (rf"\b(?:{any_of('functions')})(?=\s*\()", "support.function.gmlm"),
        (rf"\b(?:{any_of('types')})\b", "support.type.gmlm"),
        (rf"\b(?:{any_of('bodies')})\b", "keyword.control.gmlm"),
    )
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "gmlmdsl",
        "scopeName": "source.gmlm",
        "fileTypes": ["gmlm"],
        "patterns": [{"match": match, "name": name} for match, name in patterns],
    }


def text() -> str:
    """Return the file."""
    return json.dumps(grammar(), indent=2) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
    print(f"wrote {TARGET}")
