"""What conditional models do: their loss, tables and matrices, training, decoding."""

from ._attention import attention_dependency as attention_dependency
from ._candidates import Decoding as Decoding
from ._candidates import length_coverage as length_coverage
from ._decoded_draws import Decodes as Decodes
from ._decoding import decode as decode
from ._decoding import draw_rows as sample
from ._network_fit import NetworkFit as NetworkFit
from ._network_fit import NetworkOptions as NetworkOptions
from ._network_fit import fit as fit
from ._network_fit import network_fit_from_file as network_fit_from_file
from ._network_params import verified_params as verified_params
from ._network_queries import attention as attention
from ._network_queries import counts as counts
from ._network_queries import init_params as init_params
from ._network_queries import log_conditional as log_conditional
from ._network_queries import log_prob as log_prob
from ._network_queries import loss as loss
from ._network_queries import tables as tables
from ._network_queries import transition_matrix as transition_matrix
from ._network_queries import verify_causal as verify_causal
from ._stutter import drop_repeats as drop_repeats
from ._stutter import stutter_counts as stutter_counts
from ._stutter import stutter_rate as stutter_rate
from ._stutter import stutters as stutters
from ._training_options import Training as Training
from ._training_options import training_of as training_of

__all__ = ["sample"]
