"""The demo's page: data beside samples, a map of couplings, masks side by side, and chains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import report
from .._diagnostics import listed
from ..graph import versions
from ..report import LIGHT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..fit import Finding
    from ..model import Fit
    from ._digits import Comparison, Digits, Sampled

SHOWN_IMAGES = 30
MOST_IN_FOREST = 16  # The number of couplings that are drawn with their intervals.
SHADES = ("white", "dark")
MOST_EXPLAINED = 4  # The number of separated couplings that are explained one by one.


def write_report(path: Path, digits: Digits, comparison: Comparison, sampled: Sampled, seconds: float) -> Path:
    """Write the page and return its path.

    Args:
        path: the path of the page.
        digits: the data.
        comparison: the fits under several masks.
        sampled: the draws.
        seconds: the time of the whole demo.
    """
    used = ", ".join(f"{k} {v}" for k, v in versions().items())
    page = report.Report(
        "Handwritten digits: one model, two masks",
        "The images of 8 by 8 pixels that ship with scikit-learn, black or white, as a pairwise model of neighbouring pixels.",
        footer=f"{used}; {seconds:.0f} s in all",
    )
    _facts(page, digits, sampled)
    _pictures(page, digits, sampled)
    _couplings(page, digits, sampled.fit)
    _chains(page, sampled)
    _masks(page, digits, comparison)
    _unbounded(page, digits, comparison)
    _priors(page, sampled.fit)
    _program(page, sampled.fit)
    return page.save(path)


def _facts(page: report.Report, digits: Digits, sampled: Sampled) -> None:
    fit, found = sampled.fit, sampled.diagnosis
    page.facts(
        {
            "images": len(digits.x),
            "pixels in the model": f"{len(digits.pixels)} of 64",
            "couplings": len(digits.pairs),
            "fit": f"{fit.status.code}, {len(fit.loss_trace)} steps",
            "largest R-hat": f"{np.nanmax(found.max_r_hat):.3f}",
            "smallest effective sample size": f"{np.nanmin(found.min_ess):.0f}",
        }
    )
    if not fit.status.converged:  # Other warnings have sections of their own.
        _warn(page, fit.status.findings)


def _pictures(page: report.Report, digits: Digits, sampled: Sampled) -> None:
    rng = np.random.default_rng(0)
    rows = digits.images[rng.permutation(len(digits.images))[:SHOWN_IMAGES]].astype(float)
    flat = sampled.draws.reshape(-1, sampled.draws.shape[-1])
    shown = digits.as_images(flat[rng.permutation(len(flat))[:SHOWN_IMAGES]])
    gap = np.abs(digits.x.mean(axis=0) - flat.mean(axis=0)).max()
    page.section("Data and samples")
    page.text(
        f"Left, {len(rows)} images at random; right, as many draws from the model with priors, fitted under `{sampled.fit.mask}`. "
        f"The {64 - len(digits.pixels)} pixels outside the model stand at their most frequent value. A model of neighbouring pairs draws "
        "strokes, not digits: nothing in it says which strokes go together. "
        f"No pixel's share of dark images differs between data and draws by more than {gap:.3f}."
    )
    page.figure(
        report.plot_images(rows, shown),
        alt=f"Two grids of {len(rows)} small black and white images: digits on the left, strokes drawn from the model on the right.",
        caption="Data, and samples of the model.",
    )


def _couplings(page: report.Report, digits: Digits, fit: Fit) -> None:
    page.section("Couplings")
    page.text(
        f"The couplings `J` under the mask `{fit.mask}`, with a prior `normal(0, 1)` on every parameter. A coupling above zero says "
        "that two neighbours like to be dark together, the rest given."
    )
    _map(page, digits, fit, np.zeros(len(digits.pairs), bool))


def _map(page: report.Report, digits: Digits, fit: Fit, open_: np.ndarray) -> None:
    figure = report.plot_couplings(
        digits.places[digits.pairs], fit.params["J"], marked=open_, mark_label="no finite estimate", nodes_xy=digits.places
    )
    _number_rows_and_columns(figure, digits)
    dashed = f"; {int(open_.sum())} dashed" if open_.any() else ""
    page.figure(
        figure,
        alt=f"The pixels as a grid of points joined by {len(open_)} lines, orange for positive and blue for negative couplings{dashed}.",
        caption="Each point is a pixel, each line a coupling; thicker is stronger. `r` is the row of a pixel, `c` its column.",
    )


def _unbounded(page: report.Report, digits: Digits, comparison: Comparison) -> None:
    """Add a section on the parameters that the fits without priors cannot determine."""
    open_, found = comparison.unbounded, comparison.findings()
    if not found:
        return
    page.section("What the data leave open")
    if open_.any():
        page.text(
            f"Without priors {int(open_.sum())} of the {len(open_)} couplings have no finite estimate: "
            f"{_why(digits, np.flatnonzero(open_))}. The fit improves for ever as such a coupling grows; it is dashed, and left out of "
            "the colours and of the efficiencies above."
        )
        _map(page, digits, list(comparison.fits.values())[-1], open_)
    for finding, masks in found.items():
        title = f"{finding.slug.replace('-', ' ')} under {listed(masks)}"
        page.warning(title, f"{finding.message}.", f"{finding.remedy}.")


def _priors(page: report.Report, fit: Fit) -> None:
    """Add a section with the warnings of the fit with priors, if that fit has converged."""
    if fit.status.converged and fit.status.findings:
        page.section("What the priors decide")
        page.text("With priors every estimate is finite, and some are the prior's more than the data's.")
        _warn(page, fit.status.findings)


def _warn(page: report.Report, findings: Sequence[Finding]) -> None:
    for finding in findings:
        page.warning(finding.slug.replace("-", " "), f"{finding.message}.", f"{finding.remedy}.")


def _why(digits: Digits, edges: np.ndarray) -> str:
    """Return the combinations of values that the data never contain, pair by pair."""
    said = []
    for e in edges[:MOST_EXPLAINED]:
        a, b = digits.x[:, digits.pairs[e]].T
        first, second = digits.name(e).split("-")
        never = [f"{SHADES[u]} while `{second}` is {SHADES[v]}" for u in (0, 1) for v in (0, 1) if not ((a == u) & (b == v)).any()]
        said.append(f"`{first}` is never {' or '.join(never)}" if never else f"`{first}` and `{second}` with their neighbours")
    return "; ".join(said) + ("; and more" if len(edges) > MOST_EXPLAINED else "")


def _number_rows_and_columns(figure: Figure, digits: Digits) -> None:
    axes, (left, top) = figure.axes[0], digits.places.min(axis=0)
    for kind, place, values in (("c", (0, top - 0.45), digits.places[:, 0]), ("r", (left - 0.45, 0), digits.places[:, 1])):
        for k in np.unique(values):
            x, y = (k, place[1]) if kind == "c" else (place[0], k)
            axes.text(x, y, f"{kind}{k}", ha="center", va="center", fontsize=9, color=LIGHT["muted"])
    if (legend := axes.get_legend()) is not None:
        # The legend stands above the columns' names.
        legend.set_bbox_to_anchor((0.0, 1.05), transform=axes.transAxes)


def _masks(page: report.Report, digits: Digits, comparison: Comparison) -> None:
    from ._digits import coupling_rows, mask_rows

    page.section("Two masks side by side")
    page.text(
        "Both fits are without priors. A mask is the set of pixels that the fit predicts from the rest: one pixel, or two neighbours. "
        "Efficiency is the geometric mean of Var(`single`, all masks for every image) / Var(this mask), over the "
        f"{int(comparison.finite.sum())} of {len(comparison.finite)} parameters that have a finite estimate under both: "
        "1 is as precise as `single`, 0.5 means that twice the images would be needed. "
        "`one mask` is for one block per image drawn from the mask, `all masks` for the average over every block."
    )
    headers, rows = mask_rows(comparison)
    groups = [("", 1), ("efficiency", 2), ("", 3)]
    page.table(headers, rows, "Both masks", groups=groups, formats=[None, ".3f", ".3f", ".1f", None, None])
    chosen = _extreme(comparison)
    fits = {name: (f.params["J"][chosen], f.standard_errors["J"][chosen]) for name, f in comparison.fits.items()}
    page.figure(
        report.plot_forest(
            [digits.name(e) for e in chosen],
            {k: v for k, (v, _) in fits.items()},
            {k: s for k, (_, s) in fits.items()},
            label="coupling",
        ),
        alt=f"Intervals of the {len(chosen)} most extreme couplings with a finite estimate under both masks, nearly the same.",
        caption=f"The {len(chosen)} couplings furthest above and below zero, of those with a finite estimate.",
    )
    groups = [("", 1), *((f"`{m}`", 2) for m in comparison.fits)]
    headers = ["coupling", *("estimate" if k == 0 else "s.e." for _ in comparison.fits for k in range(2))]
    caption = "The strongest couplings" + (", after those without a finite estimate" if comparison.unbounded.any() else "")
    page.table(headers, coupling_rows(digits, comparison), caption, groups=groups)


def _extreme(comparison: Comparison) -> np.ndarray:
    """Return the couplings furthest above and below zero that have an estimate, largest first."""
    values = list(comparison.fits.values())[-1].params["J"]
    finite = np.flatnonzero(~comparison.unbounded)
    ordered = finite[np.argsort(-values[finite], kind="stable")]
    half = MOST_IN_FOREST // 2
    return ordered if len(ordered) <= 2 * half else np.concatenate([ordered[:half], ordered[-half:]])


def _chains(page: report.Report, sampled: Sampled) -> None:
    from ._digits import worst_rows

    chains, draws, _ = sampled.draws.shape
    stats, found = sampled.idata["sample_stats"], sampled.diagnosis
    page.section("Chains")
    page.text(
        f"{chains} chains of {draws} sweeps after {sampled.idata['posterior'].attrs['warmup']} of warmup, in {sampled.seconds:.1f} s. "
        "The priors keep every coupling finite: at one that runs to infinity a chain would stand still."
    )
    for text in found.warnings:
        title, *rest = text.split(". ")
        page.warning(title, ". ".join(rest[:-1] or rest), rest[-1] if len(rest) > 1 else "")
    page.figure(
        report.plot_traces(
            {"share of dark pixels": sampled.idata["posterior"]["ink"].values, "log p, up to a constant": stats["lp"].values}
        ),
        alt=f"Traces of {chains} chains for the share of dark pixels and the log probability; the running means overlap.",
    )
    page.table(*worst_rows(sampled), "ArviZ's summary: share of dark pixels (`ink`), and the pixels with the largest R-hat")
    page.figure(
        report.plot_ess_r_hat(found.min_ess, found.max_r_hat, chains=chains),
        alt="Every pixel by effective sample size and R-hat, with the limits 400 and 1.01 dashed.",
        caption="Effective sample size and R-hat of each pixel's indicators.",
    )
    page.table(*found.table(6), "Discrete diagnostics: the worst pixels")  # pyright: ignore[reportCallIssue]


def _program(page: report.Report, fit: Fit) -> None:
    page.section("The fit, step by step")
    page.figure(
        report.plot_loss(fit.loss_trace, label="objective per image"),
        alt="The objective by iteration, falling and then flat; its distance to the smallest value falls on a log scale.",
        caption=f"L-BFGS on the model with priors: {fit.status.code} after {len(fit.loss_trace)} steps.",
    )
    page.section("The program")
    page.code(next(iter(fit.meta["program"].values())).strip(), "the program digits.gmlm")
