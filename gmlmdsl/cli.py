"""The command line: `gmlm`. The commands are in `_commands.py`; plain `gmlm check FILE..` answers without loading them."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry of the console script."""
    words = sys.argv[1:]
    if len(words) > 1 and words[0] == "check" and not any(w.startswith("-") for w in words):
        from ._console import stop

        try:
            from ._check import check_files

            status = check_files(words[1:])
        except (Exception, KeyboardInterrupt) as error:
            status = stop(error)
        sys.exit(status)
    from ._commands import app

    app(prog_name="gmlm")
