"""Runs the pages whose pictures their own blocks save, on real data where they name some, and keeps the pictures.

python docs/build_pictures.py [PAGE ..]
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests"))
PAGES = {"map-contacts": "DHFR.a2m", "draw-a-network": "house-votes-84.csv", "decode-with-a-likelihood": ""}


def build(page: str) -> list[Path]:
    """Run a page beside its real file, if it has one; the pictures that it made, kept in `how-to/pictures`."""
    from markdown_blocks import run_page
    from real_data import FOLDER, lacking

    data = PAGES[page]
    if data and (why := lacking(data)):
        raise SystemExit(why)
    with tempfile.TemporaryDirectory() as folder:
        if data:
            os.symlink(FOLDER / data, Path(folder) / data)
        run_page(DOCS / "how-to" / f"{page}.md", Path(folder))
        return [Path(shutil.copy(found, DOCS / "how-to" / "pictures")) for found in sorted(Path(folder).glob("*.png"))]


if __name__ == "__main__":
    for name in sys.argv[1:] or PAGES:
        print(*build(name), sep="\n")
