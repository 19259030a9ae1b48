"""The command `gmlm check`, which prints every error and warning of every file.

It never imports JAX, and NumPy only to bind a program whose text has no error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .._diagnostics import Diagnostic, Fix, GmlmError, Span, counted
from .._types import InputLike
from ..program import check_file
from ..syntax import read_source
from ._console import note, show, stdin_text
from .limits import MOST_ROUNDS

PIPED = "-"  # This name stands for the standard input.
MORE = "; indices and sizes are looked at once the text has none"


def check_files(
    files: Sequence[str | Path], as_json: bool = False, fix: bool = False, inputs: Sequence[str] = (), arrays: Path | None = None
) -> int:
    """Print the diagnostics of files, and return the exit status: 1 with an error, otherwise 0.

    Warnings do not change the status. A note on the standard error names parts that are too large
    to be bound.

    Args:
        files: the files; `-` is the standard input.
        as_json: whether to print JSON.
        fix: whether to apply sure fixes to the files first; their number is printed on the standard
            error.
        inputs: inputs in the form `name=value`.
        arrays: a file of inputs that are arrays.
    """
    found: list[Diagnostic] = []
    # If the text of a file has errors, its indices and sizes were not checked.
    unbound = False
    if fix:
        for file in files:
            if str(file) == PIPED:
                continue  # The standard input cannot be rewritten.
            try:
                made = fix_file(Path(file))
            except GmlmError:
                continue  # The error is reported below.
            if made:
                print(f"{counted(made, 'edit')} in {file}", file=sys.stderr)
    for file in files:
        try:
            found += _found_in(file, inputs, arrays)
        except GmlmError as error:
            found += error.diagnostics
            unbound |= any(d.span is not None and d.code < "E4" for d in error.diagnostics)
    found = list(dict.fromkeys(found))
    errors = sum(d.severity == "error" for d in found)
    if as_json:
        import json

        print(json.dumps([d.as_dict() for d in found], indent=2))
    else:
        show(found, sys.stdout)
        print(("\n" if found else "") + _summary(errors, len(found) - errors, len(files)) + MORE * unbound)
    return 1 if errors else 0


def _found_in(file: str | Path, inputs: Sequence[str], arrays: Path | None) -> list[Diagnostic]:
    """Return the warnings of a file's text and, if it has no error, the diagnostics of binding."""
    program = check_file("<stdin>", stdin_text()) if str(file) == PIPED else check_file(file)
    given: dict[str, InputLike] = {}
    if inputs or arrays is not None:
        from ._program_arguments import read_inputs

        given = read_inputs(program, inputs, arrays)
    if not program.models:
        declared = (program.inputs, program.domains, program.index_sets, program.graphs, program.networks)
        if not any(declared):
            note(f"{file}: nothing is declared")
        return list(program.warnings)
    from ..plan import check_bound

    found, unseen = check_bound(program, given)
    for words in unseen:
        note(f"{file}: {words}")
    return [*program.warnings, *found]


def _summary(errors: int, warnings: int, files: int) -> str:
    parts = [counted(errors, "error")] * (errors > 0) + [counted(warnings, "warning")] * (warnings > 0)
    return f"{' and '.join(parts) or 'no faults'} in {counted(files, 'file')}"


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
