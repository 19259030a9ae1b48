"""Data files: tables of text, and arrays, become what `Model.fit` takes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._array_files import read_arrays, verify_readable
from ._diagnostics import GmlmError, did_you_mean, fail, listed

if TYPE_CHECKING:
    from .graph import FactorGraph, VariableArray

Array = np.ndarray
MOST_TEXT = 1 << 29
MISSING = frozenset(("", "na", "nan", "n/a", "null", "none", "?"))


@dataclass(frozen=True)
class Table:
    """The fields of a text file.

    Attributes:
        header: the names of the columns, or None.
        rows: texts; every row has as many.
        lines: the line of the file that each row ends on.
    """

    path: Path
    header: tuple[str, ...] | None
    rows: list[list[str]]
    lines: list[int]

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.rows[0]) if self.rows else len(self.header or ())

    def column_name(self, k: int) -> str:
        """How messages call a column."""
        return f"column {k} (counted from 0)" if self.header is None else f"column `{self.header[k]}`"


@dataclass(frozen=True)
class DataFile:
    """Data as `Model.fit` takes it, what was read, and the table behind it."""

    x: Any
    words: str
    table: Table | None


def read_data(path: str | Path, graph: FactorGraph, columns: Sequence[str] = (), header: bool | None = None, skip: str = "") -> DataFile:
    """Rows of data for a model.

    Args:
        path: a .csv (or .tsv, .txt), .npy or .npz file.
        graph: the model's factor graph.
        columns: of a text file, names or 0-based numbers, in the order of the model's cells; none: all.
        header: whether a text file has one; None: seen from its first line.
        skip: a column that is no data, such as weights.

    Raises:
        GmlmError: naming the file, the line, the column, the value found and the values expected.
    """
    path = Path(path)
    if path.suffix.lower() in (".npy", ".npz"):
        if columns or header is not None:
            raise fail("E507", f"`--columns` and `--header` are for text files: {path} is not one")
        arrays = read_arrays(path)
        x = _by_variable(arrays, graph, path)
        shapes = ", ".join(f"{k} {v.shape}" for k, v in (x.items() if isinstance(x, dict) else [("array", x)]))
        return DataFile(x, shapes, None)
    table = _with_header(read_table(path), graph, header)
    if not table.rows:
        raise fail("E505", f"{path} has no rows of data")
    return _from_table(table, graph, columns, skip)


def _by_variable(arrays: dict[str, Array], graph: FactorGraph, path: Path) -> Any:
    names = [v.name for v in graph.variables]
    if len(names) == 1:
        if names[0] in arrays:
            return arrays[names[0]]
        if len(arrays) == 1:
            return next(iter(arrays.values()))
        raise fail("E503", f"{path} has the arrays {listed(list(arrays))}, none called `{names[0]}`", help=f"name the array `{names[0]}`")
    lacking = [n for n in names if n not in arrays]
    if lacking:
        raise fail(
            "E503",
            f"{path} lacks {listed(lacking)}; it has {listed(list(arrays))}",
            help="save one array per variable in an .npz file, under its name",
        )
    return {n: arrays[n] for n in names}


# Text


def read_table(path: str | Path) -> Table:
    """The fields of a text file, separated by commas, tabs, semicolons or blanks; blank lines are left out.

    Raises:
        GmlmError: E520 or E521 for a file that is missing, too large, not text, or whose rows differ in length.
    """
    path = Path(path)
    text = _read_text(path)
    first = next((line for line in text.split("\n") if line.strip()), "")
    separator = max(",\t;", key=first.count)
    if separator in first:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
        fields = ((row, reader.line_num) for row in reader)
    else:
        fields = ((line.split(), k) for k, line in enumerate(text.splitlines(), 1))
    rows, lines = [], []
    try:
        for row, line in fields:
            if any(f.strip() for f in row) or (len(row) > 1):
                rows.append([f.strip() for f in row])
                lines.append(line)
                if len(row) != len(rows[0]):
                    message = f"{path}, line {line}: {len(row)} fields, the first line has {len(rows[0])}"
                    raise fail("E520", message, help="every line needs as many; a field with a comma stands in quotes")
    except csv.Error as error:
        raise fail("E520", f"{path} is not a table: {error}") from None
    return Table(path, None, rows, lines)


def _read_text(path: Path) -> str:
    verify_readable(path)
    size = path.stat().st_size
    if size > MOST_TEXT:
        raise fail(
            "E520",
            f"{path} has {size / 2**20:,.0f} MiB of text, more than the limit of {MOST_TEXT / 2**20:,.0f}",
            help="save the data as .npz",
        )
    data = path.read_bytes()
    try:
        if b"\0" in data[:4096]:
            raise fail("E520", f"{path} is not text", help="data files are .csv, .npy or .npz")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise fail(
            "E520", f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8 text", help="data files are .csv, .npy or .npz"
        ) from None


def _with_header(table: Table, graph: FactorGraph, header: bool | None) -> Table:
    if not table.rows:
        return table
    if header is None:
        header = _looks_like_header(table.rows[0], graph)
    if not header:
        return table
    names = tuple(table.rows[0])
    twice = next((n for k, n in enumerate(names) if n in names[:k]), None)
    if twice is not None:
        raise fail("E520", f"{table.path}: two columns are called `{twice}`", help="if the first line is data, say `--no-header`")
    return replace(table, header=names, rows=table.rows[1:], lines=table.lines[1:])


def _looks_like_header(first: Sequence[str], graph: FactorGraph) -> bool:
    """A first line is a header if it names cells, if no field of it is a value, or if its fields are distinct numbers beyond the values."""
    values = {_plain(str(x)) for v in graph.variables for x in v.labels}
    good = [_plain(f) in values for f in first]
    if not any(good):
        return not any(f.lower() in MISSING or _is_number(f) for f in first) or (
            len(first) > 1 and len(set(first)) == len(first) and _counts_up(first)
        )
    return not all(good) and len(set(first)) == len(first) > len(values) + 1


def _counts_up(fields: Sequence[str]) -> bool:
    return all(f.isdigit() for f in fields) and [int(f) - int(fields[0]) for f in fields] == list(range(len(fields)))


def _plain(text: str) -> str:
    """`+1`, `1.0` and `1` are one value."""
    try:
        number = float(text)
    except ValueError:
        return text
    return f"{number:g}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _from_table(table: Table, graph: FactorGraph, columns: Sequence[str], skip: str) -> DataFile:
    chosen = [_column(table, c) for c in columns] or [
        k for k in range(table.width) if not skip or table.header is None or table.header[k] != skip
    ]
    cells = [graph.cell_name(i) for i in range(graph.n_cells)]
    strings = len(graph.variables) == 1 and graph.variables[0].kind == "letters" and len(graph.variables[0].shape) == 1 and len(chosen) == 1
    if strings and graph.n_cells > 1:
        v = graph.variables[0]
        x: Any = _strings(table, chosen[0], v)
        return DataFile(x, f"{_how(table)}, one text of {v.size} letters per row", table)
    order = _order(table, chosen, cells, graph, bool(columns))
    ignored = [table.column_name(k) for k in chosen if k not in order]
    x = {}
    for v in graph.variables:
        part = order[v.offset : v.offset + v.size]
        texts = np.array([[row[k] for k in part] for row in table.rows], dtype=str)
        x[v.name] = _values(table, texts, part, v).reshape(-1, *v.shape)
    words = f"{_how(table)}, {len(order)} columns" + (
        f"; ignored {', '.join(ignored[:4])}{' ..' if len(ignored) > 4 else ''}" if ignored else ""
    )
    return DataFile(x if len(x) > 1 else x[graph.variables[0].name], words, table)


def _how(table: Table) -> str:
    return "no header" if table.header is None else "with a header"


def _column(table: Table, name: str) -> int:
    if table.header is not None and name in table.header:
        return table.header.index(name)
    if name.isdigit() and int(name) < table.width:
        return int(name)
    if table.header is None:
        raise fail(
            "E507", f"{table.path} has no header: columns are numbered 0 to {table.width - 1}, got `{name}`", help="or say `--header`"
        )
    near = did_you_mean(name, table.header)
    raise fail(
        "E506", f"{table.path} has no column `{name}`", help=f"did you mean `{near}`?" if near else f"there are {listed(table.header)}"
    )


def _order(table: Table, chosen: list[int], cells: list[str], graph: FactorGraph, asked: bool) -> list[int]:
    """The column of each cell: by name where the header names the cells, else by position."""
    if table.header is not None and not asked:
        place = {_squeezed(table.header[k]): k for k in chosen}
        wanted = [_squeezed(c) for c in cells]
        if all(w in place for w in wanted):
            return [place[w] for w in wanted]
        if len(graph.variables) > 1 or any(w in place for w in wanted):
            lacking = [c for c, w in zip(cells, wanted, strict=True) if w not in place]
            raise fail(
                "E503",
                f"{table.path} has no column for {listed(lacking)}",
                help="name the columns by cell, or list them with `--columns` in that order",
            )
    if len(chosen) == len(cells):
        return chosen
    message = f"{table.path} has {len(chosen)} columns, the model has {len(cells)} cells: {listed(cells, 4)}"
    raise fail("E501", message, help="choose columns with `--columns`, or set the inputs that size the model with `--input`")


def _squeezed(name: str) -> str:
    """`x[1, 2]`, `x[1,2]`, `x_1_2` and `x.1.2` name one cell."""
    return re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_")


def _refuse(table: Table, row: int, k: int, v: VariableArray, found: str, help: str = "") -> GmlmError:
    where = f"{table.path}, line {table.lines[row]}, {table.column_name(k)}"
    if found.lower() in MISSING:
        shown = f'is "{found}"' if found else "is empty"
        return fail("E504", f"{where} {shown}", help="missing cells are not summed out by this version: drop the row, or fill the cell")
    return fail("E502", f'{where} is "{found}": not a value of `{v.name}`; its values are {listed([str(x) for x in v.labels])}', help=help)


def _values(table: Table, texts: Array, part: list[int], v: VariableArray) -> Array:
    """Numbers of spin, bit and range; labels, or codes where every field of the variable is one."""
    unique, inverse = np.unique(texts, return_inverse=True)
    labels = {str(x): k for k, x in enumerate(v.labels)}
    if v.ordered:
        codes = [labels.get(_plain(u), -1) for u in unique]
        numbers = np.array([v.labels[c] if c >= 0 else 0 for c in codes], np.int64)
    else:
        by_label = [labels.get(str(u), -1) for u in unique]
        by_number = [int(u) if u.isdecimal() and u.isascii() and int(u) < len(labels) else -1 for u in unique.tolist()]
        codes = by_number if all(c < 0 for c in by_label) else by_label
        numbers = np.array(codes, np.int64)
    bad = np.array([c < 0 for c in codes])[inverse.reshape(texts.shape)]
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise _refuse(table, row, part[column], v, str(texts[row, column]), _cure(v, {_plain(u) for u in unique.tolist()}))
    return numbers[inverse.reshape(texts.shape)]


def _cure(v: VariableArray, found: set[str]) -> str:
    if v.kind == "spin" and found <= {"0", "1"}:
        return f"0 and 1 are bits: declare `{v.name}` as `bit`, or write 0 as -1"
    if v.kind == "bit" and found <= {"-1", "1"}:
        return f"-1 and 1 are spins: declare `{v.name}` as `spin`, or write -1 as 0"
    return ""


def _strings(table: Table, k: int, v: VariableArray) -> Array:
    allowed = {str(x) for x in v.labels}
    for row, fields in enumerate(table.rows):
        text = fields[k]
        if len(text) != v.size:
            raise fail("E501", f"{table.path}, line {table.lines[row]}: {len(text)} letters, `{v.name}` has {v.size}")
        stray = next((c for c in text if c not in allowed), None)
        if stray is not None:
            raise _refuse(table, row, k, v, stray)
    return np.array([list(fields[k]) for fields in table.rows])


def numbers_of(table: Table, name: str) -> Array:
    """A column of numbers.

    Raises:
        GmlmError: for an unknown column, or a field that is no number.
    """
    k = _column(table, name)
    out = np.empty(len(table.rows))
    for row, fields in enumerate(table.rows):
        if not _is_number(fields[k]):
            raise fail("E502", f'{table.path}, line {table.lines[row]}, {table.column_name(k)} is "{fields[k]}": not a number')
        out[row] = float(fields[k])
    return out
