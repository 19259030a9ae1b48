"""Re-exports of `_data`."""

from ._data import Data as Data
from ._data import clamped_cells as clamped_cells
from ._data import decode as decode
from ._data import encode as encode
from ._data import is_number as is_number
from ._data import stated_missing as stated_missing
