"""Decodes and chains of trained networks.

In: a trained network, rows of given data. Out: decodes and chains with names; stutter and
attention. Never: training.
"""

from __future__ import annotations

from . import _decoding as decoding
from ._candidates import CodeRows, Decoding, candidates_of, given_entries, length_coverage
from ._decoded_draws import Decodes
from ._decoding import RowDecoder, decoding_work, refuse_prompt, row_decoder
from ._stutter import attention_dependency, drop_repeats, stutter_counts, stutter_rate, stutters
