"""`gmlm check --fix`: the edits that surely mend a fault, made in the file; guesses are left to the reader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .._diagnostics import Diagnostic, Fix, GmlmError, Span
from ..program import check_file
from ..syntax import read_source

MOST_ROUNDS = 20  # mending a statement shows the faults inside it


def fix_file(path: Path) -> int:
    """Make every sure edit of a file, check it again, and so on; write it whole where something changed.

    Returns:
        The number of edits made.

    Raises:
        GmlmError: where the file cannot be read or written.
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
    """Everything that is said of a file with that text."""
    try:
        return check_file(path, text).warnings
    except GmlmError as error:
        return error.diagnostics


def sure_edits(found: Sequence[Diagnostic], path: str) -> list[Fix]:
    """The edits of a file that are no guesses; of two that touch the same text the first."""
    out: list[Fix] = []
    taken: list[Span] = []
    for fix in (d.fix for d in found if d.fix is not None and not d.fix.guess and d.fix.span.source.path == path):
        if not any(a.start <= b.end and b.start <= a.end for a in fix.places for b in taken):
            out.append(fix)
            taken += fix.places
    return out


def apply_edits(text: str, edits: Sequence[Fix]) -> str:
    """The text with edits made that do not touch one another."""
    places = [(place, fix.text) for fix in edits for place in fix.places]
    for place, new in sorted(places, key=lambda p: -p[0].start):
        text = text[: place.start] + new + text[place.end :]
    return text
