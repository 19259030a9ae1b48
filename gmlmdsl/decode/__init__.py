"""In: a trained network, rows of given data. Out: decodes and chains with names; stutter and attention. Never: training."""

from __future__ import annotations

from . import _decoding as decoding
from ._attention import attention_dependency as attention_dependency
from ._candidates import Decoding as Decoding
from ._candidates import Work as Work
from ._candidates import candidates_of as candidates_of
from ._candidates import given_entries as given_entries
from ._candidates import length_coverage as length_coverage
from ._decoded_draws import Decodes as Decodes
from ._decoding import decoding_work as decoding_work
from ._decoding import refuse_prompt as refuse_prompt
from ._stutter import drop_repeats as drop_repeats
from ._stutter import stutter_counts as stutter_counts
from ._stutter import stutter_rate as stutter_rate
from ._stutter import stutters as stutters
