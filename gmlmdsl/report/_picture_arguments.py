"""What the pictures of networks are handed over, verified: every mistake has a cure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._diagnostics import GmlmError, fail

Array = np.ndarray


def wrong(message: str, cure: str = "") -> GmlmError:
    """An argument that does not fit."""
    return fail("E507", message, help=cure)


def verified_table(table: Any, columns: Sequence[str], source: str) -> None:
    """Refuse what is no table with these columns; `source`: the call that makes one."""
    import pandas as pd

    if not isinstance(table, pd.DataFrame):
        raise wrong(f"a table is drawn, a DataFrame such as `{source}`, got {type(table).__name__}", f"pass `{source}`")
    lacking = [c for c in columns if c not in table.columns]
    if lacking:
        has = ", ".join(map(str, table.columns)) or "none"
        raise wrong(f"the table has no column `{lacking[0]}`; its columns: {has}", f"pass `{source}`")


def verified_number(name: str, value: Any, above: float, cure: str = "") -> float:
    """A finite number above a bound."""
    known = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not known or not np.isfinite(value) or not value > above:
        raise wrong(f"{name} must be a number above {above:g}, got {value!r}", cure)
    return float(value)


def verified_count(name: str, value: Any) -> int:
    """A whole number, 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise wrong(f"{name} must be a whole number, 1 or more, got {value!r}")
    return int(value)


def verified_axes(ax: Any, count: int = 1) -> None:
    """Refuse what is no axes of matplotlib, or not so many; none is fine: a new figure."""
    from matplotlib.axes import Axes

    if ax is None:
        return
    given = [ax] if count == 1 else list(np.ravel(np.array(ax, object)))
    if len(given) != count or not all(isinstance(one, Axes) for one in given):
        what = "axes of matplotlib" if count == 1 else f"{count} axes of matplotlib, one for each panel"
        found = type(ax).__name__ if count == 1 else f"{len(given)}"
        raise wrong(f"`ax` must be {what}, got {found}", f"`figure, ax = plt.subplots({'' if count == 1 else f'1, {count}'})`, say")


def numbers(name: str, values: Any, shape: tuple[int, ...]) -> Array:
    """An array of numbers of this shape."""
    try:
        found = np.asarray(values, float)
    except (TypeError, ValueError):
        raise wrong(f"`{name}` must be numbers of shape {shape}, got {type(values).__name__}") from None
    if found.shape != shape:
        raise wrong(f"`{name}` must have shape {shape}, got {found.shape}")
    return found
