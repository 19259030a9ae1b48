# Draws every picture of the page beside it and fills in its tables: `python examples/labs/gallery/build.py [--out DIR] [--small]`.
import argparse
import importlib
import os
import re
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of matrices this small: threads wait for one another more than they work
import pictures

PAGE = pictures.HERE / "README.md"
PARTS = ("estimation", "hitting", "theorems", "adaptive", "parallel")
PLACE = re.compile(r"(<!-- numbers: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)


def filled(page: str, tables: dict[str, pictures.Table]) -> str:
    """The page with fresh tables between its marks; each table has a place, and each place a table."""
    places = [found[2] for found in PLACE.finditer(page)]
    if sorted(places) != sorted(tables):
        raise SystemExit(f"{PAGE.name} has places for {sorted(places)}, and the tables are {sorted(tables)}")
    return PLACE.sub(lambda found: found[1] + "\n" + tables[found[2]].markdown() + "\n\n" + found[3], page)


def build(out: Path = PAGE.parent, small: bool = False) -> dict[str, object]:
    """Compute, draw and write; returns what was computed, by part."""
    computed, tables = {}, {}
    (out / "figures").mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        part, began = importlib.import_module(name), time.perf_counter()
        computed[name] = part.compute(small)
        tables |= {t.name: t for t in part.tables(computed[name])}
        with pictures.style():
            for title, figure in part.draw(computed[name]).items():
                pictures.save(figure, out / "figures" / f"{title}.png")
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    (out / PAGE.name).write_text(filled(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
    return computed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw the pictures of the gallery and fill in its tables of numbers.")
    parser.add_argument("--out", type=Path, default=PAGE.parent, help=f"where {PAGE.name} and figures/ are written")
    parser.add_argument("--small", action="store_true", help="few models, rows and chains: a check, in a folder of its own")
    options = parser.parse_args()
    if options.small and options.out == PAGE.parent:
        parser.error("--small needs --out: its numbers are not for the page")
    build(options.out, options.small)
