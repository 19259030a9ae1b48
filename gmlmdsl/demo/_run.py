"""The run of the demo: fits, comparison, samples, and printed tables."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._diagnostics import listed
from ..files import made_folder
from ._digits import Comparison, Digits, Sampled, compare, coupling_rows, load_images, mask_rows, program_path, worst_rows

if TYPE_CHECKING:
    import numpy as np

    from .._compile import BoundProgram
    from ..model import Fit

MASKS = ("single", "neighbours")
SHRUNK_MASK = "shrunk_neighbours"


def run(out: str | Path, quick: bool = False) -> Path:
    """Fit with priors, sample, compare two masks without priors, print, and write `report.html`.

    Args:
        out: the folder of the report, which is created if it is missing.
        quick: whether to use fewer images, pixels and draws, for tests.

    Returns:
        The path of the report.

    Raises:
        GmlmError: E561 without scikit-learn, E560 if the folder cannot be written.
    """
    from .._compile import load
    from ._report import write_report

    started = time.perf_counter()
    folder = made_folder(out)
    digits = load_images(quick=quick)
    program = load(program_path(), coords={"pixel": digits.names}, n_pixels=len(digits.pixels), pairs=digits.pairs)
    _say(f"{len(digits.x)} images, {len(digits.pixels)} of 64 pixels vary, {len(digits.pairs)} pairs of neighbours")
    sampled = _sample(program, digits, quick)
    _print_diagnostics(sampled)
    _say("\nTwo masks side by side, without priors")
    comparison = compare({mask: _fit(program, "digits", digits, mask) for mask in MASKS})
    _print_comparison(digits, comparison)
    _print_unbounded(comparison)
    path = write_report(folder / "report.html", digits, comparison, sampled, time.perf_counter() - started)
    _say(f"report: {path} ({time.perf_counter() - started:.0f} s in all)")
    return path


def _say(text: str) -> None:
    from rich.console import Console

    Console(highlight=False, markup=False, soft_wrap=True).print(text)


def _fit(program: BoundProgram, model: str, digits: Digits, mask: str) -> Fit:
    _say(f"fitting `{model}` under mask `{mask}` ..")
    fit = program.model(model).fit(digits.x, mask=mask)
    _say(f"  {fit.status.code} after {len(fit.loss_trace)} steps, {fit.meta['seconds']:.1f} s")
    return fit


def _print_comparison(digits: Digits, comparison: Comparison) -> None:
    headers, rows = mask_rows(comparison)
    _print_table("Efficiency of two masks, against `single` with all masks", headers, rows)
    columns = ["coupling", *(f"{m}{what}" for m in comparison.fits for what in ("", ", s.e."))]
    _print_table("Couplings under both masks (inf: no finite estimate)", columns, coupling_rows(digits, comparison))


def _print_unbounded(comparison: Comparison) -> None:
    """Print the warnings of the fits without priors, each once for all its masks."""
    found = comparison.findings()
    if found:
        _say("\nWhat the data leave open without priors")
    for finding, masks in found.items():
        _say(f"under {listed(masks)}: {finding.message}. {finding.remedy}.")


def _print_table(title: str, headers: list[str], rows: list[list[object]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for k, header in enumerate(headers):
        table.add_column(header, justify="left" if k == 0 else "right")
    for row in rows:
        # `Text` prints brackets as they are, not as markup.
        table.add_row(*(Text(f"{v:.3f}" if isinstance(v, float) else str(v)) for v in row))
    Console().print(table)


def _sample(program: BoundProgram, digits: Digits, quick: bool) -> Sampled:
    """Fit the model with priors, under which every estimate is finite, and draw from it."""
    import numpy as np

    from ..sample import SamplingWarning, summary

    fit = _fit(program, "shrunk", digits, SHRUNK_MASK)
    started = time.perf_counter()
    with warnings.catch_warnings():
        # The warnings are printed below and in the report.
        warnings.simplefilter("ignore", SamplingWarning)
        idata = fit.sample(
            "sweep", draws=200 if quick else 2000, warmup=100 if quick else 1000, chains=4, seed=1, observe={"ink": lambda x: x.mean()}
        )
    seconds = time.perf_counter() - started
    draws = np.asarray(idata["posterior"]["x"].values)
    return Sampled(fit, idata, _diagnosis(draws, digits), summary(idata), draws, seconds)


def _diagnosis(draws: np.ndarray, digits: Digits) -> Any:
    from ..sample import diagnose

    return diagnose(draws, digits.names, [("0", "1")] * len(digits.names))


def _print_diagnostics(sampled: Sampled) -> None:
    chains, draws, _ = sampled.draws.shape
    _print_table(f"ArviZ: {chains} chains of {draws} sweeps, {sampled.seconds:.1f} s; the largest R-hat", *worst_rows(sampled))
    _say(str(sampled.diagnosis))
