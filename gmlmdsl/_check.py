"""`gmlm check`: every error and warning of every file. It imports neither NumPy nor JAX, nor the command line's own library."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ._console import show
from ._diagnostics import GmlmError
from .program import check_file


def check_files(files: Sequence[str | Path], as_json: bool = False) -> int:
    """Print what is found in some files; the exit status: 1 where there is an error, warnings leave 0."""
    found = []
    for file in files:
        try:
            found += check_file(file).warnings
        except GmlmError as error:
            found += error.diagnostics
    found = list(dict.fromkeys(found))
    errors = sum(d.severity == "error" for d in found)
    if as_json:
        import json

        print(json.dumps([d.as_dict() for d in found], indent=2))
    else:
        show(found, sys.stdout)
        print(("\n" if found else "") + _summary(errors, len(found) - errors, len(files)))
    return 1 if errors else 0


def _summary(errors: int, warnings: int, files: int) -> str:
    def count(n: int, what: str) -> str:
        return f"{n} {what}{'s' * (n != 1)}"

    parts = [count(errors, "error")] * (errors > 0) + [count(warnings, "warning")] * (warnings > 0)
    return f"{' and '.join(parts) or 'no faults'} in {count(files, 'file')}"
