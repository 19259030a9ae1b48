"""Pure JAX functions that are derived from plans.

In: `FactorGraph` and plans. Out: pure JAX functions: energies, conditionals, losses, kernels.
Never: data, user faults in the text.
"""

from . import compiled
from ._abstract_loss import AbstractLoss
from ._arrays import Blocks, Graph, Group, fetched, fixed_blocks, float_type, graph_arrays, group_arrays, no_joint, on_device, room_for
from ._autoregressive import AbstractPrefixes, AutoregressiveKernel, BeamRows, BeamSearch, Search, SearchRules, search_rules
from ._block_tables import (
    Chunks,
    Table,
    TableCurvature,
    TabledBlocks,
    Tables,
    Weights,
    block_weights,
    mean_indicators,
    table_codes,
    table_curvature,
    tabled_losses,
)
from ._bounded_jit import bound_jit, bounded_jit, compiled_only, mappings, quickly_compiled, under_automatic_mesh
from ._conditional import log_conditional
from ._contraction import Contraction, contraction
from ._elimination_kernels import IndependentKernel, ancestral_kernel
from ._energy import all_values, local_scores, log_potential
from ._kernel import AbstractKernel, Info, State, Target
from ._kernels import TemperKernel
from ._listed import ListedRows, listed_rows, listed_second_order, log_marginal
from ._loop import maximum
from ._loss import DrawnLoss, ExactLoss, as_listed, drawn_loss, exact_loss
from ._mask_law import AbstractMaskLaw, mask_law
from ._membership import noisy_mask, random_ranks
from ._mesh import Device, Spread, Task, in_parts, of_all, of_first, placed, spread_of, spread_over
from ._network import (
    UNDEFINED,
    NetworkGraph,
    NetworkLoss,
    Networks,
    cell_tables,
    fixed_loss,
    negative_log,
    network_graph,
    undefined_outputs,
)
from ._network import encode as encode_rows
from ._network_kernels import AbstractDecoder, Decoded
from ._oracle import OracleGraph, oracle_graph
from ._packed_sweep import over_cells
from ._picks import accepted, exponential, levels_of, pick_token, token_words, whole_below
from ._prefix_oracle import (
    CausalOracle,
    CausalState,
    ContractedOracle,
    PrefixMachine,
    PrefixOracle,
    PrefixState,
    causal_oracle,
    contracted_oracle,
    finite,
    prefix_machine,
)
from ._random import Words, fold, fold_apart, keys_on_host, words_apart
from ._refinement import RefinementKernel, narrow, refinement_kernel, stuttering
from ._samplers import Planned, at_parameters, build, build_kernel, fresh, no_chain, single_site_sweep
from ._summed_loss import DrawnEliminatedLoss, EliminatedLoss, EnumeratedLoss, SummedRows, hidden_loss, hidden_rows, redraw_gaps
from ._sums import Forward, Inputs, backward, evidence, forward, inputs_of, laws, log_marginals, log_sum, rest_sum
from ._transitions import NetworkTransitions, Transitions, all_states, replica_matrix
from ._visits import VisitLaw, visit_law
from .limits import LEAST_SCORE
