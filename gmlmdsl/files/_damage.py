"""The exceptions that reading a damaged or foreign file can raise."""

from __future__ import annotations


def kinds_of_damage() -> tuple[type[Exception], ...]:
    """Return the exceptions that archives, packed parts, headers, numbers and texts raise.

    After `except`, the function is called only if an exception was raised. The exceptions come from
    unforeseen bytes, in functions of the standard library and of NumPy, so the list is broad. It is
    used only around calls of these functions, not around code of this package, which may have
    faults of its own.
    """
    import lzma
    import struct
    import tokenize
    import zipfile
    import zlib

    numbers = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError, SyntaxError, TypeError, ValueError)
    return (*numbers, EOFError, OSError, lzma.LZMAError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error)
