# What the figures share: colours, how a picture is saved, and tables of numbers that say their kind.
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from PIL import Image

from gmlmdsl.report import _palette as palette

HERE = Path(__file__).resolve().parent
SERIES, MARKERS = palette.SERIES, palette.MARKERS
INK, MUTED = palette.LIGHT["ink"], palette.LIGHT["muted"]
WIDTH = 4.6  # inches: at the width of a phone, 390 px, a letter is still 9 px high
DPI = 170
COLOURS = 48  # of a picture's palette
STYLE = {"axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "figure.facecolor": "white", "legend.fontsize": 9}


@dataclass(frozen=True)
class Number:
    """One row of a table.

    Attributes:
        what: which quantity.
        value: a number.
        kind: "exact", "bound" or "Monte Carlo"; or "counted", "measured here".
        error: the standard error of a Monte Carlo number.
        by: the call that makes it.
    """

    what: str
    value: float
    kind: str
    by: str
    error: float | None = None

    def cells(self) -> tuple[str, str, str]:
        spread = "" if self.error is None else f" ± {self.error:.2g}"
        return self.what, short(self.value) + spread, f"{self.kind}, `{self.by}`" if self.by else self.kind


@dataclass(frozen=True)
class Table:
    """Rows by columns, for many numbers of few kinds.

    Attributes:
        name: of the place on the page.
        columns: their heads; the heads of columns of numbers end with the kind.
        rows: texts.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = ["| " + " | ".join(self.columns) + " |", "|" + " --- |" * len(self.columns)]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines)


def numbers(name: str, rows: Sequence[Number]) -> Table:
    """A table of single numbers."""
    return Table(name, ("quantity", "value", "kind, and the call that makes it"), [r.cells() for r in rows])


def short(value: float) -> str:
    """Four digits; large and small numbers with a power of ten."""
    if np.isinf(value):
        return "inf"
    if value == round(value) and abs(value) < 1e6:
        return f"{value:,.0f}"
    return f"{value:.4g}" if 1e-3 <= abs(value) < 1e5 else f"{value:.2e}"


def pm(value: float, error: float) -> str:
    """A Monte Carlo number with its standard error."""
    return f"{short(value)} ± {error:.2g}"


@contextmanager
def style() -> Iterator[None]:
    """The reports' style with dark text on white."""
    import matplotlib

    with palette.house_style(), matplotlib.rc_context(STYLE):
        yield


def panels(heights: Sequence[float]) -> tuple[Figure, list]:
    """A figure with panels below one another."""
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    found = figure.subplots(len(heights), 1, gridspec_kw={"height_ratios": list(heights)}, squeeze=False)
    return figure, list(found[:, 0])


def legend_below(axes, columns: int = 2, **options) -> None:
    """A legend under the axis' label, where it covers nothing."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns, columnspacing=1.2, handlelength=2.2, **options)


def plain_ticks(axis, at: Sequence[float]) -> None:
    """Ticks of a logarithmic axis at round numbers, written out."""
    axis.set_major_locator(FixedLocator(list(at)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def save(figure: Figure, path: Path) -> None:
    """A PNG on white with few colours."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="white")
    image = Image.open(buffer).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
