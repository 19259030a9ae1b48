"""Whether a bar is shown."""

from __future__ import annotations


def shows_progress(wanted: bool | None) -> bool:
    """Whether to show a bar: as wanted, or where a person watches."""
    import os
    import sys

    if wanted is not None:
        return wanted
    return sys.stderr.isatty() and not os.environ.get("CI")
