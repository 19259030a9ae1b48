# What the laboratories share: how one runs and resumes, its tables, its verdicts, its pictures, and their place on the page.
#
# A laboratory is a list of named, independent parts, say one for each setting and seed. What a part returns is kept in OUT/results.json as
# it ends; a run that was killed goes on with the parts that are not there. A script ends with `sys.exit(laboratory.main(LAB))`.
import argparse
import fcntl
import io
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from gmlmdsl.files import write_whole
from gmlmdsl.report import _palette as palette

EXAMPLES = Path(__file__).resolve().parent
DOCS = Path(__file__).resolve().parents[1] / "docs" / "explanation"
PAGE = DOCS / "laboratories.md"
PLACE = re.compile(r"(<!-- numbers: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
SEED = re.compile(r"^(\d+) |, (\d+)$")  # in the name of a part that is of one seed
AGREE, DISAGREE, UNTESTED = "agree", "disagree", "not testable here"
LEAST_SEEDS, LEVEL = 5, 0.95
DPI, COLOURS = 130, 64  # of pictures: few colours keep them small
Results = Mapping[str, Any]  # by part, what it returned


@dataclass(frozen=True)
class Lab:
    """One laboratory.

    Attributes:
        name: of its folder of kept output beside the script, and how its places on the page and its pictures begin.
        folder: the script's.
        sizes: dataclasses of numbers, for "quick" (a check), "default" (minutes) and "larger".
        parts: by name, calls without arguments that return what JSON can hold; from a size and the folder of the output, where they may
            keep files of their own, weights say. What several need is made when the first asks for it.
        tables: by place on the page, Markdown; from results and size.
        draw: by name, pictures; from results and size.
    """

    name: str
    folder: Path
    sizes: Mapping[str, Any]
    parts: Callable[[Any, Path], Mapping[str, Callable[[], Any]]]
    tables: Callable[[Results, Any], Mapping[str, str]]
    draw: Callable[[Results, Any], Mapping[str, Figure]]

    @property
    def kept(self) -> Path:
        """The folder of the kept output."""
        return self.folder / self.name


def run(lab: Lab, size: Any, out: Path, say: Callable[[str], object] = print, share: tuple[int, int] = (1, 1)) -> dict[str, dict[str, Any]]:
    """Run the parts that are not kept yet; of a share (k, n) every n-th one from the k-th on, so that n processes do all of them.

    Returns:
        By part that is kept, in their order: "result", and "seconds" of the processor that it took.

    Raises:
        SystemExit: the folder holds results of another size.
    """
    path, parts = out / "results.json", lab.parts(size, out)
    kept = load(path, size)
    out.mkdir(parents=True, exist_ok=True)
    for number, (name, part) in enumerate(parts.items(), 1):
        if name in kept or (number - share[0]) % share[1]:
            continue
        began = time.process_time()
        found = {"result": part(), "seconds": round(time.process_time() - began, 2)}
        with alone(out):
            kept = load(path, size) | {name: found}
            text = ",\n".join(f"{json.dumps(k)}: {json.dumps(kept[k], allow_nan=False)}" for k in sorted(kept, key=list(parts).index))
            write_whole(path, f'{{"size": {json.dumps(asdict(size))},\n"parts": {{\n{text}\n}}}}\n'.encode())
        say(f"{number}/{len(parts)} {name}: {found['seconds']:.1f} s")
    return {name: kept[name] for name in parts if name in kept}


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """No other process is in here with the same folder; the lock goes with the process that holds it."""
    with (out / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def load(path: Path, size: Any) -> dict[str, dict[str, Any]]:
    """What is kept of a size, by part; nothing where there is no file."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    if found["size"] != asdict(size):
        raise SystemExit(f"{path} holds results of another size, {found['size']}: name another folder with --out, or remove it")
    return found["parts"]


def spread(values: Sequence[float], digits: int = 3, scale: float = 1.0) -> str:
    """The mean of numbers, one a seed, to so many significant digits, and the half width of its interval at 95 % by Student's t."""
    values = scale * np.asarray(values, float)
    mean = float(values.mean())
    if len(values) < 2:
        return f"{mean:.{digits}g}"
    return f"{mean:.{digits}g} ± {_half_width(values):.2g}"


def less(smaller: Sequence[float], larger: Sequence[float]) -> str:
    """Whether numbers, one a seed, are smaller than others of the same seeds.

    Returns:
        `AGREE` or `DISAGREE` where the interval at 95 % of the mean difference, by Student's t, lies on one side of 0; else, and with fewer
        than five seeds, `UNTESTED`.
    """
    away = np.asarray(larger, float) - np.asarray(smaller, float)
    if len(away) < LEAST_SEEDS:
        return UNTESTED
    mean, half = away.mean(), _half_width(away)
    return AGREE if mean > half else DISAGREE if mean < -half else UNTESTED


def ordered(*rising: Sequence[float]) -> str:
    """Whether columns of numbers, one a seed, rise from one to the next: `DISAGREE` where any two do, `AGREE` where all agree."""
    return together([less(a, b) for a, b in itertools.pairwise(rising)])


def together(verdicts: Sequence[str]) -> str:
    """One verdict of several: the worst."""
    return next((v for v in (DISAGREE, UNTESTED) if v in verdicts), AGREE)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (heads, ["---"] * len(heads), *rows))


def filled(page: str, name: str, tables: Mapping[str, str]) -> str:
    """The page with fresh tables in the places whose names begin with `name-`; each table has a place, and each place a table."""
    places = [found[2] for found in PLACE.finditer(page) if found[2].startswith(f"{name}-")]
    if sorted(places) != sorted(tables):
        raise SystemExit(f"the page has places for {sorted(places)}, and the tables are {sorted(tables)}")
    return PLACE.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n\n{found[3]}" if found[2] in tables else found[0], page)


def times(lab: Lab, kept: Mapping[str, Mapping[str, Any]]) -> str:
    """What the parts took, in all, and what all seeds took beside the first, for which everything is compiled."""
    said = f"{lab.name}: {len(kept)} parts, {sum(part['seconds'] for part in kept.values()) / 60:.1f} minutes of the processor"
    seeds: dict[int, float] = {}
    for name, part in kept.items():
        if found := SEED.search(name):
            seed = int(found[1] or found[2])
            seeds[seed] = seeds.get(seed, 0.0) + part["seconds"]
    if len(seeds) < 2 or not seeds.get(0):
        return said
    return f"{said}; its {len(seeds)} seeds took {sum(seeds.values()) / seeds[0]:.1f} times as long as the first"


def all_times() -> str:
    """What all kept output took."""
    found = [json.loads(path.read_text(encoding="utf-8"))["parts"] for path in sorted(EXAMPLES.glob("*/*/results.json"))]
    seconds = sum(part["seconds"] for parts in found for part in parts.values())
    return f"all laboratories: {sum(map(len, found))} parts, {seconds / 60:.0f} minutes of the processor"


def save(figure: Figure, path: Path) -> None:
    """A PNG on white with few colours."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="white")
    image = Image.open(buffer).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


def main(lab: Lab, words: Sequence[str] | None = None) -> int:
    """The command line of a laboratory: run, print the tables and the time, draw the pictures; returns the exit status."""
    parser = argparse.ArgumentParser(description=f"Laboratory: {lab.name}. A run that was killed goes on when the same call is made again.")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a check, about two minutes at most, in a folder of its own")
    size.add_argument("--larger", action="store_true", help="nearer to the published sizes, in a folder of its own")
    parser.add_argument("--out", type=Path, default=lab.kept, help="where results.json and the pictures are written")
    parser.add_argument("--page", action="store_true", help=f"also write the tables into {PAGE.name}, and the pictures beside it")
    parser.add_argument("--share", default="1/1", metavar="K/N", help="run every N-th part from the K-th on: N processes share the work")
    options = parser.parse_args(words)
    share = tuple(int(k) for k in options.share.split("/"))
    chosen = "quick" if options.quick else "larger" if options.larger else "default"
    if chosen != "default" and (options.out == lab.kept or options.page):
        parser.error(f"--{chosen} needs --out, and no --page: the page has the numbers of the default size")
    kept = run(lab, lab.sizes[chosen], options.out, lambda line: print(line, flush=True), share)
    if lacking := len(lab.parts(lab.sizes[chosen], options.out)) - len(kept):
        print(f"{lacking} parts of the other shares are not there yet: the same call without --share makes the tables")
        return 0
    results = {name: part["result"] for name, part in kept.items()}
    tables = {**lab.tables(results, lab.sizes[chosen]), f"{lab.name}-time": times(lab, kept)}
    print(*(f"\n{name}\n\n{table}" for name, table in tables.items()), sep="\n")
    pictures = PAGE.parent / "laboratories" if options.page else options.out
    pictures.mkdir(parents=True, exist_ok=True)
    with palette.house_style():
        for name, figure in lab.draw(results, lab.sizes[chosen]).items():
            save(figure, pictures / f"{lab.name}-{name}.png")
            print(f"wrote {pictures / f'{lab.name}-{name}.png'}")
    if options.page:
        page = filled(PAGE.read_text(encoding="utf-8"), lab.name, tables)
        PAGE.write_text(filled(page, "laboratories", {"laboratories-time": all_times()}), encoding="utf-8")
    return 0


def _half_width(values: np.ndarray) -> float:
    """Of the interval of a mean."""
    n = len(values)
    return float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
