"""Data from Python: arrays of values or labels become codes, and codes become values again.

Rows of different lengths come as lists of rows, or padded; here they are one axis of cells.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import GmlmError, fail, is_real_number, listed, unknown
from .._types import AnyArray, ArrayLike, Given, Index, Marks, Missing, Rows
from ..graph import FactorGraph, VariableArray
from ..read import (
    AbstractRows,
    as_frame,
    empty_entries,
    in_program_order,
    is_frame,
    is_numbered,
    is_series,
    number_in,
    plain_array,
    row_labels,
    text_of,
    verify_unmasked,
    with_rows_of,
)
from ._cell_names import CellNames, frame_arrays, of_frame
from ._fields import if_missing, marks_in, plain, values_of
from ._traced import is_traced, verify_untraced

Array = np.ndarray


TABLES = (".csv", ".tsv", ".txt", ".parquet")  # the names of files that `read_table` reads end so
MISSING = -1  # This is the code of a cell that was not observed.


class LabelledRows:
    """Rows that may have labels.

    Attributes:
        index: the labels of the rows, if x has labels for them.
    """

    index: Index | None

    def matched(self, value: Any, what: str) -> Any:
        """Return a value with a number for each row, in the order of the rows.

        Labels decide if both sides have labels.

        Raises:
            GmlmError: E501 if its labels are not those of the rows.
        """
        return with_rows_of(self.index, value, what)


@dataclass(frozen=True)
class Data(LabelledRows):
    """Configurations as codes.

    Attributes:
        codes: integers of shape (cells, rows), -1 for a missing cell.
        shape: the leading axes of the original data.
        index: the labels of the rows, if x has labels for them.
        lacks: of traced rows only: which cells some row may lack, and which every row lacks,
            booleans of shape (2, cells).
    """

    codes: Array
    shape: tuple[int, ...]
    index: Index | None = field(default=None, compare=False, repr=False)
    lacks: Array | None = field(default=None, compare=False, repr=False)

    @property
    def untraced(self) -> Array:
        """The codes; of traced rows 0, and -1 for each cell that some row may lack."""
        return self.codes if self.lacks is None else np.broadcast_to(MISSING * self.lacks[:1].T, self.codes.shape)

    @property
    def is_invalid(self) -> jax.Array:
        """Whether a traced row has a value that its variable does not have, shape (rows,)."""
        return jnp.any(self.codes < MISSING, axis=0)


def encode(graph: FactorGraph, x: Rows, what: str = "x", missing: Missing | None = None) -> Data:
    """Return the codes of data.

    Args:
        graph: the factor graph.
        x: an array if the model has one `var`, else a dict of arrays by variable, each of shape
            (rows.., *axes); or rows of a file. Spin, bit and range contain values. Letters and
            labels contain texts (a row of letters also as one string) or 0-based codes. A `latent`
            that x omits is missing in every row, and so is a `var` for which `missing` has a
            value. An entry that `numpy.ma` masks is a missing cell, whatever `missing` is. If a
            frame, a series or an xarray array names cells, names decide. Rows of a dict are matched
            by their labels.
        what: how messages call it.
        missing: a number or text outside the domain that stands for a missing cell; nan stands for
            nan and None. Several stand in a list. A dict gives them by variable. With None, every
            cell that is not masked is observed.

    Returns:
        Codes of shape (cells, rows) and the leading shape. The row cell is 0; `bound_rows` sets it
        to the row of given data of each row.

    Raises:
        GmlmError: for data that do not fit, naming the variable, the row, the value and the domain.
    """
    verify_untraced(x, what)
    if isinstance(x, AbstractRows):
        x, missing = values_of(graph, x, missing), None if missing is None else np.nan
    index = row_index(graph, x)
    needed = [v for v in graph.observed if not missing_marks(graph, v, missing)]
    given = _by_variable(graph, _without_frame(graph, x, what, needed), what, needed)
    parts, shapes = {}, {}
    for v in graph.variables:
        if v.name in given:
            name = f"{what}[{v.name!r}]" if isinstance(x, Mapping) and len(graph.variables) > 1 else what
            value = with_rows_of(index, given[v.name], name, len(v.shape))
            frame = as_frame(x) if is_frame(x) else None
            parts[v.name], shapes[v.name] = _part(v, value, name, missing_marks(graph, v, missing), frame)
    first, lead = next(iter(shapes.items()))
    for name, found in shapes.items():
        if found != lead:
            message = f"{what}: `{first}` has rows of shape {lead}, `{name}` has {found}"
            raise fail("E501", message, help="every variable needs as many rows")
    codes = np.full((graph.n_cells, math.prod(lead)), MISSING, np.int32)
    for v in graph.variables:
        if v.name in parts:
            codes[v.offset : v.offset + v.size] = parts[v.name].reshape(-1, v.size).T
    if graph.row_cell is not None:
        codes[graph.row_cell] = 0
    return Data(codes, lead, index)


def _part(v: VariableArray, value: ArrayLike, what: str, missing: Marks, frame: Any) -> tuple[Array, tuple[int, ...]]:
    """Return `value_codes`; if the values stand in a frame, errors have the name of the column.

    The columns of the variable are those that name its cells, or else all.
    """
    try:
        return value_codes(v, value, what, missing)
    except GmlmError:
        if frame is None or is_numbered([text_of(c) for c in frame.columns]):
            raise
        names, one = CellNames([v]), replace(v, shape=(), dims=(), coords=(), members=None)
        columns = list(frame.columns)
        own = [k for k, c in enumerate(columns) if names.find(text_of(c)) is not None]
        for k in own or range(len(columns)):
            value_codes(one, np.asarray(frame.iloc[:, k]), f"{what}: column `{text_of(columns[k])}`", missing)
        raise


def traced_codes(graph: FactorGraph, x: Rows, missing: Missing | None) -> Data:
    """Return the codes of rows of which JAX traces some arrays, which contain numbers.

    The shapes are verified. Values have none yet: where a value turns out not to belong to its
    variable, the code is below `MISSING`. Which cells may be missing is known: those of variables
    that x omits are missing in every row, and those of variables with a value of `missing` may be.

    Args:
        graph: the factor graph.
        x: the rows.
        missing: the number that stands for a missing cell, as in `encode`.

    Raises:
        GmlmError: E501 and E503 for data that do not fit.
    """
    what, marks = "x", {v.name: missing_marks(graph, v, missing) for v in graph.variables}
    needed, lead = [v for v in graph.observed if not marks[v.name]], ()
    given = _by_variable(graph, x, what, needed)
    parts: dict[str, AnyArray] = {}
    for v in graph.variables:
        if v.name not in given:
            continue
        value, mark = given[v.name], marks[v.name]
        if not is_traced(value):
            codes, lead = value_codes(v, value, what, mark)
        else:
            array = jnp.asarray(value)
            lead = array.shape[: max(0, array.ndim - len(v.shape))]
            if array.shape != (*lead, *v.shape):
                raise fail("E501", f"{what}: `{v.name}` has the shape {v.shape} behind the axes of rows, got {array.shape}")
            found = v.codes_of(array)
            valid = (found >= 0) & (found < len(v.labels)) & (v.values_of(found) == array) & (found == jnp.floor(found))
            present = jnp.where(valid, found, MISSING - 1)
            codes = jnp.where(_absent(array, mark), MISSING, present).astype(jnp.int32)
        parts[v.name] = codes.reshape(-1, v.size).T
    counts = {p.shape[1] for p in parts.values()}
    if len(counts) > 1:
        raise fail("E501", f"{what}: every variable needs as many rows")
    rows = counts.pop()
    every = [parts.get(v.name, np.full((v.size, rows), MISSING)) for v in graph.variables]
    every += [np.zeros((1, rows))] * (graph.row_cell is not None)
    lacks = np.zeros((2, graph.n_cells), bool)
    for v in graph.variables:
        own = slice(v.offset, v.offset + v.size)
        lacks[:, own] = [[v.name not in given or bool(marks[v.name])], [v.name not in given]]
    return Data(jnp.concatenate([jnp.asarray(p, jnp.int32) for p in every]), lead, lacks=lacks)  # pyright: ignore[reportArgumentType]


def row_index(graph: FactorGraph, x: Rows | Given) -> Index | None:
    """Return the labels of the rows of data from Python, or None if there are none.

    In a dict, the labels are those of the first variable that has some.
    """
    if is_frame(x):
        return row_labels(x, 1)
    parts = x if isinstance(x, Mapping) else {v.name: x for v in graph.observed[:1]}
    labels = (row_labels(parts[v.name], len(v.shape)) for v in (*graph.variables, *graph.given) if v.name in parts)
    return next((found for found in labels if found is not None), None)


def _without_frame(graph: FactorGraph, x: Rows, what: str, needed: Sequence[VariableArray]) -> Any:
    """Return a frame, or a row of a frame, as arrays by variable, and other values unchanged."""
    if is_frame(x):
        return of_frame(graph, x, what, needed)
    if is_series(x) and len(graph.observed) > 1:
        return {name: array[0] for name, array in of_frame(graph, x.to_frame().T, what, needed).items()}
    return x


def stated_missing(x: Rows, missing: Missing | None) -> Missing | None:
    """Return the value that marks missing cells, from the call or else from the reader of the file."""
    if missing is None and isinstance(x, AbstractRows) and x.tokens:
        return x.tokens[0]
    return missing


def _by_variable(graph: FactorGraph, x: Any, what: str, needed: Sequence[VariableArray]) -> Mapping[str, ArrayLike]:
    """Return the arrays of x by variable; each needed `var` is present, and others may be absent."""
    names, observed = [v.name for v in graph.variables], [v.name for v in graph.observed]
    if not isinstance(x, Mapping):
        _verify_rows(x, what)
        if len(observed) != 1:
            raise fail(
                "E503",
                f"{what} must be a dict by variable: this model has {listed(observed or names)}",
                help=f"pass `{{{', '.join(f'{n!r}: ..' for n in observed or names)}}}`",
            )
        return {observed[0]: x}
    for name in x:
        if name in [g.name for g in graph.given]:
            raise fail("E503", f"{what}: `{name}` is given with each row", help=f"pass it in `given={{{name!r}: ..}}`")
        if name not in names:
            raise unknown(f"{what}: the model has no variable `{name}`", name, names)
    lacking = [v.name for v in needed if v.name not in x]
    if lacking or not x:
        help = "if all its cells are missing, pass `missing=float('nan')`; a `latent` may be left out"
        raise fail("E503", f"{what} lacks {listed(lacking or names)}", help=help if lacking else "pass at least one of them")
    return x


def _verify_rows(x: object, what: str) -> None:
    """Reject None and the name of a file: neither is rows."""
    if x is None:
        raise fail("E502", f"{what} must be rows of data, and is None", help="pass an array of rows, a DataFrame, or a dict by variable")
    if isinstance(x, str | os.PathLike) and Path(x).suffix.lower() in TABLES:
        name = os.fspath(x)
        raise fail("E502", f"{what} must be rows of data, and is a file's name", help=f"`gm.read_table({name!r})` reads its rows")


def missing_marks(graph: FactorGraph, v: VariableArray, missing: Missing | None) -> Marks:
    """Return the values that stand for a missing cell of one variable."""
    if isinstance(missing, Mapping):
        names = [u.name for u in (*graph.variables, *(graph.given if graph.network is not None else ()))]
        for name in missing:
            if name not in names:
                raise unknown(f"missing: the model has no variable `{name}`", name, names)
        missing = missing.get(v.name)
    marks = marks_in(missing)
    for mark in marks:
        if not isinstance(mark, str) and not is_real_number(mark):
            help = "or several of them in a list, or a dict of them by variable"
            raise fail("E507", f"missing must be a number or a string, got {mark!r}", help=help)
        if mark in (*map(str, v.labels), *v.numbers):
            help = "choose a code that no cell can hold, -9 or nan say"
            message = f"missing={mark!r} is a value of `{v.name}`"
            raise fail("E507", f"{message}: it cannot stand for a missing cell too", help=help)
    return marks


def _absent(array: AnyArray, marks: Marks) -> Any:
    """Return a mask of the entries that stand for a missing cell."""
    absent = np.zeros(array.shape, bool)
    for mark in marks:
        if array.dtype.kind in ("U" if isinstance(mark, str) else "iuf"):
            # An integer may be too long for NumPy's `isnan`, and JAX may trace the array.
            absent = absent | (array != array if mark != mark else array == mark)
    return absent


def _reshaped(v: VariableArray, shape: tuple[int, ...]) -> str:
    """Return how an array becomes rows of the variable, if its last axes have as many entries."""
    row = next((shape[k:] for k in range(len(shape) - 1, -1, -1) if v.shape and math.prod(shape[k:]) == v.size), None)
    if row is None:
        return "the last axes are the variable's, before them come rows"
    return f"the last axes are the variable's: `.reshape({', '.join(map(str, (-1, *v.shape)))})` has one row for each array of shape {row}"


def value_codes(v: VariableArray, value: ArrayLike, what: str, missing: Marks = ()) -> tuple[Array, tuple[int, ...]]:
    """Return the codes of one variable's values, and the axes before the variable's own.

    A missing value has the code -1.

    Args:
        v: the variable.
        value: its values.
        what: how messages call it.
        missing: the value that stands for a missing cell.

    Raises:
        GmlmError: E501, E502 or E504 for an array that does not fit; E503 for names that are not
            those of the cells.
    """
    if v.members is not None:
        value = in_one_axis(v, value, what, missing)
    array, holes = _entries(v, in_cell_order(v, value, what), what, missing)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    if array.dtype.kind == "U" and v.kind == "letters" and v.shape:
        array, holes = _split_strings(v, array, holes, what)
    lead = array.ndim - len(v.shape)
    if lead < 0 or array.shape[lead:] != v.shape:
        wanted = f"(rows, {', '.join(map(str, v.shape))})" if v.shape else "(rows,)"
        raise fail("E501", f"{what} must have shape {wanted}, got {array.shape}", help=_reshaped(v, array.shape))
    absent = holes | _absent(array, missing)
    if v.ordered and array.dtype.kind == "U" and any(isinstance(mark, str) for mark in missing):
        # The column contains texts because of its missing cells.
        array = _numbers(np.where(absent, str(v.first), array), what)
        absent = absent | _absent(array, missing)
    if not absent.any():
        return to_codes(v, array, what, missing), array.shape[:lead]
    present = np.where(absent, _any_value(v, array), array)
    return np.where(absent, MISSING, to_codes(v, present, what, missing)), array.shape[:lead]


def in_cell_order(v: VariableArray, value: ArrayLike, what: str) -> ArrayLike:
    """Return the entries in the order of the cells if the value names them.

    Any other value is returned unchanged.

    Raises:
        GmlmError: E503 for a name of no cell, and for a cell that is not named.
    """
    if is_frame(value):
        return frame_arrays([v], [v], value, what)[v.name]
    return in_program_order(value, v.dims, v.coords, what, "E503")


def _entries(v: VariableArray, value: ArrayLike, what: str, missing: Marks) -> tuple[Array, Array]:
    """Return the entries as numbers or texts, and a mask of the missing ones.

    Masked entries are missing; empty ones are missing if `missing` is nan.
    """
    try:
        array, masked = plain_array(value)
    except ValueError:
        raise fail("E501", f"{what} must be a regular array, its rows differ in length") from None
    if array.dtype.names:
        help = "pass a dict by variable, or `numpy.lib.recfunctions.structured_to_unstructured(..)`"
        raise fail("E502", f"{what} must hold {_wanted(v)}, got a table with the fields {listed(array.dtype.names)}", help=help)
    holes = np.zeros(array.shape, bool) if masked is None else masked
    if array.dtype != object:
        return array, holes
    empty = empty_entries(array) & ~holes
    if empty.any() and not any(mark != mark for mark in missing):
        raise _not_finite(array, empty, what, missing)
    holes = holes | empty
    present = array[~holes]
    filled = np.where(holes, present[0] if len(present) else v.first, array)
    plain = np.asarray(filled.ravel().tolist())
    return (plain.reshape(array.shape) if plain.shape == (array.size,) else array), holes


def _wanted(v: VariableArray) -> str:
    return "numbers" if v.ordered else "labels or codes"


def _not_finite(array: Array, bad: Array, what: str, marks: Marks) -> GmlmError:
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    help = "if it stands for a missing cell, pass `missing=float('nan')`"
    if marks:
        help = if_missing([*marks, float("nan")])
    return fail("E504", f"{_entry(what, place)} is {array[place]}", help=help)


def _entry(what: str, place: tuple[int, ...]) -> str:
    """Return how messages call an entry of an array, or of a column of a frame."""
    if "column `" in what:
        return f"{what}, row {place[0]} (counted from 0),"
    if len(place) > 1:
        return f"{what} at {place}"
    return what + "".join(f" at {k}" for k in place)


def _numbers(array: Array, what: str) -> Array:
    try:
        return array.astype(np.float64)
    except ValueError:
        wrong = next(str(t) for t in array.ravel() if number_in(str(t)) is None)
        raise fail("E502", f"{what} must hold numbers, got {wrong!r}") from None


def _any_value(v: VariableArray, array: Array) -> str | float:
    """Return some value of the variable, in a type that the array can contain."""
    return str(v.labels[0]) if array.dtype.kind == "U" else v.first


def _split_strings(v: VariableArray, array: Array, holes: Array, what: str) -> tuple[Array, Array]:
    """Split rows of letters that are given as one string each.

    All letters of a missing string are missing.
    """
    n = v.shape[-1]
    lengths = np.where(holes, 1, np.char.str_len(array))
    if array.ndim and array.shape[-1:] == v.shape[-1:] and lengths.max(initial=0) <= 1:
        return array, holes
    array, lengths = np.where(holes, str(v.labels[0]) * n, array), np.where(holes, n, lengths)
    if (lengths != n).any():
        row = int(np.argmax((lengths != n).ravel()))
        raise fail("E501", f"{what}: row {row} has {lengths.ravel()[row]} letters, expected {n}")
    return np.array([list(s) for s in array.ravel()]).reshape(*array.shape, n), np.repeat(holes[..., None], n, axis=-1)


def to_codes(v: VariableArray, array: Array, what: str, marks: Marks = ()) -> Array:
    """Return the codes of an array of values, of any shape; `marks` are those that help adds to.

    Raises:
        GmlmError: E502 or E504 for a value outside the variable's domain.
    """
    if array.dtype.kind == "U":
        if v.ordered:
            raise _texts(v, array, what, marks)
        labels = np.array([str(x) for x in v.labels])
        order = np.argsort(labels)
        at = np.minimum(np.searchsorted(labels[order], array), len(labels) - 1)
        codes = order[at]
        _verify(v, array, labels[codes] == array, what, codes, marks)
        return codes
    if array.dtype == bool:
        array = array.astype(np.int64)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise _not_finite(array, ~np.isfinite(array), what, marks)
    if array.dtype.kind not in "iuf":
        raise fail("E502", f"{what} must hold {_wanted(v)}, got {array.dtype}")
    if array.dtype.kind in "iu":
        array = array.astype(np.int64, copy=False)  # a narrow type may not hold what the next lines compute
    codes = v.codes_of(array)
    good = (codes >= 0) & (codes < len(v.labels)) & (v.values_of(codes) == array)
    _verify(v, array, good & (codes == np.floor(codes)), what, array, marks)
    return codes.astype(np.int64)


def _texts(v: VariableArray, array: Array, what: str, marks: Marks) -> GmlmError:
    """Return the error for texts in the place of numbers, with a suggested conversion."""
    found, name = sorted(set(array.ravel().tolist())), source if (source := what.partition(":")[0]).isidentifier() else "values"
    values = {str(x) for x in v.labels}
    help = f"declare `{v.name}` as `labels(..)`, or pass the numbers that the texts stand for"
    strays = [t for t in found if plain(t) not in values]
    if not strays:
        help = f"these texts are numbers: pass `{name}.astype(int)`"
    elif v.kind == "spin" and all(plain(t) in ("0", "1") for t in found):
        help = f"these texts are bits: pass `2 * {name}.astype(int) - 1`"
    elif v.kind == "bit" and all(plain(t) in ("-1", "1") for t in found):
        help = f"these texts are spins: pass `({name}.astype(int) + 1) // 2`"
    elif len(strays) < len(found):
        help = f"correct it or, {if_missing([*marks, *strays])}"
    elif len(found) == 2 and v.kind in ("bit", "spin"):
        yes = f"({name} == {found[1]!r})"
        help += f": `{yes}.astype(int)`" if v.kind == "bit" else f": `2 * {yes} - 1`"
    shown = (strays or found)[0]
    message = f"{what} must hold numbers of {v.kind}, got strings such as {shown!r}"
    return fail("E502", message, help=help)


def _verify(v: VariableArray, array: Array, good: Array, what: str, numbers: Array, marks: Marks) -> None:
    if good.all():
        return
    place = tuple(int(i) for i in np.argwhere(~np.atleast_1d(good))[0])
    found = np.atleast_1d(array)[place]
    bad = np.atleast_1d(array)[~np.atleast_1d(good)]
    text = array.dtype.kind == "U"
    help = f"correct it or, {if_missing([*marks, *bad.tolist()])}"
    if not text and v.kind == "spin" and np.isin(numbers, (0, 1)).all():
        help = f"0 and 1 are bits: pass `2 * {what} - 1`"
    elif not text and v.kind == "bit" and np.isin(numbers, (-1, 1)).all():
        help = f"-1 and +1 are spins: pass `({what} + 1) // 2`"
    labels = [str(x) for x in v.labels]
    domain = f"values are {listed(labels)}" if len(labels) <= 30 else f"codes are 0..{len(labels) - 1}"
    shown = f"{str(found)!r}" if array.dtype.kind == "U" else f"{found}"
    message = f"{_entry(what, place)} is {shown}: not a value of `{v.name}`; its {domain}"
    raise fail("E502", message, help=help)


def whole_numbers(value: object, what: str) -> Array | None:
    """Return integers as an array, or None for anything else.

    The latter are, for example, truth values, rows of different length, and numbers beyond 64 bits.

    Raises:
        GmlmError: E507 for masked entries.
    """
    verify_unmasked(value, what, "E507")
    try:
        found = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if found.dtype.kind in "iu" else None


def verified_weights(weights: ArrayLike, rows: int) -> Array:
    """Return row weights as float64.

    Raises:
        GmlmError: unless the weights are finite, not negative, not all zero, and one per row.
    """
    verify_untraced(weights, "weights")
    verify_unmasked(weights, "weights", "E507")
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise fail("E507", "weights must be numbers, one per row") from None
    if array.shape != (rows,):
        raise fail("E501", f"weights must have shape ({rows},), got {array.shape}")
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if wrong.size:
        where = f"row {wrong[0]} (counted from 0) has {array[wrong[0]]:g}"
        raise fail("E507", f"weights must be finite and not negative: {where}")
    if not array.any():
        raise fail("E507", "weights must not all be zero", help="leave them out for equal weights")
    return array


def decode(graph: FactorGraph, codes: Array, lead: Sequence[int], copy: bool = True) -> dict[str, Array]:
    """Return values by variable: numbers for spin, bit and range, else codes.

    Args:
        graph: the factor graph.
        codes: shape (cells, rows), or (cells, *lead).
        lead: the first axes of the values.
        copy: whether values are a copy, the only one whatever the memory layout of the codes. If
            not, codes of shape (cells, *lead) become values where they are, if the type of a
            variable is theirs.
    """
    out = {}
    for v in graph.variables:
        part = np.moveaxis(codes[v.offset : v.offset + v.size], 0, -1).reshape((*lead, *v.shape))
        found = out[v.name] = part.astype(v.dtype, order="C" if copy else "K", copy=copy)
        if v.scale is not None and not v.scale.is_code:
            found *= v.step
            found += v.first
    return out


def in_one_axis(v: VariableArray, value: ArrayLike, what: str, missing: Marks = ()) -> ArrayLike:
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


def _verify_padding(padding: Array, what: str, missing: Marks) -> None:
    held = ~np.ma.getmaskarray(padding)
    values = np.ma.getdata(padding)
    held &= ~_absent(values, (float("nan"), *missing))
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
