"""Results as a table: for a terminal, and for a page between two marks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._measure import NOT_MEASURED, Check, Figure, pooled

BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
HEADINGS = ("benchmark", "implementation", "quantity", "median", "range", "note")
BESIDE_HEADINGS = ("benchmark", "implementation", "quantity", "there", "here", "here / there")
CHECK_HEADINGS = ("benchmark", "what", "found", "expected", "allowed apart", "agrees")


@dataclass(frozen=True)
class Run:
    """What one run found, and where."""

    where: dict[str, Any]
    figures: Sequence[Figure]
    checks: Sequence[Check]


def figure_rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """The figures as text."""
    rows = []
    for f in figures:
        value = NOT_MEASURED if f.value is None else f"{_short(f.value)} {f.unit}"
        spread = f"{_short(min(f.runs))} to {_short(max(f.runs))}, {len(f.runs)} runs" if len(f.runs) > 1 else ""
        rows.append((f.benchmark, f.implementation, f.quantity, value, spread, f.notes))
    return rows


def beside(figures: Sequence[Figure], page: str) -> list[tuple[str, ...]]:
    """The figures that the page of another version has too, with their medians there and here and the ratio of the two."""
    before: dict[tuple[str, ...], tuple[str, ...]] = {}
    for line in page.splitlines():
        cells = tuple(cell.strip() for cell in line.strip("|").split(" | "))
        if len(cells) == len(HEADINGS) and (value := re.fullmatch(r"([\d.,e+-]+) (.+)", cells[3])):
            before[(*cells[:3], value[2])] = value[1], cells[3]
    rows = []
    for f in figures:
        then = before.get((f.benchmark, f.implementation, f.quantity, f.unit))
        if then is not None and f.value is not None and float(then[0].replace(",", "")):
            share = f.value / float(then[0].replace(",", ""))
            rows.append((f.benchmark, f.implementation, f.quantity, then[1], f"{_short(f.value)} {f.unit}", _short(share)))
    return rows


def check_rows(checks: Sequence[Check]) -> list[tuple[str, ...]]:
    """The checks as text."""
    return [(c.benchmark, c.what, f"{c.found:.5f}", f"{c.expected:.5f}", f"{c.allowed:.5f}", "yes" if c.passed else "NO") for c in checks]


def _short(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def plain(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded with blanks."""
    widths = [max(len(r[k]) for r in (headings, *rows)) for k in range(len(headings))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (headings, *rows)]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in (headings, ["---"] * len(headings), *rows)]
    return "\n".join(lines)


def environment(where: dict[str, Any]) -> str:
    """One sentence about a run."""
    versions = ", ".join(f"{k} {v}" for k, v in where["versions"].items() if v)
    machine = f"{where['cores']} cores, {where['architecture']}, {where['system']}"
    load = f"load {where['load']} before and {where['load_after']} after"
    return f"{where['date'][:10]}, {machine}, {load}; Python {where['python']}, {versions}."


def write_page(page: Path, runs: Sequence[Run]) -> None:
    """Renew what stands between the marks of a page: a benchmark's own marks where it has such, else those of all the others.

    Raises:
        ValueError: if the page lacks the marks of something that was run, or would lose what others had found.
    """
    text = page.read_text(encoding="utf-8")
    parts: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        for name in dict.fromkeys(f.benchmark for f in run.figures):
            own = own_marks(name)
            figures, checks = [f for f in run.figures if f.benchmark == name], [c for c in run.checks if c.benchmark == name]
            parts.setdefault(own if own[0] in text else (BEGIN, END), []).append(Run(run.where, figures, checks))
    for marks, found in parts.items():
        text = _renewed(page, text, marks, found)
    page.write_text(text, encoding="utf-8")


def own_marks(name: str) -> tuple[str, str]:
    """The marks between which one benchmark stands alone."""
    begin, end = (mark.replace(" -->", f" {name} -->") for mark in (BEGIN, END))
    return begin, end


def _renewed(page: Path, text: str, marks: tuple[str, str], runs: Sequence[Run]) -> str:
    begin, end = marks
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ValueError(f"{page}: wants the lines {begin} and {end}, once each, in this order")
    before, after = text[: text.index(begin)], text[text.index(end) :]
    there = dict.fromkeys(re.findall(r"^\| ([a-z]\w*) \|", text[len(before) : -len(after)], flags=re.MULTILINE))
    if lost := set(there) - {f.benchmark for r in runs for f in r.figures} - {"benchmark"}:
        raise ValueError(f"{page} would lose {', '.join(sorted(lost))}: give what was run marks of its own, or run these too")
    figures, checks = pooled([f for r in runs for f in r.figures]), [*dict.fromkeys(c for r in runs for c in r.checks)]
    parts = [*dict.fromkeys(environment(r.where) for r in runs), markdown(HEADINGS, figure_rows(figures))]
    if checks:
        parts += ["Checks of the same run:", markdown(CHECK_HEADINGS, check_rows(checks))]
    return before + begin + "\n\n" + "\n\n".join(parts) + "\n\n" + after
