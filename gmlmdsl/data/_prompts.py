"""Prompts: a prefix of any length for each row."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._diagnostics import GmlmError, fail, listed
from .._types import Prompt
from ..graph import FactorGraph, VariableArray
from ..read import verify_unmasked
from ._traced import verify_untraced
from ._values import value_codes

Array = np.ndarray


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
