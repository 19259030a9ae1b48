"""The package that plans how blocks and hidden cells are summed and drawn.

In: a `FactorGraph`. Out: plans of how to sum and draw, and their costs. Never: JAX.
"""

from ._block_tables import BlockTables, GraphTables, block_arrays, size_classes
from ._bound_faults import plan_temper, sound_model, with_others
from ._check_size import Kept as Kept
from ._check_size import check_bound
from ._clusters import Bonds, ClusterPlan, no_loss, plan_clusters
from ._elimination import Elimination, plan_elimination
from ._forced import searched, with_forced
from ._gaps import GapPlan, GapTerms, affordable_rows, gap_terms, plan_completions, plan_gaps, verify_gaps
from ._hidden import HiddenPlan, is_whole, plan_hidden, plan_sum
from ._lints import lint_conditional, lint_sizes, verify_moves_all
from ._loop import Loop, plan_loop
from ._loss_blocks import (
    MaskPlan,
    alike_blocks,
    is_large,
    plan_counted,
    plan_drawn,
    plan_loss_blocks,
    plan_summed_blocks,
    plan_use,
    support_blocks,
)
from ._memory import sum_memory, verify_held
from ._packing import Packing, packing
from ._pair_tables import PairTables, plan_pair_tables
from ._partial_sums import keeps_maxima, with_partial_sums
from ._plan import BlockPlan, is_affordable, plan_block, verify_affordable
from ._prefixes import PrefixPlan, plan_instead, plan_prefixes
from ._shared_copies import SharedCopies, plan_copies, whole_copies
from ._stages import Stage
from ._stages import places as step_places
from ._sweep_layout import (
    Exceptions,
    ScoreForm,
    SweepLayout,
    SweepTables,
    TabledColours,
    every_entry,
    loses_digits,
    plan_layout,
    score_form,
)
from ._table_entries import FactorTable, entries_at, entry_parameters, entry_values
from ._tables import FactorTables, TableUse, factor_tables, place_factors
from ._updates import (
    ParallelPlan,
    RandomPlan,
    SweepPlan,
    UpdatePlan,
    listed_blocks,
    plan_mask,
    plan_update,
    repeat_count,
    row_weights,
    sweep_blocks,
    update_line,
    verify_positive,
)
from .limits import BUDGET, Budget
