"""The treatment of freed memory by the C library in the process of a command."""

from __future__ import annotations

# These numbers are defined in glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8
AHEAD = 1 << 26  # Bytes by which the heap grows beyond each request.


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
        for parameter, value in ((M_ARENA_MAX, 1), (M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, -1), (M_TOP_PAD, AHEAD)):
            mallopt(parameter, value)
