"""What the C library does with freed memory in the process of a command."""

from __future__ import annotations

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8  # of glibc's malloc.h
AHEAD = 1 << 26  # bytes that the heap grows by beyond what is asked for


def keep_freed_memory() -> None:
    """Keep freed memory for the next buffer in place of giving it back; a C library without glibc's `mallopt` is left as it is.

    A step of training on a CPU takes and frees buffers of hundreds of megabytes. Memory that was
    given back is cleared page by page when it is taken again: a seventh of the processor time of a
    run of 60 steps. One arena, for the heaps of others cannot grow so far. To be called before
    threads start: an arena that is there stays.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in ((M_ARENA_MAX, 1), (M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, -1), (M_TOP_PAD, AHEAD)):
            mallopt(parameter, value)
