"""Values at which a call fixes whole variables, or cells by their place or label.

Prompts fix a prefix of any length in each row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._diagnostics import GmlmError, Source, Span, fail, is_whole_number, listed, unknown
from .._types import Clamp, Prompt
from ..graph import FactorGraph, FactorGroup, VariableArray
from ..graph.nodes import CellValue, Column, Constant, Gather
from ..read import is_numbered, is_series, text_of, verify_unmasked
from ._traced import verify_untraced
from ._values import to_codes, value_codes

Array = np.ndarray
GROUPS = 'for example `over=[("a", "b"), (("x", 0), ("x", 3))]`: a cell is a name, or a name and a place'


def clamped_cells(graph: FactorGraph, clamp: Clamp | None) -> tuple[Array, Array]:
    """Return a mask of the fixed cells, and the codes at which they are fixed.

    Args:
        graph: the factor graph.
        clamp: by variable, a whole array or a dict. Masked cells of an array stay free. A dict maps
            places (an integer, a label of the axis, or a tuple of them) to values or labels. A
            series is such a dict.

    Raises:
        GmlmError: for an unknown variable, a place outside it or a value outside the domain.
    """
    verify_untraced(clamp, "clamp")
    held, codes = np.zeros(graph.n_cells, bool), np.zeros(graph.n_cells, np.int32)
    names = [v.name for v in graph.variables]
    if clamp is not None and not isinstance(clamp, Mapping):
        message = f"clamp must be a dict by variable, got {type(clamp).__name__}"
        raise fail("E507", message, help=f"for example `clamp={{{names[0]!r}: ..}}`, whole or `{{place: value}}`")
    for name, value in (clamp or {}).items():
        if name not in names:
            raise unknown(f"clamp: the model has no variable `{name}`", name, names)
        v = graph.variable(name)
        if is_series(value) and v.shape and not is_numbered([text_of(label) for label in value.index]):
            value = dict(value.items())
        if isinstance(value, Mapping):
            for place, one in value.items():
                cell = cell_at(v, place)
                verify_unmasked(one, f"clamp[{name!r}][{place!r}]")
                codes[cell] = to_codes(v, np.asarray(one), f"clamp[{name!r}][{place!r}]")
                held[cell] = True
        else:
            found, lead = value_codes(v, value, f"clamp[{name!r}]")
            if lead:
                raise fail("E501", f"clamp[{name!r}] must have shape {v.shape}, got {(*lead, *v.shape)}")
            codes[v.offset : v.offset + v.size] = np.maximum(found.ravel(), 0)
            held[v.offset : v.offset + v.size] = found.ravel() >= 0
    return held, codes


def likelihoods(graph: FactorGraph, given: object) -> Array:
    """Return the log of uncertain evidence for each value of each cell, shape (cells, values).

    Args:
        graph: the factor graph.
        given: by variable, weights of shape (*axes, values), or a dict from places to weights of
            shape (values,). A weight is proportional to the probability of what was seen, if the
            cell has that value.

    Raises:
        GmlmError: E506 or E507 for unknown names and places; E501 for other shapes; E507 for
            weights that are negative, not finite, or 0 for all values of a cell.
    """
    verify_untraced(given, "likelihood")
    names = [v.name for v in graph.variables]
    if not isinstance(given, Mapping):
        message = f"likelihood must be a dict by variable, got {type(given).__name__}"
        raise fail("E507", message, help=f"for example `likelihood={{{names[0]!r}: {{0: [0.2, 0.8]}}}}`: a weight for each value of a cell")
    out = np.zeros((graph.n_cells, int(graph.sizes.max(initial=1))))
    for name, value in given.items():
        if name not in names:
            raise unknown(f"likelihood: the model has no variable `{name}`", str(name), names)
        v = graph.variable(name)
        if isinstance(value, Mapping):
            cells, stated, lead = [cell_at(v, place, "likelihood") for place in value], list(value.values()), (len(value),)
        else:
            cells, stated, lead = range(v.offset, v.offset + v.size), value, v.shape
        try:
            weights = np.asarray(stated, float)
        except (TypeError, ValueError):
            raise fail("E501", f"likelihood[{name!r}] must be numbers, {len(v.labels)} for each cell") from None
        if weights.shape != (*lead, len(v.labels)):
            each = isinstance(value, Mapping)
            wanted, got = (f"({len(v.labels)},) for each cell", weights.shape[1:]) if each else ((*lead, len(v.labels)), weights.shape)
            raise fail("E501", f"likelihood[{name!r}] must have shape {wanted}, got {got}")
        if not (np.isfinite(weights).all() and (weights >= 0).all() and (weights.sum(axis=-1) > 0).all()):
            message = f"likelihood[{name!r}]: the weights of a cell are finite numbers of at least 0, one of them above 0"
            raise fail("E507", message, help="the probability of what was seen, for each value of the cell, up to a factor")
        with np.errstate(divide="ignore"):
            out[cells, : len(v.labels)] = np.log(weights.reshape(len(cells), -1))
    return out


def evidence_factors(graph: FactorGraph, levels: Array) -> FactorGroup:
    """Return factors of single cells whose values are the log of uncertain evidence.

    Args:
        graph: the factor graph.
        levels: the result of `likelihoods`. Cells at which it is 0 have no factor.
    """
    cells = np.flatnonzero((levels != 0).any(axis=1)).astype(np.int32)
    sizes = graph.sizes[cells]
    table = levels[cells][np.arange(levels.shape[1]) < sizes[:, None]]
    root = Gather("", 0, len(table), Column(0), ((CellValue(0, ()), Constant(1)),))
    place = Span(Source("<likelihood>", ""), 0, 0)
    return FactorGroup(root, len(cells), cells[:, None], (np.cumsum(sizes) - sizes,), (table,), "factor", place)


def cell_groups(graph: FactorGraph, over: object) -> dict[Hashable, Array]:
    """Return the cells of each group for which a joint distribution is requested.

    Args:
        graph: the factor graph.
        over: a sequence of groups such as `("a", ("x", 3))`. Each group is a tuple of cells. A cell
            is the name of a variable with one cell, or `(name, place..)`.

    Raises:
        GmlmError: E507 for a value that is not a group, for an unknown variable or place, and for a
            cell that occurs twice in a group.
    """
    if isinstance(over, str | bytes | Mapping) or not isinstance(over, Iterable):
        raise fail("E507", f"over must be a list of groups of cells, got {type(over).__name__}", help=GROUPS)
    return {_hashed(group): np.asarray(_group(graph, group), np.int64) for group in over}


def _hashed(group: Sequence[Any]) -> Hashable:
    return tuple(tuple(c) if isinstance(c, list) else c for c in group) if isinstance(group, list) else group


def _group(graph: FactorGraph, group: object) -> list[int]:
    if not isinstance(group, tuple | list) or not group:
        raise fail("E507", f"over: {group!r} is not a group of cells", help=GROUPS)
    names, cells = [v.name for v in graph.variables], []
    for cell in group:
        name, *place = cell if isinstance(cell, tuple | list) else (cell,)
        if not isinstance(name, str):
            raise fail("E507", f"over: {cell!r} is not a cell", help=GROUPS)
        if name not in names:
            raise unknown(f"over: the model has no variable `{name}`", name, names, "E507")
        cells.append(cell_at(graph.variable(name), tuple(place), "over"))
    if len(set(cells)) < len(cells):
        raise fail("E507", f"over: {group!r} has a cell twice")
    return cells


def cell_at(v: VariableArray, place: Any, what: str = "clamp") -> int:
    """Return the number of the cell of a variable at a place.

    A place is an integer, a label of the axis, or a tuple of them.

    Raises:
        GmlmError: E507. Its message begins with `what`, the name of the argument.
    """
    at = place if isinstance(place, tuple) else (place,)
    if v.shape == () and at in ((), (0,)):
        return v.offset
    if len(at) == len(v.shape):
        at = tuple(_member(v, k, one, what) for k, one in enumerate(at))
    whole = all(is_whole_number(i) for i in at)
    if not whole or len(at) != len(v.shape) or any(not 0 <= i < n for i, n in zip(at, v.shape, strict=True)):
        help = "places are 0-based integers, labels of the axis, or tuples of them"
        message = f"{what}: {place!r} is not a cell of `{v.name}`, whose shape is {v.shape}"
        raise fail("E507", message, help=help)
    return v.offset + int(np.ravel_multi_index(at, v.shape))


def _member(v: VariableArray, axis: int, one: Any, what: str) -> Any:
    """Return the number of the member with a given label; a number is returned unchanged."""
    if not isinstance(one, str):
        return one
    labels = [str(c) for c in v.coords[axis]]
    if one not in labels:
        raise unknown(f"{what}: `{one}` is not a member of axis {axis} of `{v.name}`", one, labels, "E507")
    return labels.index(one)


@dataclass(frozen=True)
class Prompts:
    """The first cells of rows.

    Attributes:
        codes: the codes of the cells of the model's only `var`, shape (rows, cells), -1 after a
            row's prefix.
        lengths: the number of cells of each prefix; 0 for an empty prefix.
    """

    codes: Array
    lengths: Array


def encode_prompts(graph: FactorGraph, prompt: Prompt, what: str = "prompt") -> Prompts:
    """Return the codes of prefixes.

    Args:
        graph: the factor graph of a model with one `var`.
        prompt: a list of prefixes, one for each row: values or labels in row-major order, or one
            string of letters. Prefixes may differ in length, and may have no cell or all cells. An
            array of shape (rows, t) is such a list too.
        what: how messages call it.

    Raises:
        GmlmError: E502 or E504 for a value outside the variable's domain; E505 if there are no
            prefixes; E507 for a model with several `var`s, or for a prefix that is longer than a
            row; E501 for any other invalid value. Each names the prefix.
    """
    verify_untraced(prompt, what)
    if len(graph.observed) != 1:
        raise fail("E507", f"a prompt is the first cells of the model's only `var`; it has {listed([v.name for v in graph.observed])}")
    verify_unmasked(prompt, what)
    v = graph.observed[0]
    rows = _rows(v, prompt, what)
    lengths = np.array([len(row) for row in rows], np.int32)
    if lengths.max() > v.size:
        r = int(np.argmax(lengths > v.size))
        message = f"{what}[{r}] has {lengths[r]} cells: more than the {v.size} of `{v.name}`"
        raise fail("E507", message, help="shorten it, or bind more cells")
    codes = np.full((len(rows), v.size), -1, np.int32)
    codes[np.arange(v.size) < lengths[:, None]] = _codes(v, rows, what)
    return Prompts(codes, lengths)


def _rows(v: VariableArray, prompt: Prompt, what: str) -> list[Array]:
    """Return the prefixes, each as an array of one axis."""
    example = "'ab'" if v.kind == "letters" else "[" + ", ".join(repr(x) for x in v.labels[:2]) + "]"
    help = f"a list with a prefix for each row: `[{example}, ..]`"
    if isinstance(prompt, str) or not isinstance(prompt, Sequence | np.ndarray):
        raise fail("E501", f"{what} must list prefixes, got {prompt!r:.60}", help=help)
    if not len(prompt):
        raise fail("E505", f"{what} lists no prefix: there are no rows", help=help)
    rows = []
    for r, row in enumerate(prompt):
        if isinstance(row, str) and v.kind == "letters":
            row = list(row)
        try:
            found = np.asarray(row)
        except ValueError:
            found = None
        if found is None or found.ndim != 1:
            raise fail("E501", f"{what}[{r}] must be the first cells of a row, got {row!r:.60}", help=help)
        rows.append(found)
    return rows


def _codes(v: VariableArray, rows: list[Array], what: str) -> Array:
    """Return the concatenated codes of all prefixes.

    If some prefixes do not fit, the message names the first of them.
    """
    some = {r: row for r, row in enumerate(rows) if len(row)}
    if not some:
        return np.zeros(0, np.int32)
    try:
        return _flat_codes(v, np.concatenate(list(some.values())), what)
    except GmlmError:
        return np.concatenate([_flat_codes(v, row, f"{what}[{r}]") for r, row in some.items()])


def _flat_codes(v: VariableArray, values: Array, what: str) -> Array:
    try:
        return value_codes(first_cells(v, len(values)), values, what)[0]
    except GmlmError as error:  # The help of that error about missing cells does not apply here.
        help = "a prefix ends with its last symbol: leave out what is behind it"
        raise GmlmError([dataclasses.replace(d, help=help if "missing" in d.help else d.help) for d in error.diagnostics]) from None


def first_cells(v: VariableArray, t: int) -> VariableArray:
    """Return the first t cells of a variable as a variable with one axis.

    Its labels are those of the variable's axis, if it has only one.
    """
    coords = v.coords[0][:t] if len(v.shape) == 1 else range(t)
    return dataclasses.replace(v, shape=(t,), dims=("cell",), coords=(coords,))
