"""The report of guided samplers: the drawn strings, their cost, and backtracking."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from .._types import DrawsLike
from ._diagnostic_pictures import plot_categories
from ._document import Report
from ._picture_arguments import made_by, verified_text
from ._sample_report import drawn_groups
from .limits import MOST_STRINGS

if TYPE_CHECKING:
    from ..graph import FactorGraph
    from ..model import Model

FAIL = "FAIL"


def drawn_strings(graph: FactorGraph, idata: DrawsLike) -> list[str]:
    """Return the strings of a guided sampler as text, or FAIL for a draw that failed.

    The strings of one draw are adjacent. Letters are joined without spaces, and labels and numbers
    with spaces.

    Args:
        graph: the model's factor graph, `model.graph`.
        idata: the result of `Model.sample` by a sampler that draws strings.

    Raises:
        GmlmError: E507 for arguments of other kinds.
    """
    made_by("graph", graph, "observed", "model.graph")
    groups, v = drawn_groups(graph, idata, "guided_stats"), graph.observed[0]
    failed = np.asarray(groups["guided_stats"]["failed"].values).astype(bool).ravel()
    values = np.asarray(groups["posterior"][v.name].values).reshape(failed.size, -1)
    space = "" if v.kind == "letters" else " "
    rows = ([str(t) if v.ordered else str(v.labels[t]) for t in string] for string in values.tolist())
    return [FAIL if lost else space.join(row) for row, lost in zip(rows, failed, strict=True)]


def guided_report(model: Model, idata: DrawsLike, *, title: str = "") -> Report:
    """Return the report of strings of a guided sampler as one HTML page.

    Args:
        model: the model from which the strings were drawn.
        idata: the result of `Model.sample`, with the group `guided_stats`.
        title: the title of the page.

    Returns:
        A report; `.save(path)` writes it.

    Raises:
        GmlmError: E507 for arguments of other kinds.
    """
    from ..explain import explain

    made_by("model", model, "samplers", "gm.load(..).model()")
    groups = drawn_groups(model.graph, idata, "guided_stats")
    attrs, title = dict(idata.attrs), verified_text("title", title)
    stats = {name: np.asarray(a.values) for name, a in groups["guided_stats"].items()}
    strings = drawn_strings(model.graph, idata)
    footer = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, seed {attrs['seed']}, {attrs['versions']}, program {attrs['program_sha256'][:12]}"
    report = Report(
        title or f"Strings from `{model.name}`", f"{len(strings):,} strings by the sampler `{attrs['sampler']}`.", footer=footer
    )
    _outcome(report, strings, stats, str(attrs.get("warnings", "")))
    _most_frequent(report, strings)
    _backtracks(report, stats["backtracks"])
    report.section("Sampler")
    program, sampler = model.program, attrs["sampler"]
    told = explain(program.checked, program.bound, model=model.name, sampler=sampler, plans=True)
    report.code(told, "formulas and plans")
    return report


def _outcome(report: Report, strings: list[str], stats: dict[str, np.ndarray], told: str) -> None:
    report.section("What was drawn, and what it took")
    valid, failed = stats["valid"].astype(bool), stats["failed"].astype(bool)
    drawn = {
        "strings": len(strings) - int(failed.sum()),
        "failed": int(failed.sum()),
        "valid": int(valid.sum()),
        "distinct": len({s for s, lost in zip(strings, failed.ravel(), strict=True) if not lost}),
    }
    means = {
        "oracle calls": stats["oracle_calls"],
        "verifier calls": stats["verifier_calls"],
        "backtracks": stats["backtracks"].sum(axis=-1),
    }
    report.facts(drawn | {f"{name}, mean": float(a.mean()) for name, a in means.items()})
    if failed.any():
        share = 100 * float(failed.mean())
        report.warning(f"{share:.3g} % of the draws failed", "They end without a string, and are counted and not drawn again.")
    for text in told.splitlines():
        head, _, rest = text.partition(": ")
        report.warning(head.replace("`", ""), rest)


def _most_frequent(report: Report, strings: list[str]) -> None:
    report.section("Strings")
    most, n = Counter(strings).most_common(MOST_STRINGS), len(strings)
    shares = np.array([count / n for _, count in most])
    rows = [[name, count, share] for (name, count), share in zip(most, shares, strict=True)]
    report.table(["string", "draws", "share"], rows, f"The {len(rows)} most frequent of {len(set(strings)):,} outcomes.")
    figure = plot_categories([name or "(empty)" for name, _ in most], shares, standard_errors=np.sqrt(shares * (1 - shares) / n))
    alt = "Shares of the draws that are each of the most frequent strings."
    report.figure(figure, alt=alt, caption="Shares of the draws, with two standard errors of independent draws.")


def _backtracks(report: Report, backtracks: np.ndarray) -> None:
    by_position = backtracks.reshape(-1, backtracks.shape[-1]).mean(axis=0)
    if not by_position.any():
        return
    report.section("Where it went back")
    headers = ["refused at symbol", "times a string"]
    rows = [[k + 1, float(v)] for k, v in enumerate(by_position) if v > 0]
    report.table(headers, rows, "How often a prefix that ends there was refused, by a mean over strings.")
