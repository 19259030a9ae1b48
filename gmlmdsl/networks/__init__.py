"""In: `NetworkForm`, a key. Out: Equinox modules: functions of one row, from cells that are seen to logits. Never: masks, data."""

from ._build import build_network, network_shapes, parameter_counts, parameter_parts
from ._network import AbstractCausalNetwork, AbstractLengthHead, AbstractNetwork, Attention
from ._probe import Probe
from ._warm_start import with_weights_of
