"""The reports of draws and of drawn strings: their diagnostics, summaries and cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from .._types import Clamp, DrawsLike
from ._diagnostic_pictures import plot_categories, plot_ess_r_hat, plot_traces
from ._document import Report
from ._picture_arguments import made_by, verified_text, wrong
from .limits import DRAWS_AT_ONCE, MOST_CATEGORIES, MOST_DIAGNOSED, MOST_STRINGS

if TYPE_CHECKING:
    from ..graph import FactorGraph
    from ..model import Model
    from ..sample import Diagnosis

FAIL = "FAIL"


def drawn_groups(graph: FactorGraph, idata: DrawsLike, stats: str = "sample_stats") -> dict[str, Any]:
    """Return the groups of draws, which contain the statistics `stats` and the model's variables.

    Raises:
        GmlmError: E507 unless `idata` contains draws of the model.
    """
    from ..sample import groups_of

    made_by("idata", idata, "groups", "model.sample(..)")
    groups = groups_of(idata)
    lacking = [g for g in ("posterior", stats) if g not in groups] or [v.name for v in graph.variables if v.name not in groups["posterior"]]
    if lacking:
        raise wrong(f"idata are not draws of this model and kind: they lack `{lacking[0]}`", "pass what `model.sample(..)` gives")
    return groups


def diagnose_draws(graph: FactorGraph, idata: DrawsLike, clamp: Clamp | None = None) -> Diagnosis:
    """Return the discrete diagnostics of draws.

    Args:
        graph: the model's factor graph, `model.graph`.
        idata: the result of `Model.sample`, with its draws kept.
        clamp: the argument `clamp` of `Model.sample`.

    Raises:
        GmlmError: E507 for arguments of other kinds.
    """
    from ..data import clamped_cells
    from ..sample import codes_in_pieces, diagnose_pieces

    made_by("graph", graph, "n_random", "model.graph")
    groups = drawn_groups(graph, idata)
    stats = groups["sample_stats"]
    rates = stats["flip_rate"]
    names = [str(u) for u in rates.coords["update"].values]
    with np.errstate(invalid="ignore"):
        by_update = {
            name: float(np.nanmean(rates.values[..., k])) for k, name in enumerate(names) if np.isfinite(rates.values[..., k]).any()
        }
    cells = [graph.cell_name(i) for i in range(graph.n_random)]
    labels = [names for v in graph.variables for names in [tuple(map(str, v.labels))] * v.size]
    pieces, shape = codes_in_pieces(graph, groups["posterior"]), (*rates.shape[:2], len(cells))
    return diagnose_pieces(pieces, shape, cells, labels, clamped=clamped_cells(graph, clamp)[0], flip_rates=by_update)


def sample_report(model: Model, idata: DrawsLike, *, clamp: Clamp | None = None, title: str = "") -> Report:
    """Return the report of draws as one HTML page.

    Args:
        model: the model from which the draws come.
        idata: the result of `Model.sample`, with its draws kept.
        clamp: the argument `clamp` of `Model.sample`.
        title: the title of the page.

    Returns:
        A report; `.save(path)` writes it.

    Raises:
        GmlmError: E507 for arguments of other kinds.
    """
    made_by("model", model, "samplers", "gm.load(..).model()")
    groups, title = drawn_groups(model.graph, idata), verified_text("title", title)
    attrs = dict(idata.attrs)
    found = diagnose_draws(model.graph, idata, clamp)
    footer = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, seed {attrs['seed']}, {attrs['versions']}, program {attrs['program_sha256'][:12]}"
    # None stands for independent draws, which no file declares.
    sampler = attrs["sampler"] if attrs["sampler"] in model.samplers else None
    draws = f"draws by the sampler `{sampler}`" if sampler else "independent draws"
    subtitle = f"{found.n_chains} chains of {found.n_draws} {draws}."
    report = Report(title or f"Draws from `{model.name}`", subtitle, footer=footer)
    _trust(report, found, attrs)
    stats = groups["sample_stats"]
    _traces(report, groups, model)
    _cells(report, found)
    _updates(report, stats)
    report.section("Sampler")
    from ..explain import explain

    program = model.program
    told = explain(program.checked, program.bound, model=model.name, sampler=sampler, plans=True)
    report.code(told, "formulas and plans")
    return report


def _trust(report: Report, found: Diagnosis, attrs: Mapping[Hashable, Any]) -> None:
    report.section("Can the draws be trusted?")
    r_hat, ess = found.max_r_hat[np.isfinite(found.max_r_hat)], found.min_ess[np.isfinite(found.min_ess)]
    report.facts(
        {
            "largest R-hat": float(r_hat.max()) if len(r_hat) else None,
            "smallest ESS": float(ess.min()) if len(ess) else None,
            "cells": len(found.cells),
            "stuck cells": int(found.stuck.any(axis=0).sum()),
            "clamped cells": int(found.clamped.sum()),
            "warmup": int(attrs["warmup"]),
            "thin": int(attrs["thin"]),
        }
    )
    if not found.warnings:
        report.text("No problem was found: the chains agree, every cell moves, and the effective sample sizes suffice.")
    for text in found.warnings:
        head, _, rest = text.partition(". ")
        report.warning(head.replace("`", ""), rest or text)
    if len(r_hat):
        figure = plot_ess_r_hat(found.min_ess, found.max_r_hat, chains=found.n_chains)
        report.figure(
            figure,
            alt="Every cell by its effective sample size and its R-hat, with the limits.",
            caption="One mark per cell, by its worst value.",
        )


def _traces(report: Report, groups: dict[str, Any], model: Model) -> None:
    report.section("Traces")
    stats = groups["sample_stats"]
    # The conditionals of a network have no log p.
    traces = {"log p (unnormalised)": np.asarray(stats["lp"].values)} if "lp" in stats else {}
    for v in model.graph.variables:
        if v.ordered:
            name = f"mean of {v.name}" if v.size > 1 else v.name
            traces[name] = _means(groups["posterior"][v.name])
    if traces:
        alt = "Traces of log p and of the mean of each variable, one line per chain."
        report.figure(plot_traces(dict(list(traces.items())[:6])), alt=alt)


def _means(values: Any) -> np.ndarray:
    """Return the mean over cells at each draw, (chain, draw), from a few draws at a time."""
    chains, draws, *cells = values.shape
    step = max(1, DRAWS_AT_ONCE // max(1, chains * math.prod(cells)))
    parts = [np.asarray(values[:, t : t + step], float).reshape(chains, -1, math.prod(cells)).mean(axis=2) for t in range(0, draws, step)]
    return np.concatenate(parts, axis=1)


def _cells(report: Report, found: Diagnosis) -> None:
    report.section("Cells")
    headers, rows = found.table(MOST_DIAGNOSED)
    rows = [[None if isinstance(v, float) and np.isnan(v) else v for v in row] for row in rows]
    report.table(headers, rows, f"The {len(rows)} cells to worry about most, of {len(found.worst_cells)}.")
    names, shares, errors = [], [], []
    for i in found.worst_cells:
        for k, label in enumerate(found.categories[i]):
            if k == 0 and len(found.categories[i]) == 2:
                continue  # the complement of the other category
            names.append(f"{found.cells[i]} = {label}")
            share, ess = float(found.frequency[i, k]), float(found.ess[i, k])
            shares.append(share)
            errors.append(np.sqrt(share * (1 - share) / ess) if ess > 0 else 0.0)
    if names:
        chosen = slice(0, MOST_CATEGORIES)
        figure = plot_categories(names[chosen], np.array(shares[chosen]), standard_errors=np.array(errors[chosen]))
        report.figure(
            figure,
            alt="Shares of the draws by category, of the same cells.",
            caption="Shares of the draws, with two Monte Carlo standard errors.",
        )


def _updates(report: Report, stats: Any) -> None:
    rates = stats["flip_rate"]
    rows = []
    for k, name in enumerate(rates.coords["update"].values):
        values = np.asarray(rates.values[..., k])
        rows.append([str(name), float(np.nanmean(values)) if np.isfinite(values).any() else None])
    report.section("Updates")
    report.table(["update", "flip rate"], rows, "The share of redrawn cells whose value changed.")


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
