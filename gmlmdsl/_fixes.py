"""`gmlm check --fix`: the edits that surely mend a fault, made in the file; guesses are left to the reader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ._diagnostics import Diagnostic, Fix, GmlmError
from .program import check_file
from .syntax import read_source

MOST_ROUNDS = 20  # mending a statement shows the faults inside it


def fix_file(path: Path) -> int:
    """Make every sure edit of a file, check it again, and so on; write it whole where something changed.

    Returns:
        The number of edits made.

    Raises:
        GmlmError: where the file cannot be read or written.
    """
    from ._files import write_whole

    before = text = read_source(path).text
    made = 0
    for _ in range(MOST_ROUNDS):
        edits = sure_edits(found_in(path, text), str(path))
        if not edits:
            break
        text, made = apply_edits(text, edits), made + len(edits)
    if text != before:
        write_whole(path.resolve(), text.encode())
    return made


def found_in(path: str | Path, text: str) -> tuple[Diagnostic, ...]:
    """Everything that is said of a file with that text."""
    try:
        return check_file(path, text).warnings
    except GmlmError as error:
        return error.diagnostics


def sure_edits(found: Sequence[Diagnostic], path: str) -> list[Fix]:
    """The edits that are no guesses, in the order of the text; of two that overlap the first."""
    fixes = (d.fix for d in found if d.fix is not None and not d.fix.guess and d.fix.span.source.path == path)
    out: list[Fix] = []
    for fix in sorted(fixes, key=lambda f: (f.span.start, f.span.end)):
        if not out or fix.span.start > out[-1].span.end or (fix.span.start == out[-1].span.end < fix.span.end):
            out.append(fix)
    return out


def apply_edits(text: str, edits: Sequence[Fix]) -> str:
    """The text with edits made that do not overlap, ascending."""
    for fix in reversed(edits):
        text = text[: fix.span.start] + fix.text + text[fix.span.end :]
    return text
