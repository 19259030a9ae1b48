"""In: `FactorGraph` and plans. Out: pure JAX functions: energies, conditionals, losses, kernels. Never: data, user faults in the text."""

from ._arrays import Blocks as Blocks
from ._arrays import Graph as Graph
from ._arrays import drawn_blocks as drawn_blocks
from ._arrays import fixed_blocks as fixed_blocks
from ._arrays import float_type as float_type
from ._arrays import graph_arrays as graph_arrays
from ._arrays import group_arrays as group_arrays
from ._conditional import log_conditional as log_conditional
from ._energy import all_values as all_values
from ._energy import log_potential as log_potential
from ._kernels import AbstractKernel as AbstractKernel
from ._kernels import Info as Info
from ._kernels import State as State
from ._kernels import Target as Target
from ._loss import DrawnLoss as DrawnLoss
from ._loss import ExactLoss as ExactLoss
from ._loss import exact_loss as exact_loss
from ._loss import loss_terms as loss_terms
from ._mask_law import mask_law as mask_law
from ._mask_law import weight_groups as weight_groups
from ._partition import log_partition as log_partition
from ._samplers import Planned as Planned
from ._samplers import build_kernel as build_kernel
from ._samplers import plan_mask as plan_mask
from ._transitions import Transitions as Transitions
from ._transitions import all_states as all_states
