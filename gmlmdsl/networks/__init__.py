"""The package of neural networks: functions of one row, from visible cells to logits.

In: a `NetworkForm` and a key. Out: Equinox modules. Never: masks, data.
"""

from ._build import build_network, network_shapes, parameter_counts, parameter_parts, with_weights_of
from ._causal import Probe
from ._encoder_decoder import AbstractEncoderDecoder, shortlisted
from ._network import AbstractCausalNetwork, AbstractLengthHead, AbstractNetwork, Attention
from ._reduced import AUTO, FLOAT32, PRECISIONS, fastest, reduced, verify_precision
