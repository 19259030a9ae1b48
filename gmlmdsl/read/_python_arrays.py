"""Arrays from Python, read with what `np.asarray` would drop silently: names of axes, and masks.

Series and frames of pandas and xarray arrays have names. If names exist, names decide. The module
imports neither library: a value with the attributes of such an array is one. A frame of another
library is converted to pandas by its `to_pandas`. Missing entries are those that `numpy.ma` masks,
and empty objects; an array is searched for them before it is converted to a plain array.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from .._diagnostics import fail, listed, unknown
from .._types import ArrayLike, Frame, Index, Label, Labelled

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Array = np.ndarray


def is_frame(value: object) -> TypeGuard[Frame]:
    """Return whether a value is a table whose columns have names."""
    return hasattr(value, "columns") and (hasattr(value, "iloc") or hasattr(value, "to_pandas")) and not isinstance(value, Mapping)


def is_series(value: object) -> TypeGuard[pd.Series]:
    """Return whether a value is one column with an index."""
    return hasattr(value, "iloc") and hasattr(value, "index") and not hasattr(value, "columns")


def is_named_array(value: object) -> TypeGuard[xr.DataArray]:
    """Return whether a value is an array whose axes have names, such as an xarray array."""
    return hasattr(value, "dims") and hasattr(value, "coords") and hasattr(value, "isel") and not isinstance(value, Mapping)


def has_labels(value: object) -> TypeGuard[Labelled]:
    """Return whether a value is a frame, a series or an array with named axes."""
    return is_frame(value) or is_series(value) or is_named_array(value)


def as_frame(value: Any) -> pd.DataFrame:
    """Return a frame as a pandas frame."""
    return value if hasattr(value, "iloc") else value.to_pandas()


def text_of(label: Label) -> str:
    """Return a label as text; levels of a label are joined as `a, b`, without empty ones."""
    return ", ".join(str(part) for part in label if str(part) not in ("", "nan")) if isinstance(label, tuple) else str(label)


def is_numbered(texts: Sequence[str]) -> bool:
    """Return whether labels are 0, 1, 2, .. in this order, so that they name nothing."""
    return all(text == str(k) for k, text in enumerate(texts))


def order_by_label(found: Sequence[Label], wanted: Sequence[Label], what: str, code: str = "E506") -> list[int] | None:
    """Return the place of each wanted label among the labels found, or None to keep the order.

    The order is kept if either side only counts from 0, unless both sides have the same labels in
    different order.

    Args:
        found: the labels of an array's axis.
        wanted: the labels of the axis for which it stands.
        what: how messages call the array.
        code: the error code.

    Raises:
        GmlmError: `code` for a label that occurs twice, is unknown, or is missing.
    """
    texts, names = [text_of(label) for label in found], [text_of(label) for label in wanted]
    if texts == names:
        return None
    place = {text: k for k, text in enumerate(texts)}
    if sorted(texts) != sorted(names):
        if is_numbered(names) or is_numbered(texts):
            return None
        twice = next((text for text in texts if texts.count(text) > 1), None) if len(place) < len(texts) else None
        if twice is not None:
            raise fail(code, f"{what} has the label `{twice}` twice", help="each place has one label")
        known = set(names)
        strange = next((text for text in texts if text not in known), None)
        if strange is not None:
            raise unknown(f"{what} has the label `{strange}`, which the program does not have", strange, names, code)
        lacking = [name for name in names if name not in place]
        raise fail(code, f"{what} lacks {listed(lacking)}", help="give a value for each label, or an array without labels")
    return [place[name] for name in names]


def in_program_order(value: ArrayLike, dims: Sequence[str], coords: Sequence[Sequence[Label]], what: str, code: str = "E506") -> ArrayLike:
    """Return an array without names, with its last axes in the order of the program.

    A value without names is returned unchanged.

    Args:
        value: any value.
        dims: the names of the axes.
        coords: the labels along each axis.
        what: how messages call the value.
        code: the error code.

    Raises:
        GmlmError: `code` for a label or a dimension that is unknown, missing or occurs twice.
    """
    if is_named_array(value):
        return _of_named_array(value, dims, coords, what, code)
    if is_frame(value) and 1 <= len(dims) <= 2:
        frame = as_frame(value)
        order = order_by_label(list(frame.columns), coords[-1], f"{what}: its columns", code)
        frame = frame if order is None else frame.iloc[:, order]
        if len(dims) == 2:
            order = order_by_label(list(frame.index), coords[0], f"{what}: its index", code)
            frame = frame if order is None else frame.iloc[order]
        return np.asarray(frame)
    if is_series(value) and dims:
        wanted = coords[0] if len(dims) == 1 else [tuple(map(text_of, labels)) for labels in itertools.product(*coords)]
        order = order_by_label(list(value.index), wanted, f"{what}: its index", code)
        found = np.asarray(value if order is None else value.iloc[order])
        return found.reshape([len(c) for c in coords]) if len(dims) > 1 and len(found) == len(wanted) else found
    return value


def _of_named_array(value: xr.DataArray, dims: Sequence[str], coords: Sequence[Sequence[Label]], what: str, code: str) -> Array:
    """Return the entries of an xarray array in the order of the program.

    Its dimensions may have any order if they have the program's names. If they have other names,
    their order is kept.
    """
    here = [name for name in dims if name in value.dims]
    if here and len(here) < len(dims):
        lacking = [name for name in dims if name not in here]
        message = f"{what} has the dimensions {listed([str(d) for d in value.dims])}, and lacks {listed(lacking)}"
        raise fail(code, message, help="`.rename(..)` its dimensions, or pass `.values`")
    if here:
        value = value.transpose(..., *dims)
    if value.ndim < len(dims):
        return np.asarray(value)
    for dim, labels in zip(value.dims[value.ndim - len(dims) :], coords, strict=True):
        if dim in value.coords:
            order = order_by_label(value.coords[dim].values.tolist(), labels, f"{what}: its dimension `{dim}`", code)
            value = value if order is None else value.isel({dim: order})
    return np.asarray(value)


def row_labels(value: Any, axes: int) -> Index | None:
    """Return the index of the rows of an array, or None if they have no labels.

    The last `axes` axes of the array are not rows. A series of a variable with axes is one row,
    whose index names its cells.
    """
    if is_frame(value) and hasattr(value, "iloc"):
        return as_frame(value).index
    if is_series(value) and axes == 0:
        return value.index
    if is_named_array(value) and value.ndim == axes + 1 and value.dims[0] in value.indexes:
        return value.indexes[value.dims[0]]
    return None


def with_rows_of(index: Index | None, value: Any, what: str, axes: int = 0) -> Any:
    """Return a labelled value with its rows in the order of the rows of x.

    If either has no index, the value is returned unchanged.

    Args:
        index: the index of the rows of x, or None.
        value: any value with an entry for each row.
        what: how messages call it.
        axes: the number of its last axes that are not rows.

    Raises:
        GmlmError: E501 if the labels of its rows are not those of x.
    """
    own = row_labels(value, axes)
    if index is None or own is None or own.equals(index):
        return value
    help = "select the same rows of both, `.loc[x.index]`; or pass `.to_numpy()`, which is read in its order"
    for whose, labels in ((what, own), ("x", index)):
        if not labels.is_unique:
            twice = labels[labels.duplicated()][0]
            raise fail("E501", f"{whose} has two rows labelled `{twice}`, and {what} and x have not the same rows in order", help=help)
    places = own.get_indexer(index)
    if (places < 0).any():
        raise fail("E501", f"{what} has no row labelled `{index[int(np.argmax(places < 0))]}`, which x has", help=help)
    if len(own) > len(index):
        strange = own[~own.isin(index)][0]
        raise fail("E501", f"{what} has a row labelled `{strange}`, which x does not have", help=help)
    return value.isel({value.dims[0]: places}) if is_named_array(value) else value.iloc[places]


# Missing entries


def masked_entries(value: object) -> Array | None:
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


def plain_array(value: object) -> tuple[Array, Array | None]:
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


def verify_unmasked(value: object, what: str, code: str = "E504") -> None:
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


def _is_empty(entry: object) -> bool:
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
