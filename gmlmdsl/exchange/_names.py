"""Names and numbers as text: names of the language for names of other tools, and back."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable

import numpy as np

from .._diagnostics import visible
from ..program import forms
from ..syntax import KEYWORDS, RESERVED
from .limits import LONGEST_NAME

WORDS = frozenset((*RESERVED, *KEYWORDS, *(form.name for form in forms.FORMS)))
EPSILON = float(np.finfo(float).eps)


class Names:
    """Distinct names.

    Args:
        taken: names that are not given again.
    """

    def __init__(self, taken: Iterable[str] = WORDS) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        """Return the name if it is free, else the first free one of `name_2`, `name_3`, ..."""
        found = name
        while found in self._taken:
            self._next[name] = self._next.get(name, 1) + 1
            found = f"{name}_{self._next[name]}"
        self._taken.add(found)
        return found

    def fresh_of(self, name: str) -> str:
        """Return the name if it is free, else the first free name that begins with `name_network`."""
        return self.fresh(name if name not in self._taken else f"{name}_network")


def language_name(text: str, other: str) -> str:
    """Return a name of the language for any text, or `other` if no letter of it can stay.

    Accents are dropped, and all other letters that cannot stand in a name become `_`.
    """
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    found = re.sub(r"[^A-Za-z0-9]+", "_", plain[:LONGEST_NAME]).strip("_")
    if not found:
        return other
    return f"{other}_{found}" if found[0].isdigit() else found


def kept_name(text: str, other: str) -> str:
    """Return the text if it is a name of the language already, else `language_name`."""
    is_name = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text) is not None
    return text if is_name and len(text) <= LONGEST_NAME else language_name(text, other)


def one_word(text: str) -> str:
    """Return a text as a word of the files of other tools: no blanks, brackets or signs of lists."""
    found = re.sub(r'[\s,|{}()\[\];"]+', "_", text.strip()).strip("_") or "_"
    return found if not found.startswith(("//", "/*")) else f"_{found}"


def quoted(text: str) -> str:
    """Return a text as a string of the language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'.replace("\t", "\\t")


def commented(text: str) -> str:
    """Return a name of another tool as it may stand in a comment."""
    shown = visible(" ".join(text.split()))
    return shown if len(shown) <= LONGEST_NAME else f"{shown[:LONGEST_NAME]}.."


def short_number(value: float) -> str:
    """Return the shortest text of a number that reads as the same one: `1`, `0.25`."""
    return repr(float(value)).removesuffix(".0")


def written_number(value: float) -> str:
    """Return the text of exp(log p), without the digits that only the logarithm brought.

    The number has 15 digits if that is within the rounding of the logarithm, else all.
    """
    short = f"{value:.15g}"
    near = value > 0 and abs(float(short) - value) <= EPSILON * (1 + abs(math.log(value))) * value
    return short if near else short_number(value)


def written_row(row: np.ndarray) -> list[str]:
    """Return the text of each number of a row."""
    return [written_number(p) for p in row.ravel().tolist()]
