"""Rows for networks: cells and given arrays with their lengths, and buckets of similar width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .._diagnostics import fail, is_whole_number
from .._types import Given, Index, Missing, Rows
from ..graph import GivenArray, Lowered, with_given
from ..read import masked_entries
from ._given_data import encode_given, in_row_order
from ._values import LabelledRows, encode, missing_marks, stated_missing, value_codes

Array = np.ndarray
# These are the default widths of buckets, followed by multiples of 256.
WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


@dataclass(frozen=True)
class NetworkRows(LabelledRows):
    """Rows as a network takes them.

    Attributes:
        codes: the codes of the cells, shape (cells, rows), -1 for a missing cell. The row cell, if
            there is one, contains the row's number.
        given: for each given variable that the network reads, an array of shape (rows, entries):
            codes, with -1 for padding, or real numbers.
        shape: the axes of rows of the original data.
        index: the labels of the rows, if x has labels for them.
    """

    codes: Array
    given: tuple[Array, ...]
    shape: tuple[int, ...]
    index: Index | None = field(default=None, compare=False, repr=False)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.codes.shape[1]

    def take(self, rows: Array) -> NetworkRows:
        """Return some of the rows."""
        return NetworkRows(self.codes[:, rows], tuple(g[rows] for g in self.given), (len(rows),))


def present_lengths(array: Array) -> Array:
    """Return the length of each row of (rows, entries) up to its last entry that is not padding.

    Real numbers have no padding.
    """
    if array.dtype.kind == "f":
        return np.full(len(array), array.shape[1], np.int32)
    return np.max(np.where(array >= 0, np.arange(1, array.shape[1] + 1), 0), axis=1, initial=0).astype(np.int32)


def network_rows(lowered: Lowered, x: Rows, missing: Missing | None, given: Given | None) -> NetworkRows:
    """Return the rows of x with their given data.

    Missing cells after the last value of a row are padding, as are missing entries at the end of
    given data.

    Args:
        lowered: the model.
        x: the rows.
        missing: the value of missing cells, as in `encode`.
        given: the given data, as in `encode_given`.

    Raises:
        GmlmError: for data that do not fit, see `encode` and `encode_given`.
    """
    graph = lowered.graph
    rows = encode(graph, x, missing=stated_missing(x, missing))
    codes, count = rows.codes.copy(), rows.codes.shape[1]
    found, shape = given_arrays(lowered, given, missing, rows.index)
    if shape not in ((), rows.shape):
        message = f"given: rows of shape {shape}, and x has {rows.shape}"
        raise fail("E510", message, help="give one row for each row of x, or one without an axis of rows for all")
    if graph.row_cell is not None:
        codes[graph.row_cell] = np.arange(count) if shape else 0
    return NetworkRows(codes, tuple(np.broadcast_to(g, (count, g.shape[1])) for g in found), rows.shape, rows.index)


def given_arrays(
    lowered: Lowered, given: Given | None, missing: Missing | None, index: Index | None = None
) -> tuple[tuple[Array, ...], tuple[int, ...]]:
    """Return the given arrays that the network reads, and the axes of rows.

    Each array has the shape (rows, entries).

    Args:
        lowered: the model.
        given: the given data, as in `encode_given`.
        missing: the value of missing entries.
        index: the labels of the rows of x.

    Raises:
        GmlmError: E510 if variables, shapes or values do not fit, or if an entry is missing before
            the last.
    """
    graph = lowered.graph
    network = graph.network
    assert network is not None
    if not graph.given:
        encode_given(graph, given)
        return (), ()
    given = in_row_order(graph, given, index)
    gapped = missing is not None or (isinstance(given, Mapping) and any(masked_entries(a) is not None for a in given.values()))
    verified = encode_given(graph, _filled(graph.given, given, missing, lowered) if gapped else given)
    assert verified is not None
    assert isinstance(given, Mapping)
    by_name = {v.name: v for v in graph.given}
    out = []
    for name, _, _ in network.given:
        v = by_name[name]
        if v.real:
            out.append(verified.arrays[name].astype(np.float32))
            continue
        codes, _ = value_codes(v, given[name], f"given[{name!r}]", missing_marks(graph, v, missing))
        flat = codes.reshape(-1, v.size).astype(np.int32)
        if ((flat < 0) & (np.arange(v.size) < present_lengths(flat)[:, None])).any():
            message = f"given[{name!r}] lacks an entry before its last one: only the end of a row may be padding"
            raise fail("E510", message, help="move what is there to the front, or fill the hole in")
        out.append(np.broadcast_to(flat, (verified.rows, v.size)))
    return tuple(out), verified.shape


def _filled(arrays: Sequence[GivenArray], given: Given | None, missing: Missing | None, lowered: Lowered) -> Given | None:
    """Return given data with an arbitrary value in place of padding.

    The rest can then be checked like data without padding.
    """
    if not isinstance(given, Mapping):
        return given
    out = dict(given)
    for v in arrays:
        if v.name in out and not v.real:
            codes, _ = value_codes(v, out[v.name], f"given[{v.name!r}]", missing_marks(lowered.graph, v, missing))
            out[v.name] = np.where(codes < 0, v.first, np.asarray(v.numbers)[codes])
    return out


def bound_to_rows(lowered: Lowered, rows: NetworkRows, given: Given | None) -> Lowered:
    """Return the model with given data in the tables of masks whose weights mention them.

    Raises:
        GmlmError: E511 if some of the data are padding.
    """
    network = lowered.graph.network
    assert network is not None
    for (name, _, _), array in zip(network.given, rows.given, strict=True):
        if array.dtype.kind != "f" and (array < 0).any():
            raise fail("E511", f"a mask's weights mention given data, and `{name}` has padding")
    data = encode_given(lowered.graph, given, rows.index)
    assert data is not None
    return with_given(lowered, data)


def widths(longest: int, stated: Sequence[int] | None) -> tuple[int, ...]:
    """Return the widths of buckets, ascending; the last one is at least the longest length.

    Raises:
        GmlmError: E507 for widths that are not positive integers or are all too small.
    """
    if stated is None:
        more = range(768, longest + 256, 256)
        return (*(w for w in (*WIDTHS, *more) if w < longest), longest)
    listed = list(stated) if isinstance(stated, Sequence | np.ndarray) and not isinstance(stated, str) else []
    found = sorted({int(w) for w in listed if is_whole_number(w) and w > 0})
    if not found or len(found) != len(listed) or found[-1] < longest:
        raise fail("E507", f"buckets must be distinct whole numbers, the largest at least {longest}, got {stated!r}")
    return tuple(found)


def standard_widths(longest: int) -> tuple[int, ...]:
    """Return widths that do not depend on the rows, up to the first that is at least `longest`.

    A few compiled programs then serve all calls.
    """
    more = range(768, longest + 512, 256)
    found = (*WIDTHS, *more)
    return found[: int(np.searchsorted(found, longest)) + 1]


def bucket_of(lengths: Array, found: Sequence[int]) -> Array:
    """Return the number of the smallest width that is at least each length."""
    return np.searchsorted(np.asarray(found), np.maximum(lengths, 1))
