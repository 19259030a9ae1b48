"""Verification of the arguments of pictures and pages; every error has a suggested fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._diagnostics import GmlmError, fail, is_real_number, is_whole_number
from .._types import ArrayLike
from .limits import MOST_COUNT

Array = np.ndarray
LARGEST = float(np.finfo(float).max)


def wrong(message: str, cure: str = "") -> GmlmError:
    """Return E507 for an argument that does not fit."""
    return fail("E507", message, help=cure)


def verified_table(table: object, columns: Sequence[str], source: str) -> None:
    """Raise E507 unless `table` is a DataFrame with these columns.

    `source` is the call that returns such a table.
    """
    import pandas as pd

    if not isinstance(table, pd.DataFrame):
        raise wrong(f"a table is drawn, a DataFrame such as `{source}`, got {type(table).__name__}", f"pass `{source}`")
    lacking = [c for c in columns if c not in table.columns]
    if lacking:
        has = ", ".join(map(str, table.columns)) or "none"
        raise wrong(f"the table has no column `{lacking[0]}`; its columns: {has}", f"pass `{source}`")


def verified_number(name: str, value: Any, above: float, cure: str = "") -> float:
    """Return a finite number above a bound.

    Args:
        name: the name of the argument.
        value: the argument.
        above: the bound.
        cure: the suggested fix of the error.

    Raises:
        GmlmError: E507 for other values.
    """
    if not is_real_number(value) or not abs(value) <= LARGEST or not value > above:
        raise wrong(f"{name} must be a number above {above:g}, got {value!r}", cure)
    return float(value)


def verified_count(name: str, value: Any) -> int:
    """Return a whole number of 1 or more; raise E507 for other values."""
    if not is_whole_number(value) or value < 1:
        raise wrong(f"{name} must be a whole number, 1 or more, got {value!r}")
    if value > MOST_COUNT:
        raise wrong(f"{name} must be a whole number up to {MOST_COUNT:,}, got {value:,}")
    return int(value)


def verified_share(name: str, value: Any) -> float:
    """Return a number between 0 and 1; raise E507 for other values."""
    if not verified_number(name, value, 0) < 1:
        raise wrong(f"{name} must be a number between 0 and 1, got {value!r}", f"`{name}=0.94`, say")
    return float(value)


def verified_text(name: str, value: object) -> str:
    """Return a text; raise E507 for other values."""
    if not isinstance(value, str):
        raise wrong(f"{name} must be a text, got {type(value).__name__}", "`str(..)` makes a text of it")
    return value


def verified_names(name: str, values: Any) -> list[Any]:
    """Return a list of names of any type; raise E507 for other values."""
    try:
        if isinstance(values, str | bytes):
            raise TypeError
        return list(values)
    except (TypeError, ValueError):  # not a list, or a closed file
        raise wrong(f"{name} must be a list of names, got {type(values).__name__}", f"`{name}=[..]`") from None


def made_by(what: str, value: object, attribute: str, call: str) -> Any:
    """Return the result of a call, recognised by an attribute.

    Args:
        what: the name of the argument.
        value: the argument.
        attribute: the name of an attribute of the result.
        call: the text of the call.

    Raises:
        GmlmError: E507 for other values, such as the class of the result.
    """
    if isinstance(value, type) or not hasattr(value, attribute):
        raise wrong(f"{what} must be what `{call}` gives, got {type(value).__name__}", f"pass `{call}`")
    return value


def verified_axes(ax: object, count: int = 1) -> None:
    """Raise E507 unless `ax` is None or has `count` matplotlib axes.

    None stands for a new figure.
    """
    from matplotlib.axes import Axes

    if ax is None:
        return
    given = [ax] if count == 1 else list(np.ravel(np.array(ax, object)))
    if len(given) != count or not all(isinstance(one, Axes) for one in given):
        what = "axes of matplotlib" if count == 1 else f"{count} axes of matplotlib, one for each panel"
        found = type(ax).__name__ if count == 1 else f"{len(given)}"
        raise wrong(f"`ax` must be {what}, got {found}", f"`figure, ax = plt.subplots({'' if count == 1 else f'1, {count}'})`, say")


def numbers(name: str, values: Any, shape: tuple[int, ...]) -> Array:
    """Return an array of numbers of this shape; raise E507 for other values."""
    try:
        found = np.asarray(values, float)
    except (TypeError, ValueError, OverflowError):
        raise wrong(f"`{name}` must be numbers of shape {shape}, got {type(values).__name__}") from None
    if found.shape != shape:
        raise wrong(f"`{name}` must have shape {shape}, got {found.shape}")
    return found


def axes_in(values: ArrayLike) -> int | None:
    """Return the number of axes of an array, or None if its rows differ in length."""
    try:
        return np.ndim(values)
    except ValueError:
        return None


def errors_of(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return standard errors of this shape; raise E507 if one is negative.

    An error that is not finite stands for no error.
    """
    found = numbers(name, values, shape)
    if (found < 0).any():
        raise wrong(f"`{name}` must not be negative, got {found[found < 0][0]:g}")
    return found


def rows_of(name: str, values: ArrayLike, axes: str, empty: bool = True) -> Array:
    """Return an array of numbers with named axes.

    Args:
        name: the name of the argument.
        values: the argument.
        axes: the names of the axes, such as `(chain, draw)`.
        empty: whether the array may have no entry.

    Raises:
        GmlmError: E507 for other values.
    """
    count = len(axes.strip("()").rstrip(",").split(","))
    try:
        found = np.asarray(values, float)
    except (TypeError, ValueError, OverflowError):
        raise wrong(f"`{name}` must be numbers of shape {axes}, got {type(values).__name__}") from None
    if found.ndim != count or not (empty or found.size):
        raise wrong(f"`{name}` must have shape {axes}{' with an entry at least' * (not empty)}, got {found.shape}")
    return found
