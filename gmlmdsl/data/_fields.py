"""Conversion of a file's rows to values: columns to cells, texts to codes.

Each error names its place in the file. Files that are larger than memory are read in pieces.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._diagnostics import GmlmError, did_you_mean, fail, listed, whole_number
from .._optional import need
from .._types import Marks, Missing, Rows
from ..files import reading
from ..graph import FactorGraph, VariableArray
from ..read import AbstractRows, Alignment, is_digits, is_numbered, number_in
from ._cell_names import SEVERAL, CellNames, squeezed, verify_once

Array = np.ndarray
# These texts often stand for a missing cell.
HOLES = frozenset(("", "na", "nan", "n/a", "null", "none", "?"))


def values_of(graph: FactorGraph, rows: AbstractRows, missing: Missing | None = None) -> dict[str, Array]:
    """Return arrays by variable: values of spin, bit and range, codes of letters and labels.

    A missing cell is nan. Cells may be missing only if `missing` is given. Then the texts that the
    file declares as missing, and the text `missing`, are missing cells.

    If columns have the names of cells (`x[1, 2]`, `x_1_2`, or the labels of the only axis), names
    decide. Otherwise columns stand for the cells in order. One column of texts may stand for a row
    of letters.

    Raises:
        GmlmError: E501 or E503 if columns and cells do not fit; E502 or E504 for a field, with its
            file, line and column.
    """
    said = [str(m) for m in marks_in(missing) if m == m]
    tokens = () if missing is None else (*rows.tokens, *said)
    if is_row_of_letters(len(rows.columns), graph):
        v = graph.observed[0]
        return {v.name: _letters(rows, v, tokens)}
    order, out, at = columns_of_cells(graph, rows), {}, 0
    for v in held_variables(graph, rows):
        out[v.name] = _values(rows, order[at : at + v.size], v, tokens).reshape(-1, *v.shape)
        at += v.size
    return out


def marks_in(missing: Missing | None) -> Marks:
    """Return every value that `missing` has, of whichever variable."""
    if isinstance(missing, Mapping):
        return tuple(mark for part in missing.values() for mark in marks_in(part))
    if isinstance(missing, Sequence) and not isinstance(missing, str):
        return tuple(missing)
    return () if missing is None else (missing,)


def held_variables(graph: FactorGraph, rows: AbstractRows) -> tuple[VariableArray, ...]:
    """Return the variables of a file.

    They are every `var`, and each `latent` with columns for all its cells.
    """
    if rows.in_order or not graph.latents:
        return graph.observed
    named = set(rows.columns) | {squeezed(name) for name in rows.columns}

    def is_held(v: VariableArray) -> bool:
        return v.role == "var" or all(squeezed(graph.cell_name(c)) in named for c in v.positions.ravel().tolist())

    return tuple(v for v in graph.variables if is_held(v))


def is_row_of_letters(columns: int, graph: FactorGraph) -> bool:
    """Return whether the only column contains a text for the only row of letters of the model."""
    found = graph.observed
    return columns == 1 and len(found) == 1 and found[0].kind == "letters" and len(found[0].shape) == 1 and found[0].size > 1


def columns_of_cells(graph: FactorGraph, rows: AbstractRows) -> list[int]:
    """Return the column of each cell of `held_variables`, by name or by position.

    Names decide if the columns have the names of cells. Columns that the caller listed stand for
    the cells in order, unless they are called exactly as the cells are: then names decide.

    Raises:
        GmlmError: E501 or E503 if columns and cells do not fit.
    """
    names, columns = CellNames(held_variables(graph, rows)), list(rows.columns)
    found = [names.find(c) for c in columns]
    place = {cell: k for k, cell in enumerate(found) if cell is not None and cell != SEVERAL}
    cells = names.cells
    if len(place) == len(cells) and _counts_by_name(rows, names):
        verify_once(names, found, columns, str(rows.path))
        return [place[cell] for cell in range(len(cells))]
    if _are_named(graph, rows, names, bool(place)):
        strange = next((c for c, cell in zip(columns, found, strict=True) if cell is None), "")
        raise _lacking(rows, [c for k, c in enumerate(cells) if k not in place], strange, names)
    if len(columns) == len(cells):
        return list(range(len(cells)))
    message = f"{rows.path} has {len(columns)} columns, the model has {len(cells)} cells: {listed(cells, 4)}"
    choose = "label the cells as some columns are: `coords=`" if isinstance(rows, Alignment) else "choose columns with `columns=`"
    raise fail("E501", message, help=f"{choose}, or give the inputs that size the model")


def _counts_by_name(rows: AbstractRows, names: CellNames) -> bool:
    """Return whether names of columns decide, where each cell is the name of one."""
    # Numbered columns are in the order in which the caller listed them.
    exact = len(rows.columns) == len(names.cells) and not any(c.isdecimal() for c in rows.columns)
    # The columns of an alignment are named by residue and place.
    aligned = isinstance(rows, Alignment) and bool(rows.focus)
    return exact or not rows.in_order or (aligned and names.named)


def _lacking(rows: AbstractRows, cells: Sequence[str], strange: str, names: CellNames) -> GmlmError:
    """Return the error for cells without a column; `strange` is a column that names no cell, or ""."""
    near = did_you_mean(strange, names.nearest())
    cure = f"column `{strange}` names none of the cells: did you mean `{near}`? " if near else ""
    other = "" if isinstance(rows, Alignment) else ", or list them with `columns=` in that order"
    message = f"{rows.path} has no column for {listed(cells)}"
    return fail("E503", message, help=f"{cure}name the columns by cell{other}")


def _are_named(graph: FactorGraph, rows: AbstractRows, names: CellNames, some: bool) -> bool:
    """Return whether columns have names although they do not name every cell.

    Their order is then irrelevant. Columns that were listed one by one have none. Those of an
    alignment have names if some of them are cells of the model.
    """
    if rows.in_order:
        return some and names.named and isinstance(rows, Alignment) and bool(rows.focus)
    if len(graph.observed) > 1 or any(map(names.full, rows.columns)):
        return True
    return names.named and not is_numbered(rows.columns)


def is_cell(name: str, variable: str) -> bool:
    """Return whether a column has the name of a cell of a variable with one axis: `x[3]`, `x_3`."""
    return re.fullmatch(rf"{re.escape(variable)}_\d+", squeezed(name)) is not None


def _values(rows: AbstractRows, part: Sequence[int], v: VariableArray, tokens: Sequence[str]) -> Array:
    """Return numbers for spin, bit and range, and codes for letters and labels.

    If no field of the file is a label, the fields may be codes.
    """
    texts = rows.texts(part)
    absent = np.isin(texts, tokens)
    unique, inverse = np.unique(texts, return_inverse=True)
    seen = [u for u in unique.tolist() if u not in tokens]
    found = _numbers_of(seen, v) if v.ordered else _codes_of(seen, v)
    bad = np.array([u not in found and u not in tokens for u in unique.tolist()], bool)[inverse.reshape(texts.shape)]
    if bad.any():
        row, column = map(int, np.argwhere(bad)[0])
        wrong = bad | absent
        marks = [*tokens, *texts[bad & ~np.all(wrong, axis=0)].tolist()]
        cure = _cure(v, {plain(u) for u in seen}) or _strangers(rows, part, v, texts, wrong, column)
        cure = (cure or f"correct it or, {if_missing(marks)}") + rows.hint(row)
        raise _refuse(rows.place(row, part[column]), v, str(texts[row, column]), marks, cure)
    numbers = np.array([float(found.get(u, 0)) for u in unique.tolist()])[inverse.reshape(texts.shape)]
    return np.where(absent, np.nan, numbers)


def _numbers_of(seen: Sequence[str], v: VariableArray) -> Mapping[str, float]:
    """Return the number of each text that is a number or a label of an ordered domain."""
    labels = {str(x): k for k, x in enumerate(v.labels)}
    numbers = {str(x): x for x in v.numbers}
    found = {u: numbers[plain(u)] for u in seen if plain(u) in numbers}
    return found | {u: v.numbers[labels[u]] for u in seen if u in labels and u not in found}


def _codes_of(seen: Sequence[str], v: VariableArray) -> Mapping[str, float]:
    """Return the code of each text that is a label; if none is, texts may be codes."""
    labels = {str(x): k for k, x in enumerate(v.labels)}
    found = {u: labels[u] for u in seen if u in labels}
    return found or {u: int(u) for u in seen if is_digits(u) and int(u) < len(labels)}


def _letters(rows: AbstractRows, v: VariableArray, tokens: Sequence[str]) -> Array:
    """Return one text per row as letters.

    A missing text is a row of missing cells. A missing letter is one missing cell.
    """
    labels = {str(x): float(k) for k, x in enumerate(v.labels)} | {t: np.nan for t in tokens if len(t) == 1}
    out = np.empty((len(rows), v.size))
    for row, text in enumerate(rows.texts([0])[:, 0].tolist()):
        if text in tokens:
            out[row] = np.nan
            continue
        if len(text) != v.size:
            raise fail("E501", f"{rows.place(row, 0)} has {len(text)} letters, `{v.name}` has {v.size}")
        stray = next((k for k, c in enumerate(text) if c not in labels), None)
        if stray is not None:
            where = f"{rows.place(row, 0)}, letter {stray} (counted from 0),"
            cure = f"correct it or, {if_missing(text[stray])}"
            raise _refuse(where, v, text[stray], text[stray], cure)
        out[row] = [labels[c] for c in text]
    return out


def _refuse(where: str, v: VariableArray, found: str, marks: Sequence[str], cure: str) -> GmlmError:
    """Return the error for a field; `marks` are all texts that may stand for a missing cell."""
    if found.lower() in HOLES:
        shown = f'is "{found}"' if found else "is empty"
        return fail("E504", f"{where} {shown}", help=if_missing(marks or [found]))
    values = listed([str(x) for x in v.labels], 24)
    message = f'{where} is "{found}": not a value of `{v.name}`; its values are {values}'
    return fail("E502", message, help=cure)


def _cure(v: VariableArray, found: set[str]) -> str:
    if v.kind == "spin" and found <= {"0", "1"}:
        return f"0 and 1 are bits: declare `{v.name}` as `bit`, or write 0 as -1"
    if v.kind == "bit" and found <= {"-1", "1"}:
        return f"-1 and 1 are spins: declare `{v.name}` as `spin`, or write -1 as 0"
    return ""


def _strangers(rows: AbstractRows, part: Sequence[int], v: VariableArray, texts: Array, wrong: Array, column: int) -> str:
    """Return what to do if no field of a column is a value: leave it out, or declare the values.

    `texts` are the fields, and `wrong` is true where a field is no value; both have the shape
    (rows, columns of `part`).
    """
    strange: Array = np.all(wrong, axis=0)
    if not strange[column]:
        return ""
    labels, declare = _labels(texts) if strange.all() else [], ""
    if labels:
        text = json.dumps(labels, ensure_ascii=False)[1:-1]
        declare = f"declare `{v.name}` as `labels({text})`"
        strange = np.all(~np.isin(texts, labels), axis=0)
        if not strange[column]:
            return f"{declare}, or choose other columns with `columns=`"
        declare += ", the values of most columns; "
    cells, first = "list the others with `columns=`", int(np.argmin(strange))
    if strange.sum() == first and not rows.in_order:  # The others are the last columns.
        cells = f"`columns='{rows.columns[part[first]]}:'`"
    name = f"column `{rows.columns[part[column]]}`"
    return f"{declare}if {name} is not a cell of `{v.name}`, leave it out: {cells}"


def if_missing(marks: Sequence[object]) -> str:
    """Return what to do if values that are found stand for missing cells."""
    said = list(dict.fromkeys(marks))
    if len(said) > 1:
        return f"if these stand for missing cells, pass `missing={said[:8]}`"
    return f"if it stands for a missing cell, pass `missing={said[0]!r}`"


def _labels(texts: Array) -> list[str]:
    """Return the values of most columns if they may be labels, else an empty list."""
    kinds = Counter(frozenset(u for u in t if u.lower() not in HOLES) for t in texts.T.tolist())
    values = sorted(kinds.most_common(1)[0][0])
    return values * (1 < len(values) <= 8 and not any(u[-1].isdigit() for u in values))


def plain(text: str) -> str:
    """Return a normalised number: `+1`, `1.0` and `1` are one value."""
    number = number_in(text)
    return text if number is None else f"{number:g}"


@dataclass(frozen=True)
class Pieces:
    """Rows that are read some at a time.

    Attributes:
        source: an array whose first axis is rows and that slices read, such as `numpy.memmap` and a
            Zarr array, or a dict of such arrays by variable; or the path of a Parquet file.
        size: the number of rows of a piece; the last one may have fewer.
        count: the number of rows.
    """

    source: Any
    size: int
    count: int

    def __iter__(self) -> Iterator[Rows]:
        if isinstance(self.source, Path):
            yield from self._of_parquet()
            return
        arrays = self.source if isinstance(self.source, Mapping) else {"": self.source}
        for start in range(0, self.count, self.size):
            found = {name: np.asarray(a[start : start + self.size]) for name, a in arrays.items()}
            yield found if isinstance(self.source, Mapping) else found[""]

    def _of_parquet(self) -> Iterator[Rows]:
        with reading(self.source), _parquet(self.source) as file:
            for batch in file.iter_batches(self.size):
                yield batch.to_pandas()


def pieces_of(x: Any, size: object) -> Pieces:
    """Return rows that are read in pieces.

    Args:
        x: the rows, see `Pieces`; a Parquet file may be named by a string.
        size: the number of rows of a piece.

    Raises:
        GmlmError: E501 unless `x` can be read in pieces, E505 for no rows, E507 for the number.
    """
    rows = whole_number("rows_at_once", size, 1)
    if isinstance(x, str | Path):
        with reading(Path(x)), _parquet(Path(x)) as file:
            source, counts = Path(x), {file.metadata.num_rows}
    else:
        source, arrays = x, list(x.values()) if isinstance(x, Mapping) else [x]
        if not arrays or not all(
            hasattr(a, "shape") and hasattr(a, "__getitem__") and not hasattr(a, "iloc") and len(a.shape) for a in arrays
        ):
            help = "`numpy.load(path, mmap_mode='r')`, a Zarr array, a dict of them, or the path of a Parquet file"
            raise fail("E501", f"`rows_at_once=` reads an array by slices of rows, got {type(x).__name__}", help=help)
        counts = {int(a.shape[0]) for a in arrays}
    if len(counts) > 1:
        raise fail("E501", f"x: the variables have {' and '.join(map(str, sorted(counts)))} rows", help="every variable needs as many rows")
    (count,) = counts
    if not count:
        raise fail("E505", "x has no rows: there is nothing to fit")
    return Pieces(source, min(rows, count), count)


def _parquet(path: Path) -> Any:
    need("pyarrow", "Parquet files need pyarrow", '"gmlmdsl[parquet]"')
    return need("pyarrow.parquet", "Parquet files need pyarrow", '"gmlmdsl[parquet]"').ParquetFile(path)
