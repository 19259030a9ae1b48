"""The command line `gmlm`.

The commands are in `_commands.py` and `_translation_commands.py`. Plain `gmlm check FILE..` runs
without loading them.
"""

from __future__ import annotations

import sys

from ._console import ended, interruptible, settle_streams, stop


def main() -> None:
    """Run the command line; this is the entry point of the console script."""
    settle_streams()
    try:
        with interruptible():
            status = _run(sys.argv[1:])
    except KeyboardInterrupt:
        status = 130
    sys.exit(ended(status))


def _run(words: list[str]) -> int:
    """Run a command and return its exit status."""
    if len(words) > 1 and words[0] == "check" and not any(w.startswith("-") and w != "-" for w in words):
        return _check(words[1:])
    from ._freed_memory import keep_freed_memory

    keep_freed_memory()
    # This import registers the commands of `_commands.py` too.
    from ._translation_commands import app

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
