"""The package that encodes the data of a call.

In: the data of a call, which are rows, given data, columns of files, and seeds.
Out: codes by cell, keys.
Never: losses, draws.
"""

from __future__ import annotations

from ._cell_names import column_labels
from ._clamp import cell_groups, clamped_cells, encode_prompts, evidence_factors, first_cells, likelihoods
from ._fields import Pieces, columns_of_cells, is_cell, is_row_of_letters, pieces_of, plain
from ._given_data import bound_dataset, bound_mask, bound_once, bound_rows, encode_given, in_row_order
from ._keys import MOST_SEED, fractions, generator, keys_of, picked, random_key, verified_key, verified_seed
from ._mock import invented, mock_given, mock_inputs
from ._network_rows import NetworkRows, bound_to_rows, bucket_of, given_arrays, network_rows, present_lengths, standard_widths, widths
from ._run_states import as_bytes, as_identity, from_bytes, hash_of_arrays, hash_of_computation, hash_of_text, identity_of_computation
from ._traced import at_once, evaluated, is_traced, verify_untraced, verify_untraced_leaves
from ._values import Data, decode, encode, in_cell_order, row_index, value_codes, verified_weights, whole_numbers
