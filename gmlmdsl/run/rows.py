"""Re-exports of `_rows`."""

from ._rows import columns_of_cells as columns_of_cells
from ._rows import is_cell as is_cell
from ._rows import is_row_of_letters as is_row_of_letters
from ._rows import plain as plain
