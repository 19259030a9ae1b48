"""Ragged arrays, whose rows differ in length.

Users pass them as lists of rows, or padded; inside the package they are one axis of cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._diagnostics import fail
from .._types import ArrayLike, MissingValue
from ..graph import VariableArray

Array = np.ndarray


def in_one_axis(v: VariableArray, value: ArrayLike, what: str, missing: MissingValue | None = None) -> ArrayLike:
    """Return the entries of a ragged variable along one axis, after the axes of rows of data.

    Any other value is returned unchanged.

    Args:
        v: the variable, which is ragged.
        value: a list of rows, or one such list for each row of data; an array that is padded after
            the ends of rows; or entries along one axis.
        what: how messages call it.
        missing: the value of padding, besides masked entries and nan.

    Raises:
        GmlmError: E501 for a row of another length, and for padding that contains a value.
    """
    assert v.members is not None
    if isinstance(value, list | tuple):
        return _from_lists(v, value, what)
    array, axes = np.ma.asanyarray(value), v.members.shape[1]
    if (
        array.ndim < axes
        or array.shape[-1] == v.size
        or any(n <= m for n, m in zip(array.shape[-axes:], v.members.max(axis=0), strict=True))
    ):
        return value
    inside = np.zeros(array.shape[-axes:], bool)
    inside[tuple(v.members.T)] = True
    _verify_padding(array[..., ~inside], what, missing)
    found = array[(..., *v.members.T)]
    return found if np.ma.isMaskedArray(value) else np.asarray(found)


def _verify_padding(padding: Array, what: str, missing: MissingValue | None) -> None:
    held = ~np.ma.getmaskarray(padding)
    values = np.ma.getdata(padding)
    if values.dtype.kind == "f":
        held &= ~np.isnan(values)
    if missing is not None and not (isinstance(missing, float) and np.isnan(missing)):
        held &= np.asarray(values != missing)
    if held.any():
        found = values[held].ravel()[0]
        help = "pad with the code that `missing=` names, or pass a list of rows"
        raise fail("E501", f"{what} holds {found} behind the end of a row", help=help)


def _from_lists(v: VariableArray, value: Sequence[Any], what: str) -> ArrayLike:
    assert v.members is not None
    depth, axes = _depth(value), v.members.shape[1]
    if depth == axes and not (len(value) and all(np.size(part) == v.size for part in value)):
        return _one(v, value, what)
    if depth == axes + 1:
        return [_one(v, part, what) for part in value]
    return value


def _one(v: VariableArray, value: Any, what: str) -> list[Any]:
    """Return one configuration with its rows concatenated.

    Each row must have as many entries as the variable has cells there.
    """
    assert v.members is not None
    flat: list[Any] = []
    wanted = [tuple(m) for m in v.members.tolist()]
    for prefix, members in itertools.groupby(wanted, key=lambda m: m[:-1]):
        row, count = value, len(list(members))
        for k in prefix:
            row = row[k] if k < len(row) else ()
        if len(row) != count:
            place = ", ".join(map(str, prefix))
            raise fail(
                "E501", f"{what}: row {place} has {len(row)} entries, and the variable {count} cells there", help="one entry for each cell"
            )
        flat += list(row)
    return flat


def _depth(value: object) -> int:
    depth = 0
    while isinstance(value, list | tuple | np.ndarray) and np.ndim(value if isinstance(value, np.ndarray) else 1) >= 0:
        if isinstance(value, np.ndarray):
            return depth + value.ndim
        depth += 1
        value = next((x for x in value if not isinstance(x, list | tuple | np.ndarray) or len(x)), value[0] if value else None)
    return depth
