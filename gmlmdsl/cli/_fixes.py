"""The command `gmlm check --fix`, which applies sure fixes to a file.

Guesses are left to the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .._diagnostics import Diagnostic, Fix, GmlmError, Span
from ..program import check_file
from ..syntax import read_source

MOST_ROUNDS = 20  # Fixing a statement may reveal further faults inside it.


def fix_file(path: Path) -> int:
    """Apply sure fixes to a file until there are none, and write it if it changed.

    Returns:
        The number of fixes.

    Raises:
        GmlmError: if the file cannot be read or written.
    """
    from ..files import write_whole

    before = text = read_source(path, piped=False).text
    made = 0
    for _ in range(MOST_ROUNDS):
        edits = sure_edits(found_in(path, text), str(path))
        if not edits:
            break
        text, made = apply_edits(text, edits), made + len(edits)
    if text != before:
        write_whole(path, text.encode())
    return made


def found_in(path: str | Path, text: str) -> tuple[Diagnostic, ...]:
    """Return all diagnostics of a file with this text."""
    try:
        return check_file(path, text).warnings
    except GmlmError as error:
        return error.diagnostics


def sure_edits(found: Sequence[Diagnostic], path: str) -> list[Fix]:
    """Return the fixes of a file that are not guesses; of two overlapping fixes, the first."""
    out: list[Fix] = []
    taken: list[Span] = []
    for fix in (d.fix for d in found if d.fix is not None and not d.fix.guess and d.fix.span.source.path == path):
        if not any(a.start <= b.end and b.start <= a.end for a in fix.places for b in taken):
            out.append(fix)
            taken += fix.places
    return out


def apply_edits(text: str, edits: Sequence[Fix]) -> str:
    """Return the text with fixes applied that do not overlap."""
    places = [(place, fix.text) for fix in edits for place in fix.places]
    for place, new in sorted(places, key=lambda p: -p[0].start):
        text = text[: place.start] + new + text[place.end :]
    return text
