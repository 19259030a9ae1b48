"""In: `NetworkForm`, a key. Out: Equinox modules: functions of one row, from cells that are seen to logits. Never: masks, data."""

from ._build import build_network as build_network
from ._build import network_shapes as network_shapes
from ._build import parameter_counts as parameter_counts
from ._build import parameter_parts as parameter_parts
from ._network import AbstractCausalNetwork as AbstractCausalNetwork
from ._network import AbstractLengthHead as AbstractLengthHead
from ._network import AbstractNetwork as AbstractNetwork
from ._network import Attention as Attention
from ._probe import Probe as Probe
from ._warm_start import with_weights_of as with_weights_of
