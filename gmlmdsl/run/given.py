"""Data of given variables."""

from ._given import bound_mask as bound_mask
from ._given import bound_once as bound_once
from ._given import bound_rows as bound_rows
from ._given import encode_given as encode_given
