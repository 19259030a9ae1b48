"""Evaluate objectives and exact answers of a model at given parameters.

In: derived functions, data, parameters. Out: objectives, conditionals, exact and approximate
answers, second-order sums. Never: minimising over parameters, draws.
"""

from __future__ import annotations

from . import _approximate_answers as approximate
from . import _decoder_bounds as decoder_bounds
from . import _exact_answers as exact
from . import _named_conditionals as named_conditionals
from . import _network_queries as network_queries
from . import _parameters as parameters
from ._approximation_methods import (
    BeliefPropagation,
    Chains,
    MaxProduct,
    MeanField,
    Mode,
    SimulatedAnnealing,
    approximation_method,
    configuration,
    marginal_method,
    mode_method,
)
from ._colouring import Colouring, colouring
from ._contractions import Contractions
from ._copied_objectives import BlockObjectives, JointObjective, block_cells, block_objectives, block_weights_of_rows, copies_of_blocks
from ._decoder_bounds import DenoisedRows, Estimate, LogProbBound, bits_per_cell
from ._effects import Effects, substitution_effects
from ._exact_answers import independent_kernel, known_rows, log_sums
from ._intervals import intervals, verified_level, verified_quantile
from ._magnitude import verified_partition
from ._marginals import Marginals
from ._metric import Metric, metrics
from ._missing import (
    Missing,
    Sorted,
    ignored_rows,
    log_completions,
    reported,
    sort_rows,
    summed_loss,
    traced_completions,
    verify_ignored,
    verify_latents,
    verify_present,
)
from ._network_queries import mask_loss, verified_count, verify_known
from ._objective import (
    Frame,
    MaskUse,
    Objective,
    Repeats,
    chunk_rows,
    counted_mean_size,
    degree,
    draw_masks,
    finite,
    gradient_at,
    is_affine,
    is_convex,
    make_loss,
    masks_per_row,
    mean_block_size,
    reached_cells,
    value_at,
)
from ._pair_interactions import interaction_slopes, pair_interactions, pair_sums, zero_sum
from ._parameters import (
    as_params,
    batched_params,
    bijection,
    entry_names,
    flatten,
    free_basis,
    given_params,
    in_support,
    init_params,
    known_params,
    on_gauge,
    read_layers,
    slopes,
    tangent,
    unconstrained_moves,
    unflatten,
    verified_params,
    verified_probes,
    verify_all,
    verify_defined,
    verify_names,
)
from ._prefixes import next_symbol, prefix_codes
from ._priors import (
    DENSITIES,
    SPIKE_SLAB,
    density_of,
    has_kinks,
    has_proper_prior,
    laplace_priors,
    log_hyperpriors,
    log_prior,
    log_prior_of,
    verify_bounded_priors,
    verify_densities,
)
from ._revealing import is_reducible, revealed_cells
from ._row_sizes import answer, distinct_rows, log_potentials, over_rows
from ._second_order import Sums, differences, gap_second_order, one_mask_moments, second_order
from ._siblings import ApproximationGap, marginal_gap, mode_gap, siblings
from .limits import LEVEL, MANY_PRODUCTS, SIMPLEX_ERROR
