"""List the words of the language by the place in which they begin a statement.

Messages and error recovery use these lists. The grammar itself is authoritative.
"""

from __future__ import annotations

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
