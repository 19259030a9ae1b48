"""In: what a call hands over: rows, given data, columns of files, seeds. Out: codes by cell, keys. Never: losses, draws."""

from __future__ import annotations

from ._clamp import clamped_cells as clamped_cells
from ._fields import columns_of_cells as columns_of_cells
from ._fields import is_cell as is_cell
from ._fields import is_digits as is_digits
from ._fields import is_row_of_letters as is_row_of_letters
from ._fields import plain as plain
from ._given_data import bound_mask as bound_mask
from ._given_data import bound_once as bound_once
from ._given_data import bound_rows as bound_rows
from ._given_data import encode_given as encode_given
from ._given_data import in_row_order as in_row_order
from ._keys import MOST_SEED as MOST_SEED
from ._keys import generator as generator
from ._keys import keys_of as keys_of
from ._keys import random_key as random_key
from ._keys import verified_key as verified_key
from ._keys import verified_seed as verified_seed
from ._network_rows import NetworkRows as NetworkRows
from ._network_rows import bound_to_rows as bound_to_rows
from ._network_rows import bucket_of as bucket_of
from ._network_rows import given_arrays as given_arrays
from ._network_rows import network_rows as network_rows
from ._network_rows import present_lengths as present_lengths
from ._network_rows import standard_widths as standard_widths
from ._network_rows import widths as widths
from ._picks import fractions as fractions
from ._picks import picked as picked
from ._prompts import Prompts as Prompts
from ._prompts import encode_prompts as encode_prompts
from ._prompts import first_cells as first_cells
from ._traced import evaluated as evaluated
from ._traced import verify_untraced as verify_untraced
from ._traced import verify_untraced_leaves as verify_untraced_leaves
from ._values import decode as decode
from ._values import encode as encode
from ._values import in_cell_order as in_cell_order
from ._values import is_number as is_number
from ._values import row_index as row_index
from ._values import value_codes as value_codes
from ._values import verified_weights as verified_weights
from ._values import whole_numbers as whole_numbers
