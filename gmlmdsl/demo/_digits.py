"""The demo's data and results: digits, fits under several masks, and draws."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._optional import need
from ..files import shipped_folder

if TYPE_CHECKING:
    import numpy as np

    from ..fit import Finding
    from ..model import Fit


SIDE = 8


THRESHOLD = 8  # A pixel is on from the middle of the 17 grey levels 0..16 upwards.


# A pixel is part of the model if it is on in at least this many images, and off in as many.
MIN_ROWS = 20


MOST_PRINTED = 12  # The number of printed couplings.


@dataclass(frozen=True)
class Digits:
    """The binarised images.

    Attributes:
        images: entries 0 or 1, shape (rows, 8, 8).
        pixels: the numbers of the model's pixels among all 64, row-major, shape (pixels,).
        pairs: neighbours on the grid, including diagonal ones, as positions in `pixels`, shape
            (edges, 2).
    """

    images: np.ndarray
    pixels: np.ndarray
    pairs: np.ndarray

    @property
    def x(self) -> np.ndarray:
        """The data of the model, shape (rows, pixels)."""
        return self.images.reshape(len(self.images), -1)[:, self.pixels]

    def as_images(self, x: np.ndarray) -> np.ndarray:
        """Return configurations as images, shape (rows, 8, 8).

        Pixels outside the model have their most frequent value.
        """
        usual = self.images.reshape(len(self.images), -1).mean(axis=0).round()
        out = usual[None].repeat(len(x), axis=0)
        out[:, self.pixels] = x
        return out.reshape(-1, SIDE, SIDE)

    @property
    def places(self) -> np.ndarray:
        """The column and the row of each pixel, shape (pixels, 2)."""
        import numpy as np

        return np.stack([self.pixels % SIDE, self.pixels // SIDE], axis=1)

    @property
    def names(self) -> list[str]:
        """The name of each pixel, with its row and column: `r3c4`."""
        return [f"r{row}c{column}" for column, row in self.places]

    def name(self, edge: int) -> str:
        """Return the name of an edge, with its two pixels: `r3c4-r3c5`."""
        return "-".join(self.names[k] for k in self.pairs[edge])


def program_path() -> Path:
    """Return the path of `digits.gmlm`.

    It is inside the package in an installed wheel, and in `examples/` in a checkout.
    """
    return shipped_folder("examples") / "digits.gmlm"


def load_images(*, quick: bool = False) -> Digits:
    """Return the binarised digits, with the pixels that vary.

    Args:
        quick: whether to use only every third image and the sixteen pixels in the middle.

    Raises:
        GmlmError: E561 without scikit-learn.
    """
    import numpy as np

    datasets = need("sklearn.datasets", "the demo needs scikit-learn, which brings the digits", '"gmlmdsl[demo]"')
    grey = np.asarray(datasets.load_digits().images)
    images = (grey[::3] if quick else grey) >= THRESHOLD
    on = images.reshape(len(images), -1).sum(axis=0)
    varies = np.minimum(on, len(images) - on) >= MIN_ROWS
    if quick:
        row, column = np.divmod(np.arange(SIDE * SIDE), SIDE)
        varies &= (abs(row - 3.5) < 2) & (abs(column - 3.5) < 2)
    pixels = np.flatnonzero(varies)
    row, column = pixels // SIDE, pixels % SIDE
    near = (abs(row[:, None] - row) <= 1) & (abs(column[:, None] - column) <= 1)
    return Digits(images.astype(np.int64), pixels, np.argwhere(np.triu(near, k=1)))


@dataclass(frozen=True)
class Comparison:
    """Fits of one model under several masks, and the efficiency of each mask.

    The efficiency of a mask is the geometric mean of Var(first mask, all its blocks for every row)
    / Var(this mask). The mean is over the parameters whose estimate is finite and determined under
    every mask. Efficiency 1 is the precision of the first mask; 0.5 means that twice as many rows
    would be needed. Variances are those of the sandwich estimator.

    Attributes:
        fits: the fits by mask.
        finite: whether each parameter has a finite and determined estimate under every mask.
        all_masks: efficiencies of the fits themselves, which average over all blocks of the mask
            for every row.
        one_mask: efficiencies for one block per row, drawn from the mask.
    """

    fits: dict[str, Fit]
    finite: np.ndarray
    all_masks: dict[str, float]
    one_mask: dict[str, float]

    def findings(self) -> dict[Finding, list[str]]:
        """Return the warnings about the fits, each with the masks to which it applies."""
        found: dict[Finding, list[str]] = {}
        for name, fit in self.fits.items():
            for f in fit.status.findings:
                found.setdefault(f, []).append(name)
        return found

    @property
    def unbounded(self) -> np.ndarray:
        """The couplings without a finite estimate under some mask, shape (edges,)."""
        return ~self.finite[-next(iter(self.fits.values())).params["J"].size :]


def compare(fits: dict[str, Fit]) -> Comparison:
    """Return the efficiency of each mask relative to the first; see `Comparison`."""
    import numpy as np

    def variances(fit: Fit, covariance: np.ndarray | None) -> np.ndarray:
        return np.full(len(finite), np.nan) if covariance is None else np.diag(covariance)

    found = list(fits.values())
    finite = np.all([(f.status.separated == 0) & ~f.status.undetermined for f in found], axis=0)
    base = variances(found[0], found[0].full_covariance)

    def efficiency(variance: np.ndarray) -> float:
        return float(np.exp(np.mean(np.log(base[finite] / variance[finite]))))

    return Comparison(
        fits,
        finite,
        {name: efficiency(variances(f, f.full_covariance)) for name, f in fits.items()},
        {name: efficiency(variances(f, f.one_mask_covariance)) for name, f in fits.items()},
    )


@dataclass(frozen=True)
class Sampled:
    """Draws of the regularised fit and their diagnostics."""

    fit: Fit
    idata: Any
    diagnosis: Any
    summary: Any
    draws: np.ndarray
    seconds: float


def mask_rows(comparison: Comparison) -> tuple[list[str], list[list[object]]]:
    """Return headers and rows of the table of masks."""
    headers = ["mask", "all masks", "one mask", "seconds", "steps", "status"]
    rows: list[list[object]] = []
    for name, fit in comparison.fits.items():
        efficiency = [comparison.all_masks[name], comparison.one_mask[name]]
        rows.append([name, *efficiency, round(fit.meta["seconds"], 1), len(fit.loss_trace), fit.status.code])
    return headers, rows


def coupling_rows(digits: Digits, comparison: Comparison, most: int = MOST_PRINTED) -> list[list[object]]:
    """Return rows of the table of couplings, at most `most` of them.

    Couplings without a finite estimate come first, then the others by size.
    """
    import numpy as np

    fits = list(comparison.fits.values())
    tables = [f.summary().loc[lambda t: t.index.str.startswith("J[")] for f in fits]
    size = np.max([np.abs(t["estimate"].to_numpy()) for t in tables], axis=0)
    open_ = comparison.unbounded
    order = np.lexsort((-np.where(np.isfinite(size), size, 0), ~open_))[:most]
    rows: list[list[object]] = []
    for e in order:
        rows.append([digits.name(e), *(float(t[column].iloc[e]) for t in tables for column in ("estimate", "std_error"))])
    return rows


def worst_rows(sampled: Sampled, most: int = 5) -> tuple[list[str], list[list[object]]]:
    """Return headers and rows of ArviZ's summary.

    The first row is the share of dark pixels. The others are the pixels with the largest R-hat.
    """
    table = sampled.summary
    columns = [c for c in ("mean", "sd", "mcse_mean", "ess_bulk", "ess_tail", "r_hat") if c in table]
    pixels = table[table.index != "ink"].sort_values("r_hat", ascending=False, na_position="first").head(most)
    rows = [["ink", *map(float, table.loc["ink", columns])]]
    rows += [[str(name), *map(float, row)] for name, row in zip(pixels.index, pixels[columns].to_numpy(), strict=True)]
    return ["quantity", *columns], rows
