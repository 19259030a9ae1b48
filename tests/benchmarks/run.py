"""Runs benchmarks, prints a table and writes JSON: `python tests/benchmarks/run.py [--quick] [--only NAME] [--out FILE] [--page FILE]`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import _table, first_draw, lowering
from benchmarks._measure import ROOT, Check, Figure, Report, provenance

sys.path.insert(0, str(ROOT))  # a checkout that is not installed


def _sampling(name: str, quick: bool) -> Report:
    from benchmarks import sampling  # with JAX, which the others load in processes of their own

    return sampling.run(name, quick)


def _fitting(quick: bool) -> Report:
    from benchmarks import fitting

    return fitting.run(quick)


def _strips(quick: bool) -> Report:
    from benchmarks import strips

    return strips.run(quick)


def _theory(quick: bool) -> Report:
    from benchmarks import theory

    return theory.run(quick)


def _networks(quick: bool) -> Report:
    from benchmarks import networks

    return networks.run(quick)


def _translation(quick: bool) -> Report:
    from benchmarks import translation

    return translation.run(quick)


BENCHMARKS: dict[str, Callable[[bool], Report]] = {
    "lowering": lowering.run,
    "first_draw": first_draw.run,
    "t1": partial(_sampling, "t1"),
    "t2": partial(_sampling, "t2"),
    "t3": partial(_sampling, "t3"),
    "f1": _fitting,
    "strips": _strips,
    "theory": _theory,
    "networks": _networks,
    "translation": _translation,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 where a check of the numbers fails; a speed fails nothing."""
    options = _options(arguments)
    where = provenance()
    figures: list[Figure] = []
    checks: list[Check] = []
    for name in options.only or BENCHMARKS:
        print(f"{name} ..", file=sys.stderr, flush=True)
        report = BENCHMARKS[name](options.quick)
        figures += report.figures
        checks += report.checks
    where["load_after"] = round(os.getloadavg()[0], 2)
    print(_table.environment(where) + "\n\n" + _table.plain(_table.HEADINGS, _table.figure_rows(figures)))
    if checks:
        print("\n" + _table.plain(_table.CHECK_HEADINGS, _table.check_rows(checks)))
    if options.out:
        found = {"format": 1, "quick": options.quick, "provenance": where, "figures": [asdict(f) for f in figures]}
        found["checks"] = [asdict(c) | {"passed": c.passed} for c in checks]
        options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    if options.page:
        _table.write_page(options.page, where, figures, checks)
    return 0 if all(c.passed for c in checks) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description="Measures speed, beside other packages where they are installed.")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how fast")
    parser.add_argument(
        "--only", action="append", choices=list(BENCHMARKS), metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; may be repeated"
    )
    parser.add_argument("--out", type=Path, help="writes all numbers as JSON")
    parser.add_argument("--page", type=Path, help="renews the table of this page")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
