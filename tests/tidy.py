"""Says which text files are untidy: blanks at the end of a line, no newline or an empty line at the end, data that cannot be read.

    python tests/tidy.py

`make lint` runs it beside ruff, which looks at Python alone. Programs of the tests stay as people write them.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (".ci", ".github", "docs", "examples", "gmlmdsl", "grammar", "tests")
TEXT = {".css", ".gmlm", ".json", ".jsonl", ".lark", ".md", ".py", ".toml", ".yaml", ".yml"}
NAMES = {"LICENSE", "Makefile", "run", ".gitignore"}
AS_WRITTEN = ROOT / "tests" / "programs"
READ: dict[str, Callable[[str], object]] = {".json": json.loads, ".toml": tomllib.loads}


def texts() -> Iterator[Path]:
    """The text files at the top of the checkout, and of its folders."""
    found = [*ROOT.iterdir(), *(p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*")))]
    for path in found:
        if (path.suffix in TEXT or path.name in NAMES) and path.is_file() and not path.is_relative_to(AS_WRITTEN):
            yield path


def faults(path: Path) -> Iterator[str]:
    """What is untidy in a file, with its line."""
    try:
        text = path.read_bytes().decode()
        READ.get(path.suffix, str)(text)
    except ValueError as error:
        yield f"1: {error}"
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip(" \t\r"):
            yield f"{number}: blanks at the end of the line"
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        yield f"{len(text.splitlines())}: a file ends in one newline"


def main() -> int:
    """Print the faults; 1 where there are any."""
    found = [f"{path.relative_to(ROOT)}:{fault}" for path in texts() for fault in faults(path)]
    print("\n".join([*found, f"{len(found)} faults" if found else "all texts are tidy"]))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
