"""The command line `gmlm`.

The commands are in `_commands.py` and `_translation_commands.py`. Plain `gmlm check FILE..` runs
without loading them.
"""

from __future__ import annotations

import sys

from ._console import ended, interruptible, settle_streams, stop
from .limits import HEAP_AHEAD

# These numbers are defined in glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8


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


def keep_freed_memory() -> None:
    """Keep freed memory for the next buffer instead of returning it to the system.

    A training step on a CPU allocates and frees buffers of hundreds of megabytes. Returned memory
    is cleared page by page when it is allocated again. This took a seventh of the processor time of
    a run of 60 steps. There is only one arena, because the heaps of further arenas cannot grow as
    large. The function must be called before threads start, since an existing arena stays. It does
    nothing if the C library lacks glibc's `mallopt`.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in ((M_ARENA_MAX, 1), (M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, -1), (M_TOP_PAD, HEAP_AHEAD)):
            mallopt(parameter, value)
