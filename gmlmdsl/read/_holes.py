"""Missing entries of arrays from Python: entries that `numpy.ma` masks, and empty objects.

`np.asarray` silently drops a mask. A user's array is therefore searched for missing entries before
it is converted to a plain array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._diagnostics import fail

Array = np.ndarray


def masked_entries(value: Any) -> Array | None:
    """Return a mask of the masked entries, or None if there are none.

    It has the shape of `np.asarray(value)`. A list may contain masked rows or `np.ma.masked`.
    """
    if isinstance(value, np.ma.MaskedArray):
        found = np.ma.getmaskarray(value)
        # A structured array has no plain mask, and is not valid data either.
        return found if found.dtype == bool and found.any() else None
    if not isinstance(value, list | tuple) or not any(isinstance(e, np.ma.MaskedArray | list | tuple) for e in value):
        return None
    parts = [masked_entries(e) for e in value]
    if all(p is None for p in parts):
        return None
    return np.stack([np.zeros(np.shape(e), bool) if p is None else p for e, p in zip(value, parts, strict=True)])


def plain_array(value: Any) -> tuple[Array, Array | None]:
    """Return the entries, with the data below the mask, and a mask of the masked ones."""
    masked = masked_entries(value)
    return np.asarray(value if masked is None else _below(value)), masked


def empty_entries(array: Array) -> Array:
    """Return a mask of the empty entries of an array of objects or floats.

    They are None, nan, and the values of pandas for missing entries.
    """
    if array.dtype.kind == "f":
        return np.isnan(array)
    if array.dtype != object:
        return np.zeros(array.shape, bool)
    return np.array([_is_empty(e) for e in array.ravel()], bool).reshape(array.shape)


def verify_unmasked(value: Any, what: str, code: str = "E504") -> None:
    """Raise if a value has masked entries although missing numbers are not allowed.

    Raises:
        GmlmError: `code`, with the place of the first masked entry.
    """
    try:
        found = masked_entries(value)
    except ValueError:
        return  # Other checks report rows of different length.
    if found is not None:
        place = tuple(int(i) for i in np.argwhere(found)[0])
        at = "" if not place else f" at {place[0] if len(place) == 1 else place}"
        raise fail(code, f"{what}{at} is masked, and must be known", help="fill it in, or leave out what it belongs to")


def _below(value: Any) -> Any:
    return [_below(e) for e in value] if isinstance(value, list | tuple) else np.ma.getdata(value)


def _is_empty(entry: Any) -> bool:
    """Return whether an entry is None, nan, NaT or `pandas.NA`.

    nan and NaT differ from themselves. Comparing `pandas.NA` with itself has no truth value, which
    raises a TypeError.
    """
    if entry is None:
        return True
    if isinstance(entry, str | int | np.integer):
        return False
    try:
        return bool(entry != entry)
    except TypeError:
        return True
    except ValueError:
        return False  # An array is not an entry.
