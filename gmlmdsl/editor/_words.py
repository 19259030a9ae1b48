"""The words of the language by their colour, from the grammar and the table of forms."""

from __future__ import annotations

from ..explain import keyword_table
from ..program import forms
from ..syntax import FILE_WORDS, KEYWORDS, MODEL_WORDS, RESERVED

TYPES = forms.names("type")
DECLARING = tuple(sorted({*FILE_WORDS, *MODEL_WORDS} - {"use"}))
BODIES = tuple(sorted({*KEYWORDS, *keyword_table()} - {*DECLARING, *RESERVED}))  # words inside declarations
OPERATORS = tuple(w for w in RESERVED if w not in ("true", "false"))
CALLED = tuple(dict.fromkeys(f.name for f in forms.FORMS if f.room not in ("type", "function")))
FUNCTIONS = forms.names("function")


def word_lists() -> dict[str, tuple[str, ...]]:
    """Return the words of the language by colour.

    The colours are `declaring` (words that begin a declaration), `bodies`, `operators`, `types`,
    `called` (forms before a parenthesis) and `functions`.
    """
    return {
        "declaring": DECLARING,
        "bodies": BODIES,
        "operators": OPERATORS,
        "types": TYPES,
        "called": CALLED,
        "functions": FUNCTIONS,
    }
