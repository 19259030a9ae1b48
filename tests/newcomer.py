"""Repeats the page of a newcomer, docs/tutorial/first-hour.md, from an empty folder, and writes the times of its commands into the page.

    python tests/newcomer.py

It installs the package in a new environment (from the package index), and needs the real data of `real_data.py`.
"""

from __future__ import annotations

import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from documented_examples import SLOW, measured
from markdown_blocks import ROOT, blocks_of
from real_data import FOLDER

PAGE = ROOT / "docs" / "tutorial" / "first-hour.md"
PAIRS = 5000
MOST = 1800  # processor seconds of a command: nine times what the longest took; other work on the machine does not count


def commands() -> list[str]:
    """The commands of the page in their order; a block of Python is one command, but not the one that makes a table."""
    found = []
    for block in blocks_of(PAGE):
        if block.language == "python" and "exists()" not in block.text:
            found.append(f"python - <<'END'\n{block.text}END")
        elif block.language != "python":
            found += [line.replace("./gmlmdsl", str(ROOT)) for line in block.text.splitlines() if re.match("gmlm|echo|python|venv", line)]
    return found


def put_files(folder: Path) -> None:
    """Put the files into the folder that a newcomer brings."""
    shutil.copy(FOLDER / "house-votes-84.csv", folder)
    for language in ("en", "de"):
        with gzip.open(FOLDER / "multi30k-en-de" / f"train.{language}.gz", "rt", encoding="utf-8") as text:
            lines = [next(text) for _ in range(PAIRS)]
        (folder / f"captions.{language}").write_text("".join(lines), encoding="utf-8")


def run(command: str, folder: Path) -> tuple[float, float]:
    """Run a command; return its seconds on the clock and of the processor."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JAX"))}
    environment |= {
        "PATH": f"{folder}/venv/bin:{os.environ['PATH']}",
        "XDG_CACHE_HOME": f"{folder}/cache",
        "PIP_CACHE_DIR": f"{folder}/pip",
    }
    start = time.monotonic()
    limited = f"ulimit -t {MOST}\n{command}"  # the system stops a process that has used more
    status, processor = measured(["bash", "-c", limited], SLOW * MOST, cwd=folder, env=environment)
    if status:
        clock = time.monotonic() - start
        sys.exit(f"status {status} after {clock:.0f} s and {processor:.0f} processor seconds (at most {MOST}): {command}")
    return time.monotonic() - start, processor


def shown(command: str) -> str:
    """The command as the table names it."""
    return "the Python code" if "\n" in command else f"`{re.sub(r'[|]', 'to', command.replace(str(ROOT), './gmlmdsl'))}`"


def main() -> None:
    load = os.getloadavg()[0]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        put_files(folder)
        rows = [(shown(c), *run(c, folder)) for c in commands()]
    python = platform.python_version()
    table = "\n".join(f"| {name} | {clock:.1f} | {processor:.1f} |" for name, clock, processor in rows)
    text = f"""<!-- times -->
{time.strftime("%Y-%m-%d")}, commit {commit}, Python {python}, {os.cpu_count()} cores with a load of {load:.1f} at the start:

| command | seconds on the clock | processor seconds |
|---|--:|--:|
{table}
<!-- end of times -->"""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub("<!-- times -->.*<!-- end of times -->", lambda _: text, page, flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main()
