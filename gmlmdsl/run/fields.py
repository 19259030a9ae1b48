"""Re-exports of `_fields`."""

from ._fields import columns_of_cells as columns_of_cells
from ._fields import is_cell as is_cell
from ._fields import is_row_of_letters as is_row_of_letters
from ._fields import plain as plain
