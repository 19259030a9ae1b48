"""Results as a table: for a terminal, and for a page between two marks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ._measure import NOT_MEASURED, Check, Figure

BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
HEADINGS = ("benchmark", "implementation", "quantity", "median", "range", "note")
CHECK_HEADINGS = ("benchmark", "what", "found", "expected", "allowed apart", "agrees")


def figure_rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """The figures as text."""
    rows = []
    for f in figures:
        value = NOT_MEASURED if f.value is None else f"{_short(f.value)} {f.unit}"
        spread = f"{_short(min(f.runs))} to {_short(max(f.runs))}" if len(f.runs) > 1 else ""
        rows.append((f.benchmark, f.implementation, f.quantity, value, spread, f.note))
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


def write_page(page: Path, where: dict[str, Any], figures: Sequence[Figure], checks: Sequence[Check]) -> None:
    """Renew what stands between the marks of a page: its marks for one benchmark where it has such and no other was run.

    Raises:
        ValueError: if the page has no such marks.
    """
    text = page.read_text(encoding="utf-8")
    names = {f.benchmark for f in figures}
    begin, end = (mark.replace(" -->", f" {next(iter(names))} -->") if len(names) == 1 else mark for mark in (BEGIN, END))
    if begin not in text:
        begin, end = BEGIN, END
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ValueError(f"{page}: wants the lines {begin} and {end}, once each, in this order")
    before, after = text[: text.index(begin)], text[text.index(end) :]
    parts = [environment(where), markdown(HEADINGS, figure_rows(figures))]
    if checks:
        parts += ["Checks of the same run:", markdown(CHECK_HEADINGS, check_rows(checks))]
    page.write_text(before + begin + "\n\n" + "\n\n".join(parts) + "\n\n" + after, encoding="utf-8")
