"""Read `hints.toml`, the table of words and signs of other languages."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any


@functools.cache
def hints() -> dict[str, list[dict[str, Any]]]:
    """Return the table."""
    import tomllib

    return tomllib.loads(Path(__file__).with_name("hints.toml").read_text(encoding="utf-8"))


@functools.cache
def slips() -> dict[str, dict[str, str]]:
    """Return the entries of signs, by the text of the sign."""
    return {slip["text"]: slip for slip in hints()["slip"]}


@functools.cache
def hinted_words() -> dict[tuple[str, str], dict[str, str]]:
    """Return the entries of words that begin statements in other languages, by word and level."""
    return {(word, entry["level"]): entry for entry in hints()["word"] for word in entry["words"]}


@functools.cache
def openers() -> dict[tuple[str, str], str]:
    """Return the help for words that begin statements in other languages, by word and level.

    An empty level denotes any level.
    """
    return {(word, entry.get("level", "")): entry["help"] for entry in hints()["opener"] for word in entry["words"]}
