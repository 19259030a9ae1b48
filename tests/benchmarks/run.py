"""Runs benchmarks, prints a table and writes JSON: `python tests/benchmarks/run.py [--quick] [--only NAME] [--out FILE] [--page FILE] ..`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import _measure, _table, chains, first_answers, first_draw, lowering, sizes, votes
from benchmarks._measure import ROOT, Check, Figure, Report, pooled, provenance
from benchmarks._table import Run

sys.path.insert(0, str(ROOT))  # a checkout that is not installed
os.environ["GMLM_CACHE"] = "off"  # a first call compiles, whatever ran before


def _later(module: str, *names: str) -> Callable[[bool], Report]:
    """A benchmark whose module is loaded when it runs: with JAX, which the others load in processes of their own."""
    return lambda quick: import_module(f"benchmarks.{module}").run(*names, quick)


BENCHMARKS: dict[str, Callable[[bool], Report]] = {
    "lowering": lowering.run,
    "first_draw": first_draw.run,
    "first_answers": first_answers.run,
    "votes": votes.run,
    "chains": chains.run,
    **{name: _later("sampling", name) for name in ("t1", "t2", "t3", "disordered")},
    "sizes": sizes.run,
    "t4": _later("clique"),
    **{name: _later("fitting", name) for name in ("f1", "f1_100", "f1_200")},
    **{name: _later("potts", name) for name in ("potts_24", "potts_100", "potts_dhfr")},
    **{name: _later("boltzmann", name) for name in ("boltzmann_20", "boltzmann_dhfr", "boltzmann_rna")},
    **{
        name: _later(name)
        for name in (
            "large",
            "strips",
            "theory",
            "networks",
            "guided",
            "gibbs",
            "translation",
            "posterior",
            "inclusion",
            "items",
            "bayesian",
            "modes",
            "searches",
        )
    },
}

GROUPS = {"sampling": ("t1", "t2", "t3", "disordered")}  # for a machine with an accelerator


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 where a check of the numbers fails; a speed fails nothing."""
    options = _options(arguments)
    runs = [_read(path) for path in options.merge or ()] or [_measured(options)]
    figures, checks = pooled([f for r in runs for f in r.figures]), [*dict.fromkeys(c for r in runs for c in r.checks)]
    print("\n".join(dict.fromkeys(_table.environment(r.where) for r in runs)))
    print("\n" + _table.plain(_table.HEADINGS, _table.figure_rows(figures)))
    if checks:
        print("\n" + _table.plain(_table.CHECK_HEADINGS, _table.check_rows(checks)))
    if options.against:
        print("\n" + _table.plain(_table.BESIDE_HEADINGS, _table.beside(figures, options.against.read_text(encoding="utf-8"))))
    if options.page:
        _table.write_page(options.page, runs)
    return 0 if all(c.passed for c in checks) else 1


def _measured(options: argparse.Namespace) -> Run:
    """Runs what is asked for, and writes it where that is."""
    _measure.REPEATS = options.repeats
    where, reports = provenance(), []
    for name in [n for asked in options.only or BENCHMARKS for n in GROUPS.get(asked, (asked,))]:
        print(f"{name} ..", file=sys.stderr, flush=True)
        reports.append(BENCHMARKS[name](options.quick))
    where["load_after"] = round(os.getloadavg()[0], 2)
    run = Run(where, [f for r in reports for f in r.figures], [c for r in reports for c in r.checks])
    if options.out:
        found = {"format": 1, "quick": options.quick, "provenance": where, "figures": [asdict(f) for f in run.figures]}
        found["checks"] = [asdict(c) | {"passed": c.passed} for c in run.checks]
        options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return run


def _read(path: Path) -> Run:
    """What `--out` wrote."""
    found = json.loads(path.read_text(encoding="utf-8"))
    figures = [Figure(**f | {"runs": tuple(f["runs"])}) for f in found["figures"]]
    return Run(found["provenance"], figures, [Check(**{k: v for k, v in c.items() if k != "passed"}) for c in found["checks"]])


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description="Measures speed, beside other packages where they are installed.")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how fast")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*BENCHMARKS, *GROUPS],
        metavar="NAME",
        help=f"{', '.join([*BENCHMARKS, *GROUPS])}; may be repeated",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=_measure.REPEATS,
        help="of what is timed by default so often; --merge takes medians over several runs",
    )
    parser.add_argument("--out", type=Path, help="writes all numbers as JSON")
    parser.add_argument("--merge", action="append", type=Path, metavar="FILE", help="runs nothing: takes what --out wrote; may be repeated")
    parser.add_argument("--against", type=Path, metavar="PAGE", help="prints the figures beside those of the page of another version")
    parser.add_argument("--page", type=Path, help="renews the tables of this page")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
