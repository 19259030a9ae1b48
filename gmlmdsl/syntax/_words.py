"""List the words of the language by the place in which they begin a statement.

Messages and error recovery use these lists. The grammar itself is authoritative.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

RESERVED = ("and", "or", "not", "if", "then", "else", "for", "in", "true", "false")
FILE_WORDS = ("import", "domain", "input", "index", "graph", "network", "function", "model", "mask", "sampler", "verifier", "value")
MODEL_WORDS = ("var", "latent", "given", "param", "let", "gauge", "factor", "require", "conditional", "use")
MASK_WORDS = ("choose", "each")
SAMPLER_WORDS = ("start", "update", "cycle", "repeat", "mixture", "temper")
STATEMENT_WORDS = frozenset(FILE_WORDS + MODEL_WORDS + MASK_WORDS + SAMPLER_WORDS)
NAMES = STATEMENT_WORDS | {
    "from",
    "where",
    "independently",
    "weight",
    "rate",
    "as",
    "by",
    "sees",
}  # the keywords that are names in any place where a name is allowed

# Each rule whose state may begin a statement -> the words that begin one there, and the description
# of the place.
LEVELS: dict[str, tuple[tuple[str, ...], str]] = {
    "statement": (FILE_WORDS, "at the top level of a file"),
    "model_statement": (MODEL_WORDS, "in a model"),
    "mask_statement": (MASK_WORDS, "in a mask"),
    "mask_row": ((), "in a mixture"),
    "kernel_row": ((), "in a mixture"),
    "sampler_statement": (SAMPLER_WORDS, "in a sampler"),
}

# The parts of a construct that a comma joined wrongly, and what is written instead.
JOINED = {
    "edges": "two indices together are written `(i, j) in ..`",
    "in": "each axis or loop names its set, `i in a, j in b`; the two ends of an edge are `(i, j) in G.edges`",
    "choose": "a block stands in braces: `{a, b}`",
    "update": "a block stands in braces: `{a, b}`",
}
# Words between two terms that are operators in other languages.
BETWEEN = {
    "is": "a comparison is written `==`",
    "eq": "a comparison is written `==`",
    "mod": "a remainder is written `a % b`",
    "div": "whole division is written `a // b`",
    "xor": "one of two conditions is `(a) != (b)`",
    **dict.fromkeys(("elif", "elseif", "elsif"), "a second condition stands behind `else`: `if c then a else if d then b else 0`"),
    "times": "a product is written `a * b`",
    **dict.fromkeys(("forall", "foreach", "over"), "a loop is written `for i in site`"),
    **dict.fromkeys(("where", "when", "unless", "such", "with"), "a condition of loops is written `if`: `for i in site if i > 1`"),
}


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
