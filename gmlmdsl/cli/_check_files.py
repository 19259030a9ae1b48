"""The command `gmlm check`, which prints every error and warning of every file.

It never imports JAX, and NumPy only to bind a program whose text has no error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .._diagnostics import Diagnostic, GmlmError, counted
from .._types import InputLike
from ..program import check_file
from ._console import note, show, stdin_text

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
        from ._fixes import fix_file

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
