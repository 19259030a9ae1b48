"""Exact answers, for the model's verbs and the checks of fits."""

from ._exact import Contractions as Contractions
from ._exact import best as best
from ._exact import configuration as configuration
from ._exact import log_partition as log_partition
from ._exact import marginals as marginals
from ._exact import next_symbol as next_symbol
from ._exact import prefix_codes as prefix_codes
