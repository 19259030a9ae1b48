"""In: `FactorGraph`. Out: how to sum and draw, and at what cost. Never: JAX."""

from ._elimination import Elimination as Elimination
from ._elimination import plan_elimination as plan_elimination
from ._lints import lint_sizes as lint_sizes
from ._lints import moved_cells as moved_cells
from ._mask_use import MaskPlan as MaskPlan
from ._mask_use import mean_size as mean_size
from ._mask_use import plan_use as plan_use
from ._plan import BUDGET as BUDGET
from ._plan import BlockPlan as BlockPlan
from ._plan import Budget as Budget
from ._plan import plan_block as plan_block
from ._plan import touching_factors as touching_factors
from ._plan import verify_affordable as verify_affordable
from ._updates import ParallelPlan as ParallelPlan
from ._updates import RandomPlan as RandomPlan
from ._updates import SweepPlan as SweepPlan
from ._updates import UpdatePlan as UpdatePlan
from ._updates import plan_mask as plan_mask
from ._updates import plan_update as plan_update
from ._updates import repeat_count as repeat_count
from ._updates import sweep_blocks as sweep_blocks
from ._updates import update_line as update_line
from ._updates import verify_positive as verify_positive
