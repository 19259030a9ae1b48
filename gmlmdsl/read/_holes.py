"""Holes of arrays from Python: what `numpy.ma` masks, and what stands for nothing among objects.

`np.asarray` drops a mask without a word, so an array of a user's is asked for its holes before it
is turned into a plain one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._diagnostics import fail

Array = np.ndarray


def masked_entries(value: Any) -> Array | None:
    """Which entries are masked, of the shape of `np.asarray(value)`; None where none is. A list may hold masked rows or `np.ma.masked`."""
    if isinstance(value, np.ma.MaskedArray):
        found = np.ma.getmaskarray(value)
        # a table of fields has no plain mask, and is no data either
        return found if found.dtype == bool and found.any() else None
    if not isinstance(value, list | tuple) or not any(isinstance(e, np.ma.MaskedArray | list | tuple) for e in value):
        return None
    parts = [masked_entries(e) for e in value]
    if all(p is None for p in parts):
        return None
    return np.stack([np.zeros(np.shape(e), bool) if p is None else p for e, p in zip(value, parts, strict=True)])


def plain_array(value: Any) -> tuple[Array, Array | None]:
    """The entries, with whatever stands below a mask, and which of them are masked."""
    masked = masked_entries(value)
    return np.asarray(value if masked is None else _below(value)), masked


def empty_entries(array: Array) -> Array:
    """Which entries of an array of objects or floats stand for nothing: None, nan, and what pandas has in their place."""
    if array.dtype.kind == "f":
        return np.isnan(array)
    if array.dtype != object:
        return np.zeros(array.shape, bool)
    return np.array([_is_empty(e) for e in array.ravel()], bool).reshape(array.shape)


def verify_unmasked(value: Any, what: str, code: str = "E504") -> None:
    """Refuse masked entries where a missing number has no meaning.

    Raises:
        GmlmError: with the place of the first.
    """
    try:
        found = masked_entries(value)
    except ValueError:
        return  # of rows that differ in length: said where shapes are judged
    if found is not None:
        place = tuple(int(i) for i in np.argwhere(found)[0])
        at = "" if not place else f" at {place[0] if len(place) == 1 else place}"
        raise fail(code, f"{what}{at} is masked, and must be known", help="fill it in, or leave out what it belongs to")


def _below(value: Any) -> Any:
    return [_below(e) for e in value] if isinstance(value, list | tuple) else np.ma.getdata(value)


def _is_empty(entry: Any) -> bool:
    """Nothing is equal to nan and NaT, not even themselves; whether `pandas.NA` is, it will not say."""
    if entry is None:
        return True
    if isinstance(entry, str | int | np.integer):
        return False
    try:
        return bool(entry != entry)
    except TypeError:
        return True
    except ValueError:
        return False  # an array, which is no entry
