"""A million rows of 20 cells, every pair, with standard errors, in fresh processes: how much memory they hold, and their time."""

from __future__ import annotations

from ._measure import Check, Report, figure, fresh_process, memory, repeats

MOST_MEMORY = 2048.0  # MiB
RUNS = 3


def run(quick: bool) -> Report:
    """The memory is that of the whole process, libraries too; its goal is at most 2 GiB."""
    cells, rows = (6, 20_000) if quick else (20, 10**6)
    runs = [fresh_process("_large_child", cells, rows) for _ in range(min(repeats(quick), RUNS))]
    words, who = f"{rows:,} rows of {cells} cells, every pair, with standard errors", "gmlmdsl Model.fit"
    apart, pairs = runs[-1]["apart"], runs[-1]["pairs"]
    figures = (
        memory("large", who, words, [r["peak"] for r in runs], most=None if quick else MOST_MEMORY),
        figure("large", who, f"first fit of a first process, {words}", [r["fit"] for r in runs], "s", f"{runs[-1]['steps']} steps"),
        figure("large", who, f"whole process, {words}", [r["processor"] for r in runs], "processor s"),
    )
    # Of so many couplings the mean of (estimate - truth)^2 / error^2 is 1, give or take sqrt(2 / couplings) where they are independent.
    return Report(figures, (Check("large", f"mean squared z of J, {words}", apart, 1.0, 5 * (2 / pairs) ** 0.5),))
