# Writes the tables of the page beside it from the results of ablate.py: `python examples/labs/transduction/table.py`.
import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from ablate import BASE, GROUPS, HERE, OUT, Setting, Size

PAGE = HERE / "README.md"
PLACE = re.compile(r"(<!-- numbers: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
# What Li et al. 2024 recommend: the part of the table, the row, the words.
CLAIMS = {
    "true tokens kept": ("15 %", "15 % of the tokens stay true in training, 85 % become random"),
    "stages": ("2", "two stages of training"),
    "start, with noise to match": ("uniform", "decoding starts from random tokens"),
    "positional attention": ("on", "positional attention in the decoder"),
    "vocabulary": ("own", "a vocabulary learnt from the two languages themselves"),
    "remask": ("stutter", "repeated tokens are replaced between passes"),
    "passes": ("4", "four passes"),
    "lengths tried": ("5", "several lengths are tried"),
}
# The language's own defaults, as rows of the table.
DEFAULTS = {
    "`noise`: what is kept": ("true tokens kept", "0 %"),
    "`stages`": ("stages", "1"),
    "`start`, and `noise` to match": ("start, with noise to match", "hide"),
    "`positional_attention`": ("positional attention", "on"),
    "`position_embeddings`": ("position embeddings", "off"),
    "`remask`": ("remask", "none"),
    "`steps`": ("passes", "4"),
    "`lengths`": ("lengths tried", "1"),
}
TOLD = "the true one"  # a length that no decoder knows: never an alternative
Results = Mapping[str, Mapping[int, dict]]  # by setting, by seed


def read(path: Path, size: Size) -> Results:
    """The results of one size."""
    found: dict[str, dict[int, dict]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["size"] == asdict(size):
            found.setdefault(_key(row["setting"]), {})[row["seed"]] = row
    return found


def of(results: Results, setting: Setting) -> dict[int, dict]:
    return dict(results.get(_key(asdict(setting)), {}))


def valid(results: Results, setting: Setting) -> dict[int, float]:
    """The share of valid outputs, by seed."""
    return {seed: row["scores"]["valid"] for seed, row in of(results, setting).items()}


def better(results: Results, one: Setting, other: Setting) -> int:
    """1 where one setting has more valid outputs than the other with every seed, -1 where it has fewer with every seed, else 0."""
    a, b = valid(results, one), valid(results, other)
    signs = {np.sign(a[seed] - b[seed]) for seed in a.keys() & b.keys()}
    return int(signs.pop()) if len(signs) == 1 else 0


def verdict(results: Results, group: str, name: str) -> tuple[str, list[str]]:
    """Whether the table agrees with a recommendation, and the alternatives that decide it.

    Disagree: some alternative is better with every seed. Agree: none is, and some is worse with every seed. Undecided: neither.
    """
    rows = GROUPS[group]
    others = {k: better(results, rows[name], setting) for k, setting in rows.items() if k not in (name, TOLD)}
    above, below = ([k for k, sign in others.items() if sign == s] for s in (-1, 1))
    return ("disagree", above) if above else ("agree", below) if below else ("undecided", [])


def spread(values: Sequence[float], scale: float = 1.0, digits: int = 1) -> str:
    """The mean ± the standard deviation over seeds."""
    if not len(values):
        return "—"
    sd = f" ± {scale * np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{scale * np.mean(values):.{digits}f}{sd}"


def ablations(results: Results) -> str:
    """Every row of the table."""
    heads = ("varied", "value", "valid, %", "disagreeing, %", "stutter per 1,000 words", "lost doubles, %", "possible length, %")
    heads += ("loss, nats", "least possible", "training, s", "decoding, ms a sentence")
    rows = []
    for group, settings in GROUPS.items():
        for k, (name, setting) in enumerate(settings.items()):
            found = list(of(results, setting).values())
            scores = [_column(found, lambda r, s=s: r["scores"][s]) for s in ("valid", "disagreement", "stutter", "lost_doubles", "length")]
            shown = [spread(v, scale) for v, scale in zip(scores, (100, 100, 1, 100, 100), strict=True)]
            shown.append(spread(_column(found, lambda r: r["loss"]), digits=2))
            least = [r["least_loss"] for r in found if r["least_loss"] is not None]
            shown.append(f"{np.mean(least):.2f}" if least else "—")
            shown.append(spread(_column(found, lambda r: r["train_seconds"]), digits=0))
            shown.append(spread(_column(found, lambda r: r["decode_seconds"] / r["size"]["tested"]), 1000))
            rows.append([group if k == 0 else "", f"**{name}**" if setting == BASE else name, *shown])
    return markdown(heads, rows)


def recommendations(results: Results) -> str:
    """The paper's recommendations beside the table."""
    rows = []
    for group, (name, words) in CLAIMS.items():
        settings = GROUPS[group]
        alternatives = "; ".join(f"{k}: {_percent(results, s)}" for k, s in settings.items() if k not in (name, TOLD))
        found, by = verdict(results, group, name)
        why = {"agree": "better than ", "disagree": "worse than ", "undecided": ""}[found] + ", ".join(by)
        rows.append([words, _percent(results, settings[name]), alternatives, found, why])
    return markdown(("recommended", "valid, %", "instead", "verdict", "with every seed"), rows)


def defaults(results: Results) -> str:
    """Whether the language's defaults are rows that the table supports."""
    rows = []
    for option, (group, name) in DEFAULTS.items():
        found, by = verdict(results, group, name)
        missing = [k for k, s in GROUPS[group].items() if not valid(results, s)]
        shown = by if found == "disagree" else [f"{k} has not been run" for k in missing] or ["none"]
        rows.append([option, name, _percent(results, GROUPS[group][name]), ", ".join(shown)])
    return markdown(("option", "default", "valid, %", "better with every seed"), rows)


def bounds(possible: Mapping[str, Mapping[str, float]]) -> str:
    """What is possible, see `ablate.possible`."""
    passes = ("1", "2", "4", "10")
    rows = []
    for title, found in possible.items():
        single = found.get("")
        shown = [f"{100 * found[p]:.1f}" if p in found else "" for p in passes]
        rows.append([title, "" if single is None else f"{single:.2f}", *shown])
    return markdown(("exact", "nats", *(f"valid, %, passes = {p}" for p in passes)), rows)


def numbers(results: Results, size: Size) -> str:
    """What was run."""
    every = [row for by_seed in results.values() for row in by_seed.values()]
    trainings = {(json.dumps(Setting(**r["setting"]).trained, sort_keys=True), r["seed"]): r["train_seconds"] for r in every}
    seeds = sorted({r["seed"] for r in every})
    rows = [
        ["seeds", ", ".join(map(str, seeds))],
        ["trainings", str(len(trainings))],
        ["seconds of all trainings", f"{sum(trainings.values()):,.0f}"],
        *([k.replace("_", " "), f"{v:,}"] for k, v in asdict(size).items()),
    ]
    return markdown(("of this run", "value"), rows)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def tables(folder: Path, size: Size) -> dict[str, str]:
    """Every table of the page, by the name of its place, from the files that ablate.py wrote."""
    results = read(folder / "results.jsonl", size)
    return {
        "possible": bounds(json.loads((folder / "possible.json").read_text(encoding="utf-8"))),
        "ablations": ablations(results),
        "recommendations": recommendations(results),
        "defaults": defaults(results),
        "run": numbers(results, size),
    }


def filled(page: str, tables: Mapping[str, str]) -> str:
    """The page with fresh tables between its marks; each table has a place, and each place a table."""
    places = [found[2] for found in PLACE.finditer(page)]
    if sorted(places) != sorted(tables):
        raise SystemExit(f"the page has places for {sorted(places)}, and the tables are {sorted(tables)}")
    return PLACE.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n\n{found[3]}", page)


def main(folder: Path = OUT, page: Path = PAGE, size: Size | None = None) -> str:
    """Fill in a page; returns its text."""
    text = filled(page.read_text(encoding="utf-8"), tables(folder, Size() if size is None else size))
    page.write_text(text, encoding="utf-8")
    return text


def _column(rows: Sequence[dict], what: Callable[[dict], float]) -> list[float]:
    return [what(row) for row in rows]


def _percent(results: Results, setting: Setting) -> str:
    return spread(list(valid(results, setting).values()), 100)


def _key(setting: dict) -> str:
    return json.dumps(asdict(Setting(**setting)), sort_keys=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fill in the tables of the page on ablations.")
    parser.add_argument("--results", type=Path, default=OUT, help="the folder that ablate.py wrote")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    main(options.results, options.page)
