"""What comes after prefixes of a sequence: their codes, and the distribution of the next symbol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import jax
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, fail
from .._types import ArrayLike
from ..data import first_cells, in_cell_order, value_codes
from ..graph import FactorGraph
from ..plan import plan_elimination
from ..read import has_labels, verify_unmasked
from . import limits
from ._contractions import Contractions, seen_term
from ._exact_answers import laws, working
from ._magnitude import verified_partition

Array = np.ndarray
Params = Mapping[str, jax.Array]
PREFIX = " with that prefix"
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


def next_symbol(kept: Contractions, device: derive.Graph, params: Params, codes: Array, cell: int) -> Array:
    """Return p(x_cell = v | the known cells), of shape (rows, values).

    A row is nan if its known cells are impossible together.

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        codes: (cells, rows), -1 for an unknown cell.
        cell: the position of the cell.

    Raises:
        GmlmError: E601 with the cost if summing the other cells out is above the budget.
    """
    graph = kept.graph
    if not codes.shape[1]:
        return np.zeros((0, int(graph.sizes[cell])), derive.float_type())
    # All prefixes have one length.
    engine = kept.on_host(codes[:, 0] >= 0, params, codes.shape[1], limits.LAW_PASSES, keeps=True)
    if engine is not None:
        sums, table = engine.laws(np.maximum(codes, 0), graph.most_values)
        found = verified_partition(graph, working(sums.values), PREFIX)
        own = _own(table, engine.free, graph, cell)[: graph.sizes[cell]]
        return working(np.where(np.isfinite(found), own, np.nan).T)
    try:
        _, c = kept.whole("the distribution of the next symbol")
    except GmlmError:
        if not graph.is_normalised:
            raise
        # The model is a product of distributions. A cell sums to 1 in it unless the cell is seen,
        # is the requested cell, or is an ancestor of such a cell.
        seen = np.any(codes >= 0, axis=1)
        seen[cell] = True
        return _pruned(graph, params, codes, cell, seen)
    return _next(graph, device, params, codes, c, cell)[:, : graph.sizes[cell]]


def _pruned(graph: FactorGraph, params: Params, codes: Array, cell: int, seen: Array) -> Array:
    kept = ancestors(graph, seen)
    smaller = only_laws_of(graph, kept)
    free = np.flatnonzero(kept & ((codes < 0).any(axis=1)))
    plan = plan_elimination(smaller, free, "the distribution of the next symbol")
    c = derive.contraction(smaller, plan)
    return _next(smaller, derive.graph_arrays(smaller), params, codes, c, cell)[:, : graph.sizes[cell]]


def _next(graph: FactorGraph, device: derive.Graph, params: Params, codes: Array, c: derive.Contraction, cell: int) -> Array:
    """Return the marginals of one cell given the seen cells, by the program of `marginals`."""
    found, table = laws(device, params, np.maximum(codes, 0).astype(np.int32), c, seen_term(graph, c, codes >= 0, codes))
    verified_partition(graph, found, PREFIX)
    return np.where(np.isfinite(found), _own(table, np.asarray(c.free), graph, cell), np.nan).T


def _own(table: Array, free: Array, graph: FactorGraph, cell: int) -> Array:
    """Return the values of one cell in a table of the free cells.

    A cell with one value is not among the free cells: its value has probability 1.
    """
    if graph.sizes[cell] == 1:
        return np.ones(table.shape[1:])
    return table[np.searchsorted(free, cell)]


def ancestors(graph: FactorGraph, seeds: Array) -> Array:
    """Return the seeds, the cells that their distributions mention, and so on, as booleans."""
    reached = np.append(seeds, False)
    while True:
        before = reached.copy()
        for g in graph.groups:
            mine = reached[g.cells[:, 0]]
            reached[g.cells[mine].ravel()] = True
            reached[graph.n_cells] = False
        if (reached == before).all():
            return reached[: graph.n_cells]


def only_laws_of(graph: FactorGraph, cells: Array) -> FactorGraph:
    """Return a product of distributions with only the distributions of the given cells."""
    return replace(graph, factors=tuple(g.take(np.flatnonzero(cells[g.cells[:, 0]])) for g in graph.factors))
