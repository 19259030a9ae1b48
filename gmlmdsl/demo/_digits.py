"""The demo's data, and what it finds: the digits, fits of them under several masks, draws."""

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


THRESHOLD = 8  # of the 17 grey levels 0..16: a pixel is on from the middle one upwards


# a pixel stays in the model if it is on in at least so many images, and off in as many
MIN_ROWS = 20


SHOWN = 12  # couplings printed


@dataclass(frozen=True)
class Digits:
    """The binarised images.

    Attributes:
        images: (row, 8, 8) 0 or 1.
        pixels: (pixel,) which of the 64 the model has, row-major.
        pairs: (edge, 2) neighbours on the grid, diagonals among them, as positions in `pixels`.
    """

    images: np.ndarray
    pixels: np.ndarray
    pairs: np.ndarray

    @property
    def x(self) -> np.ndarray:
        """(row, pixel) what the model sees."""
        return self.images.reshape(len(self.images), -1)[:, self.pixels]

    def as_images(self, x: np.ndarray) -> np.ndarray:
        """(row, 8, 8) configurations with the pixels outside the model at their most frequent value."""
        usual = self.images.reshape(len(self.images), -1).mean(axis=0).round()
        out = usual[None].repeat(len(x), axis=0)
        out[:, self.pixels] = x
        return out.reshape(-1, SIDE, SIDE)

    @property
    def places(self) -> np.ndarray:
        """(pixel, 2) column and row of each pixel."""
        import numpy as np

        return np.stack([self.pixels % SIDE, self.pixels // SIDE], axis=1)

    @property
    def names(self) -> list[str]:
        """Each pixel by its row and column: `r3c4`."""
        return [f"r{row}c{column}" for column, row in self.places]

    def name(self, edge: int) -> str:
        """An edge by its ends: `r3c4-r3c5`."""
        return "-".join(self.names[k] for k in self.pairs[edge])


def program_path() -> Path:
    """Where `digits.gmlm` is: inside the package in an installed wheel, in `examples/` in a checkout."""
    return shipped_folder("examples") / "digits.gmlm"


def load_images(*, quick: bool = False) -> Digits:
    """The digits, binarised, with the pixels that vary.

    Args:
        quick: every third image, and the sixteen pixels in the middle.

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
    """Fits of one model under several masks, and how precise each is.

    The efficiency of a mask is the geometric mean, over the parameters whose estimate is finite and
    determined under every mask, of Var(first mask, all its blocks for every row) / Var(this mask):
    1 is as precise as the first mask, 0.5 means that twice the rows would be needed. Variances are
    those of the sandwich. `all_masks` is for the fits as they were made, which average over all
    blocks of the mask for every row; `one_mask` for one block per row, drawn from the mask.
    """

    fits: dict[str, Fit]
    finite: np.ndarray
    all_masks: dict[str, float]
    one_mask: dict[str, float]

    def findings(self) -> dict[Finding, list[str]]:
        """What must be said about the fits, each with the masks under which it was found."""
        found: dict[Finding, list[str]] = {}
        for name, fit in self.fits.items():
            for f in fit.status.findings:
                found.setdefault(f, []).append(name)
        return found

    @property
    def unbounded(self) -> np.ndarray:
        """(edge,) couplings without a finite estimate under some mask."""
        return ~self.finite[-next(iter(self.fits.values())).params["J"].size :]


def compare(fits: dict[str, Fit]) -> Comparison:
    """The efficiency of each mask against the first; see `Comparison`."""
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
    """Draws of the regularised fit and what is said about them."""

    fit: Fit
    idata: Any
    diagnosis: Any
    summary: Any
    draws: np.ndarray
    seconds: float


def mask_rows(comparison: Comparison) -> tuple[list[str], list[list[object]]]:
    """Headers and rows of the table of masks."""
    headers = ["mask", "all masks", "one mask", "seconds", "steps", "status"]
    rows: list[list[object]] = []
    for name, fit in comparison.fits.items():
        efficiency = [comparison.all_masks[name], comparison.one_mask[name]]
        rows.append([name, *efficiency, round(fit.meta["seconds"], 1), len(fit.loss_trace), fit.status.code])
    return headers, rows


def coupling_rows(digits: Digits, comparison: Comparison, most: int = SHOWN) -> list[list[object]]:
    """Couplings side by side, `most` of them: first those without a finite estimate, then by size."""
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
    """Headers and rows of ArviZ's summary: the share of dark pixels, then the pixels with the largest R-hat."""
    table = sampled.summary
    columns = [c for c in ("mean", "sd", "mcse_mean", "ess_bulk", "ess_tail", "r_hat") if c in table]
    pixels = table[table.index != "ink"].sort_values("r_hat", ascending=False, na_position="first").head(most)
    rows = [["ink", *map(float, table.loc["ink", columns])]]
    rows += [[str(name), *map(float, row)] for name, row in zip(pixels.index, pixels[columns].to_numpy(), strict=True)]
    return ["quantity", *columns], rows
