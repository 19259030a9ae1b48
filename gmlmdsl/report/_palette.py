"""The colours of reports, each with a light and a dark form, and the style of figures.

Pictures are drawn in the light colours. In the SVG each colour becomes a CSS variable, so that one
picture serves light and dark mode. The series use Okabe and Ito's hues, darkened or lightened to a
contrast of 4.5 with the page. The diverging colours run from blue to orange. They are
distinguishable under all common kinds of colour blindness, and are strongest at both ends in light
and in dark mode.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .limits import CSS_PIXELS_PER_INCH, FIGURE_WIDTH, MAX_SVG, MOST_LETTERS, PHONE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: dict[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#15181c"),
    "panel": ("#f3f5f7", "#1f242a"),
    "ink": ("#1b1f23", "#e8eaed"),
    "muted": ("#57606a", "#a9b1ba"),
    "grid": ("#d8dde2", "#3b424a"),
    "tile": ("#edeff2", "#272d34"),
    "link": ("#0b5cad", "#7dbcff"),
    "warn": ("#9a4a00", "#ffb869"),
    "warn-panel": ("#fff5e8", "#2e2417"),
    "c1": ("#0072b2", "#58b5ec"),
    "c2": ("#c24a00", "#f59b5d"),
    "c3": ("#007a5a", "#3fcfa4"),
    "c4": ("#a5428a", "#e89bcb"),
    "c5": ("#776100", "#dfc54b"),
    "c6": ("#4a4ea1", "#a9adf5"),
    "d0": ("#08519c", "#86caff"),
    "d1": ("#2f7fc2", "#559fde"),
    "d2": ("#66a9d4", "#3f78ad"),
    "d3": ("#a3c9e2", "#375877"),
    "d4": ("#c8ccd0", "#4a5158"),
    "d5": ("#f0c4a0", "#795437"),
    "d6": ("#e79658", "#b06a33"),
    "d7": ("#cb641b", "#e38b44"),
    "d8": ("#8f3b00", "#ffb877"),
}
LIGHT = {name: light for name, (light, _) in COLOURS.items()}
SERIES = tuple(LIGHT[f"c{k}"] for k in range(1, 7))
DIVERGING = tuple(LIGHT[f"d{k}"] for k in range(9))
MARKERS = ("o", "s", "D", "^", "v", "P")
INK_IMAGE = "ink"  # prefix of the id of a raster whose dark pixels are ink

_BY_HEX = {light: name for name, (light, _) in COLOURS.items()} | {"#000000": "ink"}
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.fontsize": 9.5,
    "axes.titlecolor": LIGHT["ink"],
    "axes.labelcolor": LIGHT["muted"],
    "axes.edgecolor": LIGHT["muted"],
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.6,
    "text.color": LIGHT["ink"],
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "legend.frameon": False,
    "lines.linewidth": 1.1,
}


def css_variables() -> str:
    """Return the colours as CSS custom properties, in a light and a dark version.

    The dark version applies if the reader's screen prefers it.
    """
    light, dark = (";".join(f"--{name}:{pair[k]}" for name, pair in COLOURS.items()) for k in (0, 1))
    return f":root{{color-scheme:light dark;{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"


@contextlib.contextmanager
def house_style() -> Iterator[None]:
    """Apply the matplotlib settings of reports; the user's own settings do not change outside."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield


def new_figure(height: float, width: float = FIGURE_WIDTH) -> Figure:
    """Return an empty figure with its size in inches.

    It is made without pyplot, and so without a window or a global list of figures.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def axes_of(ax: Axes | None, height: float, width: float = FIGURE_WIDTH) -> Axes:
    """Return the given axes, or those of a new figure."""
    return new_figure(height, width).subplots() if ax is None else ax


def panels_of(ax: Any, height: float, rows: int, columns: int, **options: Any) -> list[Axes]:
    """Return the given axes, in any array, or the panels of a new figure.

    Args:
        ax: the axes, or None.
        height: the height of a new figure in inches.
        rows: the number of rows of panels.
        columns: the number of columns of panels.
        options: further options of matplotlib's `subplots`.
    """
    import numpy as np

    return list(np.ravel(np.array(new_figure(height).subplots(rows, columns, **options) if ax is None else ax, object)))


def legend_beside(axes: Axes, ax: Axes | None, columns: int) -> None:
    """Add a legend above a new figure, or inside axes that a caller passed."""
    if ax is None:
        axes.figure.legend(loc="outside upper left", ncols=columns)
    else:
        axes.legend()


def plain(text: object) -> str:
    """Return text that matplotlib does not interpret as mathematics."""
    return str(text).replace("$", r"\$")


def bare(names: Iterable[object]) -> list[str]:
    """Return names of cells as pictures write them.

    If all cells belong to one variable, such as `x[a]`, only the text in the brackets is used.
    """
    known = [str(name) for name in names]
    found = [re.fullmatch(r"(\w+)\[(.+)\]", name) for name in known]
    one = len({m[1] for m in found if m}) == 1 and all(found)
    return [plain(m[2] if one and m else name) for m, name in zip(found, known, strict=True)]


def in_lines(name: str) -> str:
    """Return a long name of an entry, such as `J[first, second]`, on one line per index.

    A part that is still too long loses its middle.
    """
    if len(name) <= MOST_LETTERS:
        return name
    parts = [p if len(p) <= MOST_LETTERS else f"{p[: MOST_LETTERS // 2]}..{p[-MOST_LETTERS // 2 + 2 :]}" for p in name.split(", ")]
    return ",\n".join(parts)


def svg(figure: Figure, description: str, prefix: str) -> str | None:
    """Return a figure as inline SVG whose colours follow the page.

    The result is None if the SVG is too large.

    Args:
        figure: a matplotlib figure.
        description: the text that is read out in place of the picture; it must be HTML-safe.
        prefix: the start of every id, so that two figures of one page do not share ids.
    """
    import matplotlib

    buffer = io.StringIO()
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "gmlmdsl", "savefig.transparent": True}
    with matplotlib.rc_context(settings):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    if len(text) > MAX_SVG:
        return None
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    root, rest = text.split(">", 1)
    text = re.sub(r'\s(?:xmlns(?::\w+)?|version|width|height)="[^"]*"', "", root) + ">" + rest
    text = re.sub(r'\b(id|clip-path|xlink:href)="(url\(#|#|)(?!data:)', rf'\1="\2{prefix}', text)
    text = re.sub(r"#[0-9a-f]{6}\b", lambda m: f"var(--{_BY_HEX[m[0]]})" if m[0] in _BY_HEX else m[0], text)
    inches = figure.get_size_inches()[0]
    width = f"max-width:{inches * CSS_PIXELS_PER_INCH:.0f}px"
    wide = f' class="wide" style="{width};--least:{inches * PHONE / FIGURE_WIDTH:.0f}px"' if inches > FIGURE_WIDTH else f' style="{width}"'
    return text.replace("<svg", f'<svg role="img" aria-label="{description}"{wide}', 1)


def png(figure: Figure) -> bytes:
    """Return a figure as PNG on white, for figures that are too large as SVG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160, facecolor="white")
    return buffer.getvalue()
