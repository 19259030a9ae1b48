"""Data of given variables from Python: checked, encoded, and bound to a model.

There is one row of given data for each row of x, or one for all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail, listed, unknown
from .._types import ArrayLike, Given, Index, Missing, Rows
from ..derive import float_type
from ..graph import FactorGraph, GivenArray, GivenRows, Lowered, with_given
from ..masks import AbstractMask
from ..read import as_frame, empty_entries, in_program_order, is_frame, plain_array, with_rows_of
from ._cell_names import frame_arrays
from ._traced import is_traced, verify_untraced
from ._values import Data, encode, in_one_axis, row_index, stated_missing, traced_codes, value_codes

Array = np.ndarray
# One table has fewer numbers than this, so that 32-bit integers index it.
MOST_NUMBERS = (1 << 31) - 1


def bound_rows(
    lowered: Lowered, x: Rows, missing: Missing | None, given: Given | None, *, may_be_traced: bool = False
) -> tuple[Lowered, Data]:
    """Return the model with its given data, and the codes of x.

    In each row of x the row cell contains the number of its row of given data.

    Args:
        lowered: the model.
        x: the rows.
        missing: the value of missing cells, as in `encode`.
        given: the given data, as in `encode_given`.
        may_be_traced: whether the codes may be traced by JAX; see `traced_codes`.

    Raises:
        GmlmError: for data that do not fit, see `encode` and `encode_given`.
    """
    traced = may_be_traced and is_traced(x)
    rows = traced_codes(lowered.graph, x, missing) if traced else encode(lowered.graph, x, missing=stated_missing(x, missing))
    data = encode_given(lowered.graph, given, rows.index)
    if data is None:
        return lowered, rows
    if data.shape not in ((), rows.shape):
        message = f"given: rows of shape {data.shape}, and x has {rows.shape}"
        raise fail("E510", message, help="give one row for each row of x, or one without an axis of rows for all")
    of_data = np.arange(rows.codes.shape[1], dtype=np.int32) if data.shape else 0
    is_row = np.arange(len(rows.codes))[:, None] == lowered.graph.row_cell
    codes = (jnp if traced else np).where(is_row, of_data, rows.codes).astype(np.int32)
    return with_given(lowered, data), replace(rows, codes=codes)


def bound_dataset(lowered: Lowered, x: Rows, missing: Missing | None, given: Given | None) -> tuple[Lowered, Data]:
    """Return the same as `bound_rows`, for x with exactly one axis of rows.

    Args:
        lowered: the model.
        x: the rows.
        missing: the value of missing cells, as in `encode`.
        given: the given data, as in `encode_given`.

    Raises:
        GmlmError: E501 for another number of axes; the errors of `bound_rows`.
    """
    bound, rows = bound_rows(lowered, x, missing, given)
    if len(rows.shape) != 1:
        message = f"x must have one axis of rows before the variable's axes, got rows of shape {rows.shape}"
        raise fail("E501", message, help="one row is `x[None]`")
    return bound, rows


def bound_once(lowered: Lowered, given: Given | None, what: str) -> Lowered:
    """Return the model with one row of given data, for a function `what` of one distribution.

    Raises:
        GmlmError: E510 for several rows.
    """
    data = encode_given(lowered.graph, given)
    if data is None:
        return lowered
    if data.shape:
        message = f"given: {what} takes one row, without an axis of rows; got rows of shape {data.shape}"
        raise fail("E510", message, help="call it once for each row")
    return with_given(lowered, data)


def bound_mask(lowered: Lowered, mask: AbstractMask) -> AbstractMask:
    """Return a mask with the given data of the model."""
    return mask if lowered.data is None else mask.with_given(lowered.data, lowered.graph.sizes)


def encode_given(graph: FactorGraph, given: Given | None, index: Index | None = None) -> GivenRows | None:
    """Return the data of all given variables of a model, or None if it has none.

    Args:
        graph: the factor graph.
        given: a dict by variable, of arrays of shape (rows.., *axes) or (*axes,). They contain
            values of real, spin, bit and range, or texts or codes of letters and labels. Arrays
            without rows are the same for all rows. A frame has a column for each entry, by its
            name.
        index: the labels of the rows of x, by which labelled rows are ordered.

    Raises:
        GmlmError: E510 if variables, shapes or real values do not fit; E502 for a value outside its
            domain.
    """
    verify_untraced(given, "given")
    names = [v.name for v in graph.given]
    if not names:
        if given is not None:
            raise fail("E510", "`given=` has no use: the model has no given variable", help="leave it out")
        return None
    given = in_row_order(graph, given, index)
    _verify_names(names, given)
    assert isinstance(given, Mapping)
    found = {v.name: _codes(v, given[v.name]) for v in graph.given}
    shapes = {name: lead for name, (_, lead) in found.items() if lead != ()}
    shape = next(iter(shapes.values()), ())
    for name, lead in shapes.items():
        if lead != shape:
            message = f"given: `{next(iter(shapes))}` has rows of shape {shape}, `{name}` has {lead}"
            raise fail("E510", message, help="every given variable needs as many rows, or none")
    count = int(np.prod(shape, dtype=np.int64))
    largest = max(graph.given, key=lambda v: v.size)
    if count * largest.size >= MOST_NUMBERS:
        message = f"given: `{largest.name}` has {count * largest.size:,} numbers, more than the limit of {MOST_NUMBERS:,}"
        raise fail("E510", message, help="take fewer rows at a time")
    arrays = {v.name: np.broadcast_to(found[v.name][0].reshape(-1, v.size), (count, v.size)) for v in graph.given}
    return GivenRows(arrays, count, shape)


def in_row_order(graph: FactorGraph, given: Given | None, index: Index | None) -> Given | None:
    """Return given data by variable, with labelled rows in the order of the rows of x.

    Values that are neither a frame nor a dict are returned unchanged.
    """
    if is_frame(given):
        return frame_arrays(graph.given, graph.given, with_rows_of(index, as_frame(given), "given", 1), "given")
    if not isinstance(given, Mapping):
        return given
    index = row_index(graph, given) if index is None else index
    axes = {v.name: len(v.shape) for v in graph.given}
    return {name: with_rows_of(index, value, f"given[{name!r}]", axes.get(name, 0)) for name, value in given.items()}


def _verify_names(names: list[str], given: object) -> None:
    example = f"`given={{{', '.join(f'{n!r}: ..' for n in names)}}}`"
    if given is None:
        raise fail("E510", f"the model has given variables, whose data must come along: {listed(names)}", help=f"pass {example}")
    if not isinstance(given, Mapping):
        raise fail("E510", f"given must be a dict of arrays by variable, got {type(given).__name__}", help=f"pass {example}")
    for name in given:
        if name not in names:
            raise unknown(f"given: the model has no given variable `{name}`", name, names, "E510")
    lacking = [n for n in names if n not in given]
    if lacking:
        raise fail("E510", f"given lacks {listed(lacking)}", help="every given variable needs its data")


def _codes(v: GivenArray, value: ArrayLike) -> tuple[Array, tuple[int, ...]]:
    """Return the numbers of a table, with spins as -1 and +1, and the shape of the rows."""
    what = f"given[{v.name!r}]"
    if is_frame(value):
        value = frame_arrays([v], [v], value, what)[v.name]
    if v.members is not None:
        value = in_one_axis(v, value, what)
    value = in_program_order(value, v.dims, v.coords, what, "E510")
    _verify_present(value, what)
    if not v.real:
        codes, lead = value_codes(v, value, what)
        return v.values_of(codes), lead
    try:
        array = np.asarray(value)
        array = np.asarray(array, np.float64) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        array = None
    if array is None:
        raise fail("E510", f"{what} must be a regular array of numbers")
    lead = array.ndim - len(v.shape)
    if lead < 0 or array.shape[lead:] != v.shape:
        wanted = ", ".join(map(str, v.shape))
        message = f"{what} must have shape ({wanted}{',' * (len(v.shape) == 1)}), or rows before it, got {array.shape}"
        raise fail("E510", message, help="the last axes are the variable's, before them come rows")
    above = array > v.lower if v.kind == "positive" else array >= v.lower
    bad = ~(np.isfinite(array) & above & (array <= v.upper))
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        limits = "finite" if v.kind == "real" else "above 0" if v.kind == "positive" else f"between {v.lower:g} and {v.upper:g}"
        raise fail("E510", f"{what}{_at(place)} is {array[place]:g}, and must be {limits}")
    large = np.abs(array) > float(np.finfo(float_type()).max)
    if large.any():
        place = tuple(int(i) for i in np.argwhere(large)[0])
        raise fail("E510", f"{what}{_at(place)} is {array[place]:g}, beyond the numbers of the working type", help="give it in other units")
    return array, array.shape[:lead]


def _verify_present(value: ArrayLike, what: str) -> None:
    """Raise E510 for a missing entry.

    A given variable is not random, so it cannot be summed out.
    """
    try:
        array, masked = plain_array(value)
    except ValueError:
        return  # Other checks report rows of different length.
    holes = empty_entries(array) if masked is None else masked
    if holes.any():
        place = tuple(int(i) for i in np.argwhere(holes)[0])
        message = f"{what}{_at(place)} is missing: given values have no distribution, and cannot be summed out"
        raise fail("E510", message, help="fill it in, drop the row, or declare a discrete one as `var` with a distribution of its own")


def _at(place: tuple[int, ...]) -> str:
    return "" if not place else f" at {place[0] if len(place) == 1 else place}"
