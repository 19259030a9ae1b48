"""Runs the blocks of pages, on real data where a page needs some, and keeps what they print and the pictures that they save.

    python docs/build_outputs.py [PAGE ..]

A page is named by its path from the project. The site shows each output below its block, from `outputs.json`: building it runs nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

if TYPE_CHECKING:
    from markdown_blocks import Block

KEPT = DOCS / "outputs.json"
PICTURES = DOCS / "how-to" / "pictures"
INSIDE = "--inside"


@cache
def kept() -> dict[str, list[dict[str, str]]]:
    """The kept outputs of each page, in the order of its blocks: the digest of the block, and its text."""
    return json.loads(KEPT.read_text(encoding="utf-8"))


def with_outputs(text: str, outputs: list[dict[str, str]]) -> str:
    """Return the text of a page with the output of each block below it, where the page does not show one itself."""
    from markdown_blocks import PLAIN, blocks_in

    blocks, lines, said = blocks_in(text), text.split("\n"), list(outputs)
    for block, after in reversed(list(zip_longest(blocks, blocks[1:]))):
        shown = said.pop()["text"] if said and said[-1]["block"] == block.digest else ""
        if shown and not (after is not None and after.language in PLAIN and _adjacent(block, after, lines)):
            fence = "`" * (3 + shown.count("```"))
            lines[block.end : block.end] = ["", f"{fence}{{code-block}} text", ":class: output", "", *shown.split("\n"), fence]
    return "\n".join(lines)


def _adjacent(block: Block, after: Block, lines: list[str]) -> bool:
    """Whether only one paragraph at most stands between two blocks: the page shows what the first prints."""
    between = "\n".join(lines[block.end : after.line - 1]).strip()
    return "\n\n" not in between and not between.startswith("#")


def pages() -> list[Path]:
    """The pages of the site with blocks that print."""
    from markdown_blocks import PAGES, blocks_of

    found = [ROOT / "README.md", *(p for p in PAGES if p.is_relative_to(DOCS))]
    return [p for p in found if any(b.prints for b in blocks_of(p))]


def run(page: Path) -> list[dict[str, str]]:
    """Run a page in a process and a folder of its own, beside the real files that it names; keep the pictures that it shows."""
    from documented_examples import examples
    from real_data import FOLDER, lacking

    data = [name for e in examples() if ROOT / e.name == page for name in e.data]
    for name in data:
        if why := lacking(name):
            raise SystemExit(why)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / page.stem
        folder.mkdir()
        for name in data:
            os.symlink(FOLDER / name, folder / name)
        out = Path(made) / "outputs.json"
        environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests"))), "CI": "1", "COLUMNS": "100"}
        subprocess.run([sys.executable, __file__, INSIDE, str(page), str(out)], cwd=folder, env=environment, check=True)
        for picture in sorted(folder.glob("*.png")):
            if (PICTURES / picture.name).exists():
                shutil.copy(picture, PICTURES)
        return [o | {"text": o["text"].replace(str(folder), ".")} for o in json.loads(out.read_text(encoding="utf-8"))]


def inside(page: str, out: str) -> None:
    """Run a page here, in this folder, and write its outputs."""
    from markdown_blocks import Output, in_its_own_process, run_page

    outputs: list[Output] = []
    run_page(Path(page), Path.cwd(), in_its_own_process, outputs)
    found: list[dict[str, Any]] = [{"block": o.block, "text": o.text} for o in outputs]
    Path(out).write_text(json.dumps(found), encoding="utf-8")


def main() -> None:
    """Run the pages that are named, or all, and keep what they print."""
    if sys.argv[1:2] == [INSIDE]:
        return inside(*sys.argv[2:])
    table = dict(kept())
    known = {str(p.relative_to(ROOT)): p for p in pages()}
    if unknown := set(sys.argv[1:]) - known.keys():
        raise SystemExit(f"no page with blocks that print: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    for name in sys.argv[1:] or known:
        table[name] = run(known[name])
        print(name, flush=True)
        KEPT.write_text(json.dumps({n: table[n] for n in known if n in table}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
