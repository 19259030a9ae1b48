"""Prefixes of a sequence as codes: what `next_symbol` is asked about."""

from __future__ import annotations

import numpy as np

from .._diagnostics import fail
from .._types import ArrayLike
from ..data import first_cells, in_cell_order, value_codes
from ..graph import FactorGraph
from ..read import has_labels, verify_unmasked

Array = np.ndarray
ONE_LENGTH = "call once for each length: a second call compiles nothing"


def prefix_codes(graph: FactorGraph, prefix: ArrayLike, given: tuple[int, ...] | None) -> tuple[Array, int, tuple[int, ...]]:
    """Return the codes of prefixes, the first cell after them, and the axes of rows.

    A prefix holds the first cells of the only observed variable.

    Args:
        graph: the factor graph.
        prefix: prefixes of one length, shape (rows.., t), or strings of letters.
        given: the axes of rows of given data; None without given data.

    Returns:
        Codes (cells, rows), which are -1 for the cells after the prefix; the position of the first
            cell after it; the axes of rows.

    Raises:
        GmlmError: E507 if there is no such cell or variable, E501 or E510 if rows do not fit.
    """
    if len(graph.observed) != 1:
        raise fail("E507", f"the next symbol is one of the model's only `var`; it has {len(graph.observed)}")
    v = graph.observed[0]
    verify_unmasked(prefix, "prefix")
    if has_labels(prefix):
        prefix = in_cell_order(first_cells(v, min(prefix.shape[-1], v.size)), prefix, "prefix")
    try:
        array = np.asarray(prefix)
    except ValueError:
        raise fail("E501", "prefixes of one call have one length, these rows differ", help=ONE_LENGTH) from None
    if array.dtype.kind == "U" and v.kind == "letters" and (array.ndim == 0 or np.char.str_len(array).max(initial=0) != 1):
        lengths = np.char.str_len(array)
        if array.size and lengths.min() != lengths.max():
            found = f"found {int(lengths.min())} to {int(lengths.max())} letters"
            raise fail("E501", f"prefixes of one call have one length, {found}", help=ONE_LENGTH)
        array = np.array([list(t) for t in array.ravel().tolist()], str).reshape(*array.shape, int(lengths.max(initial=0)))
    if array.ndim == 0:
        raise fail("E501", "prefix must have shape (rows.., t), got a single value", help="`[value]` is a prefix of one cell")
    *lead, t = array.shape
    if t >= v.size:
        raise fail("E507", f"a prefix of {t} cells leaves no next one: `{v.name}` has {v.size}", help=f"t is below {v.size}")
    rows = int(np.prod(lead, dtype=np.int64))
    known = value_codes(first_cells(v, t), array if t else np.zeros((*lead, 0), np.int64), "prefix")[0].reshape(rows, t)
    codes = np.full((graph.n_cells, rows), -1, np.int32)
    codes[v.offset : v.offset + t] = known.T
    if graph.row_cell is not None:
        assert given is not None
        if given not in ((), tuple(lead)):
            raise fail("E510", f"given: rows of shape {given}, and the prefixes have {tuple(lead)}")
        codes[graph.row_cell] = np.arange(rows) if given else 0
    return codes, v.offset + t, tuple(lead)
