"""Packages that are used where they are installed, and named where they are not."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ._diagnostics import fail


def need(module: str, purpose: str, install: str, help: str = "") -> Any:
    """An optional module, imported when it is first needed.

    Args:
        module: its full name.
        purpose: what needs it, the beginning of a sentence: "scores need SacreBLEU".
        install: what `pip install` takes.
        help: what else could be done.

    Raises:
        GmlmError: E561 where it is not installed, or cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        why = f"pip install {install}" if absent else f"it is installed and cannot be imported: {error}"
        raise fail("E561", f"{purpose}: {why}", help=help) from None
