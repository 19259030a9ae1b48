"""The package that reads data files.

In: paths. Out: tables, alignments and arrays, with the names of their columns and the lines of
their rows. Never: models, JAX.
"""

from ._alignment import AMINO_ACIDS, Alignment, read_alignment, sequence_weights
from ._array_files import PlainHeader, entries_behind, plain_header, read_arrays, verify_readable
from ._lines import ending_of, is_packed, text_of_file
from ._python_arrays import (
    as_frame,
    empty_entries,
    has_labels,
    in_program_order,
    is_frame,
    is_numbered,
    is_series,
    masked_entries,
    plain_array,
    row_labels,
    text_of,
    verify_unmasked,
    with_rows_of,
)
from ._rows import AbstractRows
from ._safetensors import Safetensors
from ._table import Table, choose, is_digits, names_in, number_in, parse_table, read_parquet, read_table, table_of
