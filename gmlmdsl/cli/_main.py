"""The command line: `gmlm`.

The commands are in `_commands.py` and `_translation_commands.py`; plain `gmlm check FILE..` answers
without loading them.
"""

from __future__ import annotations

import sys

from ._console import ended, interruptible, settle_streams, stop


def main() -> None:
    """The entry of the console script."""
    settle_streams()
    try:
        with interruptible():
            status = _run(sys.argv[1:])
    except KeyboardInterrupt:
        status = 130
    sys.exit(ended(status))


def _run(words: list[str]) -> int:
    """The exit status of a command."""
    if len(words) > 1 and words[0] == "check" and not any(w.startswith("-") and w != "-" for w in words):
        return _check(words[1:])
    from ._freed_memory import keep_freed_memory

    keep_freed_memory()
    from ._translation_commands import app  # those of `_commands.py` too

    try:
        app(prog_name="gmlm")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _check(files: list[str]) -> int:
    try:
        from ._check_files import check_files

        return check_files(files)
    except Exception as error:
        return stop(error)
