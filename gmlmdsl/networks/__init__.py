"""The package of neural networks: functions of one row, from visible cells to logits.

It takes a `NetworkForm` and a key, and returns Equinox modules. It knows neither masks nor data.
"""

from ._build import build_network, network_shapes, parameter_counts, parameter_parts
from ._network import AbstractCausalNetwork, AbstractLengthHead, AbstractNetwork, Attention
from ._probe import Probe
from ._warm_start import with_weights_of
