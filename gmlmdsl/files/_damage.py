"""What reading raises where a file is damaged, or is another one under this name."""

from __future__ import annotations


def kinds_of_damage() -> tuple[type[Exception], ...]:
    """What archives, packed parts, headers, numbers and texts raise; behind `except` it is called only where something was raised.

    These come of bytes that nobody foresaw, below functions of the standard library and of NumPy,
    so the list is wide; it stands around calls of these, and around nothing of this package that
    may have faults of its own.
    """
    import lzma
    import struct
    import tokenize
    import zipfile
    import zlib

    numbers = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError, SyntaxError, TypeError, ValueError)
    return (*numbers, EOFError, OSError, lzma.LZMAError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error)
