"""Studies of calibration: posteriors, intervals and tests, over many data sets of known laws.

    PYTHONPATH=. python tests/studies.py calibration     # ranks of true parameters among draws of their posterior
    PYTHONPATH=. python tests/studies.py coverage        # how often intervals contain the true value
    PYTHONPATH=. python tests/studies.py level           # how often tests reject, where they should and where they should not
    PYTHONPATH=. python tests/studies.py page            # writes the tables of docs/reference/calibration.md

A study appends one line for a model, a mask and a kind to tests/studies.jsonl. What is there is not run again: with more replications than
before only the further ones run, and their line adds to the first. `--models`, `--masks` and `--kinds` choose; `--replications` is 500
unless another number is given. Replication r depends on (seed, r) only, so that lines do not depend on how they were run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path(__file__).with_suffix(".jsonl")
PAGE = ROOT / "docs" / "reference" / "calibration.md"
SEED = 20261128  # chosen before the first run
REPLICATIONS = 500
LEVEL, BINS = 0.05, 20  # p-values are counted in bins of this width
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Line:
    """What some replications of one study found.

    Attributes:
        kind: of intervals, or the test, or `posterior`.
        first: the number of the first replication; `replications` are counted from there.
        table: counts by name. Coverage: intervals that contain the true value, all intervals, those that do not end, and nan. Level:
            p-values in twenty bins. Calibration: intervals that contain the true value, and ranks in twenty bins.
        sums: of a number s of each replication that has one: how many have, the sum of s, and of its square. Coverage: the share of
            intervals that contain their true values. Level: nothing. Calibration: the share of draws that diverged, which has no square.
        seconds: of the processor, with all threads, compilation included.
        compiled: programs that were compiled after the first replication.
    """

    study: str
    model: str
    mask: str
    kind: str
    first: int
    replications: int
    seed: int
    table: dict[str, list[int]]
    sums: list[float]
    seconds: float
    compiled: int
    date: str = field(default_factory=lambda: datetime.datetime.now(tz=datetime.UTC).date().isoformat())

    @property
    def key(self) -> Key:
        return self.study, self.model, self.mask, self.kind

    def plus(self, other: Line) -> Line:
        """Both lines of one key as one."""
        names = [*self.table, *(n for n in other.table if n not in self.table)]
        blank = [0] * len(next(iter({**self.table, **other.table}.values()), []))
        table = {n: [a + b for a, b in zip(self.table.get(n, blank), other.table.get(n, blank), strict=True)] for n in names}
        return Line(
            *self.key,
            min(self.first, other.first),
            self.replications + other.replications,
            self.seed,
            table,
            [a + b for a, b in zip(self.sums, other.sums, strict=True)],
            self.seconds + other.seconds,
            self.compiled + other.compiled,
            max(self.date, other.date),
        )


def kept_lines(path: Path, seed: int = SEED) -> dict[Key, Line]:
    """The lines of a file by key, those of one key together.

    Raises:
        ValueError: replications of a key overlap, or leave a gap.
    """
    found: dict[Key, Line] = {}
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        line = Line(**json.loads(text))
        if line.seed != seed:
            continue
        before = found.get(line.key)
        if line.first != (before.replications if before else 0):
            raise ValueError(f"{line.key}: replications from {line.first} on do not continue those before")
        found[line.key] = line if before is None else before.plus(line)
    return found


# Arithmetic.


def share(hits: float, trials: float) -> tuple[float, float]:
    """A share with its Monte Carlo error sqrt(p (1 - p) / trials); nan without trials."""
    if not trials:
        return float("nan"), float("nan")
    p = hits / trials
    return p, float(np.sqrt(p * (1 - p) / trials))


def mean(sums: Iterable[float]) -> tuple[float, float]:
    """A mean of independent replications with its Monte Carlo error, from their number, sum, and sum of squares."""
    n, total, squares = sums
    if n < 2:
        return (total / n if n else float("nan")), float("nan")
    variance = max(0.0, (squares - total**2 / n) / (n - 1))
    return total / n, float(np.sqrt(variance / n))


def p_bin(p: float) -> int:
    """The bin of a p-value: the first has all p up to 0.05, which a test at this level rejects."""
    return int(np.clip(np.ceil(p / LEVEL - 1e-9) - 1, 0, BINS - 1))


def wider(counts: np.ndarray) -> np.ndarray:
    """Counts in as many equal bins, up to twenty, as have five expected counts each."""
    bins = max((k for k in (20, 10, 5, 4, 2) if counts.sum() >= 5 * k), default=1)
    return counts.reshape(bins, -1).sum(axis=1)


def covered(intervals: Iterable[tuple[str, float, float, float]]) -> tuple[dict[str, list[int]], list[float]]:
    """The table and the sums of one replication of coverage."""
    table: dict[str, list[int]] = {}
    for name, true, low, high in intervals:
        counts = table.setdefault(name, [0, 0, 0, 0])
        if np.isnan(low) or np.isnan(high):
            counts[3] += 1
            continue
        counts[0] += bool(low <= true <= high)
        counts[1] += 1
        counts[2] += bool(np.isinf(low) or np.isinf(high))
    hits, trials = (sum(c[k] for c in table.values()) for k in (0, 1))
    return table, [1.0, hits / trials, (hits / trials) ** 2] if trials else [0.0, 0.0, 0.0]


# Studies.

Measure = Callable[[int, int], tuple[dict[str, list[int]], list[float], int]]  # from the first replication on, so many


@dataclass(frozen=True)
class Task:
    """One line that a study asks for, and what measures it."""

    key: Key
    measure: Measure


def one_by_one(replication: Callable[[int], tuple[dict[str, list[int]], list[float]]]) -> Measure:
    """Counts over replications, and the programs that were compiled after the first."""

    def measured(first: int, count: int) -> tuple[dict[str, list[int]], list[float], int]:
        from events import programs, traced_or_compiled

        with traced_or_compiled() as compiled:
            table: dict[str, list[int]] = {}
            sums = [0.0, 0.0, 0.0]
            for r in range(first, first + count):
                if r == first + 1:
                    compiled.clear()
                found, numbers = replication(r)
                for name, counts in found.items():
                    table[name] = [a + b for a, b in zip(table.get(name, [0] * len(counts)), counts, strict=True)]
                sums = [a + b for a, b in zip(sums, numbers, strict=True)]
        return table, sums, programs(compiled) if count > 1 else 0

    return measured


def calibration_tasks(seed: int) -> Iterator[Task]:
    """`model.posterior` of six models under four masks; without a spike it is a fit and its `posterior`."""
    from calibration import MODELS, NAMES, ranks_of

    for model in MODELS:
        for mask in NAMES:

            def measured(first: int, count: int, model=model, mask=mask) -> tuple[dict[str, list[int]], list[float], int]:
                found = ranks_of(model, mask, count, seed, first)
                hits = (found.coverage * len(found.ranks)).round().astype(int) if found.ranks else np.zeros(len(found.names), int)
                rows = zip(found.names, hits.tolist(), found.histograms.tolist(), strict=True)
                table = {name: [hit, *counts] for name, hit, counts in rows}
                return table, [len(found.ranks), found.diverged * len(found.ranks), 0.0], found.compiled

            yield Task(("calibration", model.name, mask, "posterior"), measured)


def coverage_tasks(seed: int) -> Iterator[Task]:
    from coverage_study import SETTINGS, replication

    for setting in SETTINGS:
        for kind, masks in setting.kinds.items():
            for mask in masks:

                def measured(r: int, setting=setting, mask=mask, kind=kind) -> tuple[dict[str, list[int]], list[float]]:
                    return covered(replication(setting, mask, kind, seed, r))

                yield Task(("coverage", setting.name, mask, kind), one_by_one(measured))


def level_tasks(seed: int) -> Iterator[Task]:
    from level_study import PLANS, replication

    for test, mask, rows in PLANS:
        for false in (False, True):

            def measured(r: int, test=test, mask=mask, rows=rows, false=false) -> tuple[dict[str, list[int]], list[float]]:
                return binned(replication(test, mask, rows, false, seed, r))

            model = f"{rows} rows" if rows else "four spins"
            yield Task(("level", model, mask, f"{test}: {'power' if false else 'size'}"), one_by_one(measured))


def binned(found: Mapping[str, float]) -> tuple[dict[str, list[int]], list[float]]:
    """The table of one replication of level; a p-value that is nan is in no bin."""
    table = {name: [int(k == p_bin(p)) for k in range(BINS)] if p == p else [0] * BINS for name, p in found.items()}
    return table, [1.0, 0.0, 0.0]


STUDIES: dict[str, Callable[[int], Iterator[Task]]] = {
    "calibration": calibration_tasks,
    "coverage": coverage_tasks,
    "level": level_tasks,
}


def run(study: str, replications: int, kept: Path, seed: int = SEED, wanted: Callable[[Key], bool] = lambda _: True) -> None:
    """Run what is missing in a file, and append to it line after line."""
    lines = kept_lines(kept, seed)
    for task in STUDIES[study](seed):
        first = lines[task.key].replications if task.key in lines else 0
        if first >= replications or not wanted(task.key):
            continue
        began = time.process_time()
        table, sums, compiled = task.measure(first, replications - first)
        line = Line(*task.key, first, replications - first, seed, table, sums, round(time.process_time() - began, 1), compiled)
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(line)) + "\n")
        print(" | ".join(task.key), f"{line.replications} replications, {line.seconds:.0f} s, {compiled} compiled later", flush=True)


# The page.


def shown(figure: tuple[float, float], digits: int = 3) -> str:
    return "" if np.isnan(figure[0]) else f"{figure[0]:.{digits}f}" + ("" if np.isnan(figure[1]) else f" ± {figure[1]:.{digits}f}")


def calibration_rows(lines: Mapping[Key, Line]) -> list[str]:
    """A row for each model under a mask: the quantity with the least uniform ranks, and coverage over quantities."""
    from chi_square import p_value

    out = [
        "| model | mask | data sets | not drawn | quantities | smallest p (times quantities) | mean coverage | lowest coverage | diverged |"
    ]
    out.append("|---|---|---|---|---|---|---|---|---|")
    for line in lines.values():
        n = int(line.sums[0])
        bins = {name: wider(np.array(counts[1:])) for name, counts in line.table.items()} if n else {}
        p = {name: p_value(counts, np.full(len(counts), 1 / len(counts))) for name, counts in bins.items()}
        least = min(p, key=p.__getitem__, default="")
        lowest = min(line.table, key=lambda name: line.table[name][0], default="")
        hits = [counts[0] for counts in line.table.values()]
        average = share(sum(hits) / max(len(hits), 1), n)[0]
        uniform = f"{min(1.0, len(p) * p[least]):.2g} (`{least}`)" if p else ""
        low = f"{shown(share(line.table[lowest][0], n))} (`{lowest}`)" if n else ""
        cells = (
            line.model,
            f"`{line.mask}`",
            line.replications,
            line.replications - n,
            len(p),
            uniform,
            shown((average, float("nan"))),
            low,
        )
        out.append(f"| {' | '.join(map(str, cells))} | {100 * share(line.sums[1], n)[0] if n else 0:.2f} % |")
    return out


def coverage_rows(lines: Mapping[Key, Line]) -> list[str]:
    """A row for each kind of interval of a model under a mask."""
    out = [
        "| model | mask | interval | data sets | mean coverage | lowest coverage | without end | none |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in lines.values():
        tried = {name: c for name, c in line.table.items() if c[1]}
        lowest = min(tried, key=lambda name: tried[name][0] / tried[name][1], default="")
        often = "" if not tried or tried[lowest][1] == line.replications else f", {tried[lowest][1]} intervals"
        low = f"{shown(share(*tried[lowest][:2]))} (`{lowest}`{often})" if tried else ""
        total = [sum(c[k] for c in line.table.values()) for k in range(4)]
        without = f"{100 * total[2] / total[1]:.1f} %" if total[1] else ""
        none = line.replications - int(line.sums[0])
        out.append(
            f"| {line.model} | `{line.mask}` | {line.kind} | {line.replications} | {shown(mean(line.sums))} | {low} | {without} | {none} |"
        )
    return out


def level_rows(lines: Mapping[Key, Line]) -> list[str]:
    """A row for each p-value of a test, with both shares of p-values up to 0.05."""
    out = ["| test | p-value of | data | mask | replications | size at 0.05 | power at 0.05 |", "|---|---|---|---|---|---|---|"]
    for key, line in lines.items():
        test, _, which = key[3].rpartition(": ")
        if which != "size":
            continue
        power = lines.get((*key[:3], f"{test}: power"))
        for name, bins in line.table.items():
            other = power.table.get(name) if power else None
            found = "" if other is None else shown(share(other[0], sum(other)))
            count = f"{sum(bins)}" + ("" if other is None else f", {sum(other)}")
            mask = f"`{line.mask}`" if line.mask else ""
            out.append(f"| {test} | {name} | {line.model} | {mask} | {count} | {shown(share(bins[0], sum(bins)))} | {found} |")
    return out


def run_rows(lines: Mapping[Key, Line]) -> list[str]:
    """What was run of each study, and what it took."""
    out = [
        "| study | lines | replications | processor time | programs compiled after the first replication | date |",
        "|---|---|---|---|---|---|",
    ]
    for study in STUDIES:
        mine = [line for line in lines.values() if line.study == study]
        if mine:
            counts = sorted({line.replications for line in mine})
            late = sum(line.compiled for line in mine)
            seconds = sum(line.seconds for line in mine)
            dates = sorted({line.date for line in mine})
            out.append(
                f"| {study} | {len(mine)} of {len(list(STUDIES[study](SEED)))} | {' or '.join(map(str, counts))} | {seconds / 60:.1f} min | {late} | {' to '.join({dates[0]: 0, dates[-1]: 0})} |"
            )
    return out


TABLES: dict[str, Callable[[Mapping[Key, Line]], list[str]]] = {
    "calibration": calibration_rows,
    "coverage": coverage_rows,
    "level": level_rows,
    "run": run_rows,
}


def page(text: str, lines: Mapping[Key, Line]) -> str:
    """The page with its tables made anew, in the order in which the studies ask for them."""
    for name, rows in TABLES.items():
        begin, end = f"<!-- {name}: written by tests/studies.py -->\n", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        mine = lines if name == "run" else {k: line for k, line in lines.items() if k[0] == name}
        text = before + begin + "\n" + "\n".join(rows(mine)) + "\n\n" + end + rest.split(end)[1]
    return text


def in_order(lines: Mapping[Key, Line]) -> dict[Key, Line]:
    """Lines as the studies ask for them, whenever they were run; lines that no study asks for any more are left out."""
    return {task.key: lines[task.key] for study in STUDIES.values() for task in study(SEED) if task.key in lines}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", choices=[*STUDIES, "page"])
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    for name in ("models", "masks", "kinds"):
        parser.add_argument(f"--{name}", nargs="*", help="some of them, by name")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    if options.study == "page":
        text = page(options.page.read_text(encoding="utf-8"), in_order(kept_lines(options.kept)))
        options.page.write_text(text, encoding="utf-8")
        return
    chosen = [options.models, options.masks, options.kinds]
    run(
        options.study,
        options.replications,
        options.kept,
        options.seed,
        lambda key: all(names is None or part in names for names, part in zip(chosen, key[1:], strict=True)),
    )


if __name__ == "__main__":
    import jax

    jax.config.update("jax_numpy_dtype_promotion", "standard")
    sys.path.insert(0, str(ROOT))
    main()
