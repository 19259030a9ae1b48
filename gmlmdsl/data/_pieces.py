"""Rows that are read in pieces, such as arrays on disk that are larger than memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._diagnostics import fail, whole_number
from .._optional import need
from .._types import Rows
from ..files import reading


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
