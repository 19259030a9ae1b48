"""The table of forms by places: how often the programs of a run put each form into each place, and what the contract says of it.

python tests/generated/_table.py [--programs 1000] [--seed 1] [--every]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from generated._forms import FORMS
from generated._positions import POSITIONS
from generated._programs import pairs, programs


def counts(seed: int, count: int) -> Counter[tuple[str, str]]:
    """How often a run of programs puts each form into each place on purpose."""
    return Counter(pair for p in programs(seed, count) for pair in p.instances)


def lines(found: Counter[tuple[str, str]]) -> list[str]:
    """For each place: how many forms must be taken there, how often they stood there, the least of any; and what may or must not."""
    must, may, never = (pairs(kind) for kind in ("must", "may", "never"))
    rows = ["| place | forms | placed | least | perhaps | refused |", "|---|---|---|---|---|---|"]
    for name in POSITIONS:
        own = [found[f, p] for f, p in must if p == name]
        other = [sum(p == name for _, p in kind) for kind in (may, never)]
        rows.append(f"| {name} | {len(own)} | {sum(own)} | {min(own, default=0)} | {other[0]} | {other[1]} |")
    return rows


def main() -> None:
    """Print the table; with `--every` each form and place with its count."""
    parser = argparse.ArgumentParser(description="counts of forms by places")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", action="store_true")
    options = parser.parse_args()
    found = counts(options.seed, options.programs)
    print(f"{len(FORMS)} forms, {len(POSITIONS)} places, {options.programs} programs")
    print("\n".join(lines(found)))
    if options.every:
        print("\n".join(f"{found[pair]:5d}  {pair[0]} | {pair[1]}" for pair in pairs("must")))


if __name__ == "__main__":
    main()
