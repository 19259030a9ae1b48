"""Functions of the user's own, named in a program as "package.module:name"."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .._diagnostics import Span, fail


def user_function(target: str, place: Span | None, called: str) -> Callable[..., Any]:
    """Import a function by its name; the caller verifies that the user allows it.

    Args:
        target: "package.module:name".
        place: where the program names it.
        called: how it is called, for messages.

    Raises:
        GmlmError: E744 if it cannot be imported or called.
    """
    module, _, name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # Importing runs the user's module, which may raise any exception.
        help = 'name a function that Python can import, as "package.module:name"; the module\'s folder must be on sys.path'
        raise fail("E744", f"`{target}` cannot be imported: {error}", place, "not found", help=help) from error
    if not callable(found):
        raise fail("E744", f"`{target}` is not a function", place, "cannot be called", help=called)
    return found


def user_counts(schedule: Callable[..., Any], cells: int, place: Span) -> np.ndarray:
    """Return how many of the cells each pass settles by a schedule of Python.

    Raises:
        GmlmError: E744 if the schedule raises, or returns no list of whole numbers.
    """
    try:
        counts = np.asarray(schedule(cells))
    except Exception as error:  # The function is the user's, and may raise any exception.
        message = f"the schedule cannot be called with {cells} cells: {type(error).__name__}: {error}"
        raise fail("E744", message, place, "called here") from error
    if counts.ndim != 1 or counts.dtype.kind not in "iu":
        message = f"the schedule must return a list of whole numbers, got {counts.dtype} of shape {counts.shape}"
        raise fail("E744", message, place, "called here", help="return how many cells each pass settles, such as `[1, 2, 3]` for 6 cells")
    return counts.astype(np.int64)
