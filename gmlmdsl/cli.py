"""The command line: `gmlm`.

The commands are in `_commands.py` and `_translation_commands.py`; plain `gmlm check FILE..` answers without loading them.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The entry of the console script."""
    words = sys.argv[1:]
    try:
        if len(words) > 1 and words[0] == "check" and not any(w.startswith("-") for w in words):
            sys.exit(_check(words[1:]))
        from ._translation_commands import app  # those of `_commands.py` too

        app(prog_name="gmlm")
    except KeyboardInterrupt:
        sys.exit(130)


def _check(files: list[str]) -> int:
    from ._console import stop

    try:
        from ._check import check_files

        return check_files(files)
    except Exception as error:
        return stop(error)
