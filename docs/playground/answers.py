"""The answers of the playground: functions of a program's text that need the standard library and this package alone."""

import re
from contextlib import suppress

from gmlmdsl._diagnostics import Diagnostic, GmlmError, Source, rendered
from gmlmdsl.explain import Explanation
from gmlmdsl.program import check_source
from gmlmdsl.syntax import format_source

NAME = "program.gmlm"
MOST_ROUNDS = 50
WIDTH = 80
DECLARED = re.compile(r"^[^\S\n]*[^#\s]", re.M)  # in a line that is neither blank nor a comment
NO_FAULTS = "no faults"
EMPTY = "The program is empty: it declares nothing."


def found(text: str) -> tuple[Diagnostic, ...]:
    """Return every error and warning of a text."""
    try:
        return check_source(Source(NAME, text)).warnings
    except GmlmError as error:
        return error.diagnostics


def check(text: str) -> tuple[str, str]:
    """Return the text unchanged, and its errors and warnings."""
    return text, "\n\n".join(rendered(found(text))) or (NO_FAULTS if DECLARED.search(text) else EMPTY)


def tidy(text: str) -> tuple[str, str]:
    """Return the text in its canonical layout, and its errors and warnings."""
    with suppress(GmlmError):
        text = format_source(text, NAME)
    return check(text)


def mend(text: str) -> tuple[str, str]:
    """Return the text after every fix that is certain, one after another, and the faults that remain."""
    before = text
    for _ in range(MOST_ROUNDS):
        fix = next((d.fix for d in found(text) if d.fix is not None and not d.fix.guess), None)
        if fix is None:
            break
        text = fix.applied(text)
    mended, answer = check(text)
    return mended, f"{answer}\n\nNo fix is certain: the text is unchanged." if text == before and found(text) else answer


def explain(text: str) -> tuple[str, str]:
    """Return the text unchanged, and its formulas, or its faults if it has errors."""
    try:
        return text, Explanation(check_source(Source(NAME, text))).text(WIDTH) if DECLARED.search(text) else EMPTY
    except GmlmError:
        return check(text)
