"""Tables of text: .csv, .tsv, columns between blanks, and .parquet.

Columns are selected by name, rows by group, and missing cells by their text.

Parquet files are read by pyarrow, an optional package.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import GmlmError, fail, listed, unknown
from .._optional import need
from ..files import as_path
from ._array_files import LONGEST_REASON, verify_readable
from ._lines import MOST_TEXT, ending_of, is_packed, lines_of
from ._rows import AbstractRows
from .limits import MOST_CELLS, MOST_COLUMNS, MOST_DIGITS

if TYPE_CHECKING:
    from types import ModuleType

Array = np.ndarray
PARQUET = ".parquet"
ROWS = "a table has a line of column names, and a line for each row"


@dataclass(frozen=True)
class Parsed:
    """The fields of a text file, without surrounding blanks; every row has equally many.

    Attributes:
        path: the file.
        fields: the fields of each row.
        lines: the line on which each row begins.
        is_named: whether the first row is surely a header, as in a .parquet file.
    """

    path: Path
    fields: list[list[str]]
    lines: list[int]
    is_named: bool = False


@dataclass(frozen=True, repr=False)
class Table(AbstractRows):
    """Rows of a text file; see `read_table`.

    Attributes:
        path: the file.
        header: the names of all columns of the file, or None.
        fields: all fields of the kept rows.
        lines: the line of the file on which each row begins, from 1.
        chosen: the numbers of the chosen columns.
        asked: whether the caller listed the columns.
        tokens: the texts that stand for a missing cell.
        unit: the word for a number of `lines`: "line", or "row" of a .parquet file.
    """

    path: Path
    header: tuple[str, ...] | None
    fields: list[list[str]]
    lines: list[int]
    chosen: tuple[int, ...]
    asked: bool = False
    tokens: tuple[str, ...] = ()
    unit: str = "line"

    @property
    def rows(self) -> Array:
        """The line of the file on which each row begins, counted from 1; shape (rows,)."""
        return np.array(self.lines, np.int64)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the chosen columns, or their numbers as text if the file has no header."""
        return tuple(str(k) if self.header is None else self.header[k] for k in self.chosen)

    @property
    def x(self) -> Array:
        """The chosen columns, shape (rows, columns).

        They are numbers if every field is a number, else texts. A missing cell is nan among
        numbers, and the first of the missing texts among texts. `missing` tells which.
        """
        return self._x

    @cached_property
    def _x(self) -> Array:
        texts = self.texts(range(len(self.chosen)))
        absent = np.isin(texts, self.tokens)
        values = {t: number_in(t) for t in set(texts[~absent].tolist())}
        if texts.size and values and all(v is not None for v in values.values()):
            numbers = np.array([[np.nan if a else values[t] for t, a in zip(*row, strict=True)] for row in zip(texts, absent, strict=True)])
            whole = not absent.any() and all(float(v).is_integer() and abs(v) < 2**53 for v in values.values() if v is not None)
            return numbers.astype(np.int64) if whole else numbers
        return np.where(absent, self.tokens[0], texts) if absent.any() else texts

    @property
    def missing(self) -> str | float | None:
        """The argument `missing=` of `Model.fit` for these rows."""
        return None if not self.tokens else self.tokens[0] if self.x.dtype.kind == "U" else float("nan")

    @property
    def missing_counts(self) -> dict[str, int]:
        """The number of missing cells of each chosen column."""
        absent = np.isin(self.texts(range(len(self.chosen))), self.tokens).sum(axis=0)
        return dict(zip(self.columns, absent.tolist(), strict=True))

    @property
    def in_order(self) -> bool:
        return self.asked or self.header is None

    @property
    def words(self) -> str:
        return "no header" if self.header is None else "with a header"

    def texts(self, columns: Sequence[int]) -> Array:
        places = [self.chosen[k] for k in columns]
        return np.array([[row[k] for k in places] for row in self.fields], dtype=str).reshape(len(self.fields), len(places))

    def place(self, row: int, column: int) -> str:
        k = self.chosen[column]
        name = f"column {k} (counted from 0)" if self.header is None else f"column `{self.header[k]}`"
        return f"{self.path}, {self.unit} {self.lines[row]}, {name}"

    def hint(self, row: int) -> str:
        is_first = self.header is None and self.lines[row] == 1
        return "; if line 1 names the columns, say `header=True`" * is_first

    def numbers(self, column: str) -> Array:
        """Return a column of numbers, which need not be chosen.

        Raises:
            GmlmError: E526 for an unknown column, E502 for a field that is not a number.
        """
        k = _column(self, column)
        values = [number_in(row[k]) for row in self.fields]
        bad = next((r for r, v in enumerate(values) if v is None), None)
        if bad is not None:
            whole = replace(self, chosen=(k,))
            message = f'{whole.place(bad, 0)} is "{self.fields[bad][k]}": not a number'
            raise fail("E502", message, help="correct it, or leave the row out")
        return np.array(values, np.float64)

    def select(self, columns: str | Sequence[str | int]) -> Table:
        """Return the same rows with these columns; see `read_table`.

        Raises:
            GmlmError: E526 for an unknown column, E507 for a column that is chosen twice.
        """
        found: list[int] = []
        parts: list[Any] = names_in(columns) if isinstance(columns, str) else list(columns) if isinstance(columns, Iterable) else [columns]
        if not all(isinstance(part, str | int | np.integer) for part in parts):
            raise fail("E507", f"`columns=` of a table lists names or numbers of columns, got {columns!r:.60}")
        for part in parts:
            found += _span(self, part)
        twice = next((k for n, k in enumerate(found) if k in found[:n]), None)
        if twice is not None:
            name = twice if self.header is None else self.header[twice]
            raise fail("E507", f"`columns=` names the column `{name}` twice", help="name each once")
        return replace(self, chosen=tuple(found), asked=True)

    def keep(self, where: Mapping[str, object]) -> Table:
        """Return the rows whose fields have given values, without the columns of these fields.

        See `read_table`.

        Raises:
            GmlmError: E526 for an unknown column, E527 for a value that the column does not have,
                E505 if no row is left.
        """
        good, fixed = np.ones(len(self), bool), set()
        for name, wanted in where.items():
            k = _column(self, name)
            fixed.add(k)
            values = [str(v) for v in (wanted if isinstance(wanted, list | tuple | set | frozenset | np.ndarray) else [wanted])]
            present = {row[k] for row in self.fields}
            for v in (v for v in values if v not in present):
                message = f"{self.path}: no row has `{v}` in column `{name}`"
                raise unknown(message, v, present, "E527", f"it has {listed(sorted(present))}")
            good &= np.array([row[k] in values for row in self.fields])
        if not good.any():
            raise fail("E505", f"{self.path}: no row is left that satisfies every `where=`")
        kept = np.flatnonzero(good).tolist()
        rest = tuple(k for k in self.chosen if k not in fixed)
        return replace(self, fields=[self.fields[r] for r in kept], lines=[self.lines[r] for r in kept], chosen=rest)

    def without(self, column: str) -> Table:
        """Return the same rows without a column, if there is one with this name."""
        if self.header is None or column not in self.header:
            return self
        return replace(self, chosen=tuple(k for k in self.chosen if self.header[k] != column))

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        holes = sum(self.missing_counts.values()) if self.tokens else 0
        gaps = f", {holes} of {len(self) * len(self.chosen)} cells missing" if self.tokens else ""
        return f"{self.path}: {len(self)} rows, {len(self.chosen)} columns{gaps}"


def read_table(
    path: str | Path,
    columns: str | Sequence[str | int] | None = None,
    where: Mapping[str, object] | None = None,
    missing: str | Sequence[str] | None = None,
    *,
    header: bool = True,
) -> Table:
    """Read the rows of a .csv or .parquet file, or of columns between tabs, semicolons or blanks.

    Blanks around a field are removed. A missing value of a .parquet file is an empty field, as in a
    .csv: `missing=""`.

    Args:
        path: the file, which is UTF-8 text, or Parquet if its name ends in `.parquet`.
        columns: names, numbers counted from 0, or ranges `a:b` from column a to column b, both
            included. Either end of a range may be omitted. They are given in a list, or in one text
            with commas. None means every column except those of `where`.
        where: the value or values that rows must have in a column: `{"Class": "democrat"}`.
        missing: the text that stands for a missing cell, such as `"?"`, or several of them.
        header: whether the first line contains the names of the columns. A .parquet file always
            has names.

    Returns:
        A `Table`. `.x` is an array for `Model.fit`; `.columns` are names for `coords=`; `.rows` are
        lines of the file; `.missing` is the argument `missing=`; `.missing_counts` are the numbers
        of missing cells by column. The table itself may be passed as `x`; an error about a value
        then names file, line and column.

    Raises:
        GmlmError: E505 for a file without rows; E520 to E527 for a file, a column or a group that
            does not fit; E119 or E120 for a file that is not readable text; E507 for an invalid
            argument; E561 for a .parquet file if pyarrow is not installed.
    """
    return choose(table_of(parse_table(path), header), columns, where, missing)


def choose(table: Table, columns: str | Sequence[str | int] | None, where: Mapping[str, object] | None, missing: Any) -> Table:
    """Return a part of a table.

    Args:
        table: the table.
        columns: the columns, as in `read_table`.
        where: the values of columns, as in `read_table`.
        missing: the texts of missing cells, as in `read_table`.

    Raises:
        GmlmError: as for `read_table`.
    """
    tokens = () if missing is None else tuple(missing) if isinstance(missing, list | tuple | set | frozenset) else (missing,)
    if not all(isinstance(t, str) for t in tokens):
        help = 'write it as it stands in the file: `missing="NA"`; an empty field is `missing=""`'
        raise fail("E507", f"`missing=` of a table is a text, or several, got {missing!r:.60}", help=help)
    if where is not None and not isinstance(where, Mapping):
        help = 'a dict from columns to the values that rows must have: `where={"Class": "democrat"}`'
        raise fail("E507", f"`where=` of a table is a dict, got {where!r:.60}", help=help)
    table = replace(table, tokens=tuple(t.strip() for t in tokens))
    table = table.keep(where) if where else table
    table = table if columns is None else table.select(columns)
    if not table.chosen:
        raise fail("E505", f"{table.path}: no column is left", help="name them with `columns=`")
    return table


def table_of(parsed: Parsed, header: bool) -> Table:
    """Return a table without its header.

    Raises:
        GmlmError: E525 for names that are not distinct, E505 if there are no rows.
    """
    fields, lines, names = parsed.fields, parsed.lines, None
    if parsed.is_named and not header:
        help = "leave `header=False` or `--no-header` out, and number columns from 0"
        raise fail("E507", f"{parsed.path}: the columns of a Parquet file have names", help=help)
    if header and fields:
        names, fields, lines = tuple(fields[0]), fields[1:], lines[1:]
        twice = next((n for k, n in enumerate(names) if n in names[:k]), None)
        if twice is not None:
            what = f"two columns are called `{twice}`" if twice else "two columns have no name"
            places = " and ".join(str(k) for k, n in enumerate(names) if n == twice)
            message = f"{parsed.path}: {what}: columns {places} of line 1, counted from 0"
            raise fail("E525", message, help="rename one; if line 1 is data, say `header=False`")
    if not fields:
        raise fail("E505", f"{parsed.path} has no rows of data" + (": one line, which is read as a header" if names else ""), help=ROWS)
    width = len(fields[0])
    return Table(parsed.path, names, fields, lines, tuple(range(width)), unit="row" if parsed.is_named else "line")


def parse_table(path: str | Path) -> Parsed:
    """Return the fields of a text file without its blank lines, or those of a .parquet file.

    Raises:
        GmlmError: E505 for a file without any; E520 for quotes that do not close; E120, E523 or
            E119 for a file that is not readable text; E522 for rows of different length; as
            `read_parquet`.
    """
    path = as_path(path)
    if ending_of(path) == PARQUET:
        return _parsed_parquet(path)
    rows: list[list[str]] = []
    lines: list[int] = []
    for line, row in _rows(path):
        if len(row) < 2 and not any(f.strip() for f in row):
            continue
        rows.append([f.strip() for f in row])
        lines.append(line)
        if len(row) != len(rows[0]):
            message = f"{path}, line {line}: {len(row)} fields, the first line has {len(rows[0])}"
            raise fail("E522", message, help="every line needs as many; a field with a comma stands in quotes")
    if not rows:
        raise fail("E505", f"{path} is empty", help=ROWS)
    return Parsed(path, rows, lines)


def _parsed_parquet(path: Path) -> Parsed:
    """Return the fields of a Parquet file: its names, then its rows, which count from 1."""
    if is_packed(path):
        help = f"unpack it, `gunzip {path}`; Parquet files are packed in themselves"
        raise fail("E520", f"{path} is packed, and only text is unpacked", help=help)
    names, rows = read_parquet(path)
    if not names:
        return Parsed(path, [], [])
    return Parsed(path, [[name.strip() for name in names], *rows], list(range(len(rows) + 1)), is_named=True)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line on which each row begins, and the row's fields."""
    lines = lines_of(path)
    before: list[str] = []
    for line in lines:
        before.append(line)
        if line.strip():
            break
    separator = max(",\t;", key=before[-1].count) if before else ","
    whole = chain(before, lines)
    if before and separator not in before[-1]:
        yield from ((k, line.split() or [""]) for k, line in enumerate(whole, 1))
        return
    reader = csv.reader(whole, delimiter=separator, skipinitialspace=True, strict=True)
    start = 1
    try:
        for row in reader:
            yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        help = "a quote that opens must close; a quote inside a quoted field is written twice"
        raise fail("E520", f"{path}, line {start}: not a row of a table: {error}", help=help) from None


def names_in(text: str) -> list[str]:
    """Return the parts of a list with commas; a part that contains a comma is in quotes."""
    return [part.strip() for part in next(csv.reader([text], skipinitialspace=True), [])]


def _span(table: Table, part: str | int) -> list[int]:
    """Return the columns of a name, a number or a range."""
    if isinstance(part, int | np.integer):
        part = str(part)
    named = table.header is not None and part in table.header
    if named or ":" not in part:
        return [_column(table, part)]
    first, _, last = (p.strip() for p in part.partition(":"))
    a = _column(table, first) if first else 0
    b = _column(table, last) if last else len(table.fields[0]) - 1
    if a > b:
        raise fail("E507", f"`columns=`: `{part}` runs backwards: `{last}` stands before `{first}`", help=f"`{last}:{first}`")
    return list(range(a, b + 1))


def is_digits(text: str) -> bool:
    """Return whether a text is a non-negative integer of a size that this package accepts."""
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS


def _column(table: Table, name: str) -> int:
    if table.header is not None and name in table.header:
        return table.header.index(name)
    width = len(table.fields[0])
    if is_digits(name) and int(name) < width:
        return int(name)
    if table.header is None:
        message = f"{table.path} has no header: columns are numbered 0 to {width - 1}, got `{name}`"
        raise fail("E526", message, help="if line 1 names the columns, say `header=True`")
    numbered = f"{table.path} has columns 0 to {width - 1}, got `{name}`" if name.isascii() and name.isdigit() else ""
    raise unknown(numbered or f"{table.path} has no column `{name}`", name, table.header, "E526")


def number_in(text: str) -> float | None:
    """Return the number that a text is as data files write it, or None."""
    try:
        return float(text)
    except ValueError:
        return None


def read_parquet(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns of a Parquet file, and its rows as texts.

    Fields have the texts that they have in a .csv: a missing value is empty, and truth values are
    `True` and `False`. A value that is no text, number, truth value or time, such as a list, is
    `<list<..>>`.

    Raises:
        GmlmError: E561 if pyarrow is not installed; E520 for a file that is not Parquet, or is
            damaged; E523 for one above the limits; E120 for one that cannot be read.
    """
    verify_readable(path)
    parquet = _need("pyarrow.parquet")
    if not path.is_file():
        raise fail("E520", f"{path} is not a file: Parquet is read from its end", help="save what comes out of the pipe")
    try:
        return _read(parquet, path)
    except (GmlmError, KeyboardInterrupt):
        raise
    except Exception as error:  # pyarrow raises errors of several kinds for a damaged file.
        shown = str(error).partition("\n")[0][:LONGEST_REASON] or type(error).__name__
        raise fail("E520", f"{path} is not a Parquet file, or is damaged: {shown}") from None


def _need(module: str) -> ModuleType:
    help = "or save the table as a .csv: `frame.to_csv(..)`"
    return need(module, "a .parquet file needs pyarrow", '"gmlmdsl[parquet]"', help)


def _read(parquet: ModuleType, path: Path) -> tuple[list[str], list[list[str]]]:
    with parquet.ParquetFile(path) as file:
        _verify_size(path, file.metadata)
        schema = file.schema_arrow
    # A text that stands in many rows is held once.
    texts = [field.name for field in schema if str(field.type) in ("string", "large_string")]
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read(use_threads=False).flatten()  # The parts of a structure are columns of their own.
    columns = [_texts(column) for column in table.columns]
    return list(table.column_names), [list(row) for row in zip(*columns, strict=True)]


def _verify_size(path: Path, metadata: Any) -> None:
    """Raise if a file declares more than may be read, before any of it is."""
    rows, columns = metadata.num_rows, metadata.num_columns
    size = sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))
    groups = sum(metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
    if rows < 0 or size < 0 or groups != rows:
        raise fail("E520", f"{path} is damaged: it declares {rows:,} rows, its parts {groups:,}")
    if columns > MOST_COLUMNS or rows * columns > MOST_CELLS or size > MOST_TEXT:
        message = f"{path} declares {rows:,} rows of {columns:,} columns in {size / 2**20:,.0f} MiB"
        limit = f"the limit is {MOST_CELLS:,} fields in {MOST_TEXT / 2**20:,.0f} MiB"
        raise fail("E523", f"{message}; {limit}", help="save the needed columns alone, or save the data as .npz")


def _texts(column: Any) -> list[str]:
    """Return the text of each value of a column; equal values share one text."""
    types = _need("pyarrow.types")
    kind = column.type
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_nested(inner) or types.is_binary(inner) or types.is_large_binary(inner) or types.is_fixed_size_binary(inner):
        return [f"<{inner}>"] * len(column)
    if types.is_null(inner):
        return [""] * len(column)
    found: list[str] = []
    for chunk in column.chunks:
        codes = chunk if types.is_dictionary(kind) else chunk.dictionary_encode()
        words = [_text(value) for value in codes.dictionary.to_pylist()]
        found += [words[k] if k is not None else "" for k in codes.indices.to_pylist()]
    return found


def _text(value: object) -> str:
    """Return a value as a .csv has it: a missing number is empty."""
    return "" if value is None or value != value else str(value).strip()
