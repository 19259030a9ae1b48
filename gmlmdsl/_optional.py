"""Optional packages: imported if they are installed, otherwise named in an error."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._diagnostics import fail

if TYPE_CHECKING:
    from types import ModuleType


def need(module: str, purpose: str, install: str, help: str = "") -> ModuleType:
    """Import an optional module when it is first needed, and return it.

    Args:
        module: its full name.
        purpose: the feature that needs the module, as the beginning of a sentence: "scores need
            SacreBLEU".
        install: the argument of `pip install`.
        help: an alternative for the user.

    Raises:
        GmlmError: E561 if the module is not installed or cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        why = f"pip install {install}" if absent else f"it is installed and cannot be imported: {error}"
        raise fail("E561", f"{purpose}: {why}", help=help) from None
