"""Tables in Parquet files, as texts: by pyarrow, an optional package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._diagnostics import GmlmError, fail
from .._optional import need
from ._array_files import LONGEST_REASON, verify_readable
from ._lines import MOST_TEXT
from .limits import MOST_CELLS, MOST_COLUMNS

if TYPE_CHECKING:
    from types import ModuleType

PARQUET = ".parquet"


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
        raise fail("E520", f"{path} is no file: Parquet is read from its end", help="save what comes out of the pipe")
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
