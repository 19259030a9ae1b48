# What the laboratories share: how one runs and resumes, its tables, its verdicts, its pictures, and their place on the page.
#
# A laboratory is a list of named, independent parts, say one for each setting and seed. What a part returns is kept in OUT/results.json as
# it ends; a run that was killed goes on with the parts that are not there. `python examples/labs NAME` runs the one that the script NAME.py
# returns from `lab()`.
import argparse
import fcntl
import io
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from gmlmdsl.files import write_whole
from gmlmdsl.report import _palette as palette

LABS = Path(__file__).resolve().parent
PAGE = LABS / "README.md"  # of all laboratories; each has one of its own
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
        name: of its script and of its folder of kept output, and how its places on the page and its pictures begin.
        folder: the script's, where its page, its pictures and its kept output are.
        sizes: dataclasses of numbers, for "quick" (a check), "default" (minutes) and "larger".
        parts: by name, calls without arguments that return what JSON can hold; from a size and the folder of the output, where they may
            keep files of their own, weights say. What several need is made when the first asks for it.
        tables: by place on the page, Markdown; from results and size.
        draw: by name, pictures; from results and size.
        settings: what the parts depend on beside the size, as JSON can hold it: rates, shares, what is varied.
    """

    name: str
    folder: Path
    sizes: Mapping[str, Any]
    parts: Callable[[Any, Path], Mapping[str, Callable[[], Any]]]
    tables: Callable[[Results, Any], Mapping[str, str]]
    draw: Callable[[Results, Any], Mapping[str, Figure]]
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> Path:
        """The folder of the kept output."""
        return self.folder / "kept" / self.name

    @property
    def page(self) -> Path:
        """What was found, with a place for each table."""
        return self.folder / "README.md"

    @property
    def figures(self) -> Path:
        """The folder of the page's pictures."""
        return self.folder / "figures"


def run(lab: Lab, size: Any, out: Path, say: Callable[[str], object] = print, share: tuple[int, int] = (1, 1)) -> dict[str, dict[str, Any]]:
    """Run the parts that are not kept yet; of a share (k, n) every n-th one from the k-th on, so that n processes do all of them.

    Returns:
        By part that is kept, in their order: "result", and "seconds" of the processor that it took.

    Raises:
        SystemExit: the folder holds results of another size, or of other settings.
    """
    path, parts = out / "results.json", lab.parts(size, out)
    kept = load(path, size, lab.settings)
    out.mkdir(parents=True, exist_ok=True)
    for number, (name, part) in enumerate(parts.items(), 1):
        if name in kept or (number - share[0]) % share[1]:
            continue
        began = time.process_time()
        found = {"result": part(), "seconds": round(time.process_time() - began, 2)}
        with alone(out):
            kept = load(path, size, lab.settings) | {name: found}
            write_whole(path, written(size, lab.settings, {k: kept[k] for k in sorted(kept, key=list(parts).index)}).encode())
        say(f"{number}/{len(parts)} {name}: {found['seconds']:.1f} s")
    return {name: kept[name] for name in parts if name in kept}


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """No other process is in here with the same folder; the lock goes with the process that holds it."""
    with (out / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def written(size: Any, settings: Mapping[str, Any], kept: Mapping[str, Any]) -> str:
    """The text of results.json: a line for each part."""
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(part, allow_nan=False)}" for name, part in kept.items())
    return f'{{"size": {json.dumps(asdict(size))},\n"settings": {json.dumps(settings)},\n"parts": {{\n{text}\n}}}}\n'


def load(path: Path, size: Any, settings: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """What is kept of a size and settings, by part; nothing where there is no file."""
    if not path.exists():
        return {}
    cure = "name another folder with --out, or remove the folder"  # weights beside it are of that size too
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        parts = dict(found["parts"])
        mine = json.loads(json.dumps({"size": asdict(size), "settings": settings or {}}))
        pairs = {"size": (found["size"], mine["size"]), "settings": (found.get("settings", {}), mine["settings"])}
        differing = {name: sorted(k for k in {*old, *new} if old.get(k) != new.get(k)) for name, (old, new) in pairs.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SystemExit(f"{path} is no results.json of a laboratory, or is damaged: {cure}") from None
    for name, keys in differing.items():
        if keys:
            raise SystemExit(f"{path} holds results of {'another' if name == 'size' else 'other'} {name}, by {', '.join(keys)}: {cure}")
    return parts


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


def yes(smaller: Sequence[float], larger: Sequence[float]) -> str:
    """The same in words, where nothing is published that could agree: yes, no, or open."""
    return {AGREE: "yes", DISAGREE: "no"}.get(less(smaller, larger), "open")


def ordered(*rising: Sequence[float]) -> str:
    """Whether columns of numbers, one a seed, rise from one to the next: `DISAGREE` where any two do, `AGREE` where all agree."""
    return together([less(a, b) for a, b in itertools.pairwise(rising)])


def together(verdicts: Sequence[str]) -> str:
    """One verdict of several: the worst; of none, `UNTESTED`."""
    return next((v for v in (DISAGREE, UNTESTED) if v in verdicts), AGREE if verdicts else UNTESTED)


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
    """What all kept output took, by laboratory, the longest first."""
    found = {path.parent.name: json.loads(path.read_text(encoding="utf-8"))["parts"] for path in LABS.glob("*/kept/*/results.json")}
    took = {name: sum(part["seconds"] for part in parts.values()) / 60 for name, parts in found.items()}
    rows = [[name, len(found[name]), f"{took[name]:.1f}"] for name in sorted(found, key=lambda name: -took[name])]
    rows.append(["all laboratories", sum(map(len, found.values())), f"{sum(took.values()):.0f}"])
    return markdown(["laboratory", "parts", "minutes of the processor"], rows)


def save(figure: Figure, path: Path) -> None:
    """A PNG on white with few colours."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="white")
    image = Image.open(buffer).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


def main(lab: Lab, words: Sequence[str] | None = None) -> int:
    """The command line of a laboratory: run, print the tables and the time, draw the pictures; returns the exit status."""
    said = f"Laboratory: {lab.name}. A run that was killed goes on when the same call is made again."
    parser = argparse.ArgumentParser(prog=f"python examples/labs {lab.name}", description=said)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a check, about two minutes at most, in a folder of its own")
    size.add_argument("--larger", action="store_true", help="nearer to the published sizes, in a folder of its own")
    parser.add_argument("--out", type=Path, default=lab.kept, help="where results.json and the pictures are written")
    parser.add_argument("--page", action="store_true", help="also write the tables into its page, and the pictures beside it")
    parser.add_argument(
        "--share", type=_share, default=(1, 1), metavar="K/N", help="run every N-th part from the K-th on: N processes share the work"
    )
    options = parser.parse_args(words)
    chosen = "quick" if options.quick else "larger" if options.larger else "default"
    into_kept = options.out.resolve() == lab.kept.resolve()
    if chosen not in lab.sizes:
        parser.error(f"{lab.name} has no size for --{chosen}; it has {', '.join(lab.sizes)}")
    if chosen != "default" and (into_kept or options.page):
        parser.error(f"--{chosen} needs --out, and no --page: the page has the numbers of the default size")
    if options.page and not into_kept:
        parser.error(f"--page takes no --out: the page has the numbers that are kept in {lab.kept}")
    if not next(p for p in (options.out, *options.out.resolve().parents) if p.exists()).is_dir():
        parser.error(f"--out {options.out}: there is a file where a folder is wanted")
    kept = run(lab, lab.sizes[chosen], options.out, lambda line: print(line, flush=True), options.share)
    if lacking := len(lab.parts(lab.sizes[chosen], options.out)) - len(kept):
        print(f"{lacking} parts of the other shares are not there yet: the same call without --share makes the tables")
        return 0
    results = {name: part["result"] for name, part in kept.items()}
    tables = {**lab.tables(results, lab.sizes[chosen]), f"{lab.name}-time": times(lab, kept)}
    print(*(f"\n{name}\n\n{table}" for name, table in tables.items()), sep="\n")
    pictures = lab.figures if options.page else options.out
    if into_kept and not options.page:  # the folder is in the repository
        print(f"the pictures of these results are in {lab.figures}; --page draws them, and --out draws into its folder")
        return 0
    pictures.mkdir(parents=True, exist_ok=True)
    with palette.house_style():
        for name, figure in lab.draw(results, lab.sizes[chosen]).items():
            save(figure, pictures / f"{lab.name}-{name}.png")
            print(f"wrote {pictures / f'{lab.name}-{name}.png'}")
    if options.page:
        for page, name, own in ((lab.page, lab.name, tables), (PAGE, "laboratories", {"laboratories-time": all_times()})):
            page.write_text(filled(page.read_text(encoding="utf-8"), name, own), encoding="utf-8")
    return 0


def _share(text: str) -> tuple[int, int]:
    """K and N of "K/N", as the command line takes it."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no K/N with whole numbers 1 <= K <= N, such as 1/2")
    return int(found[1]), int(found[2])


def _half_width(values: np.ndarray) -> float:
    """Of the interval of a mean."""
    n = len(values)
    return float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
