"""The limits and the tuning of derived functions."""

from __future__ import annotations

# Compiled programs that are kept.
MOST_PROGRAMS = 128  # programs that are kept; a fit takes three
# memory mappings of the process: half of the number that Linux grants by default
MOST_MAPPINGS = 2**15
MOST_GONE = 256  # programs released between two clearings of JAX's caches of traces

# Shapes that are compiled separately; more of them raise an error.
MOST_COMPILED_SETS = 32  # sets of blocks of a loss
MOST_BLOCK_SHAPES = 32  # shapes of the blocks of an update

# Exact work on the host; more of it raises an error.
# pairs of a set of cells and a subset of it, times configurations, of a percolation's matrix
MOST_CLUSTER_WORK = 4e9
# configurations of a chain whose exact bias is computed: a linear system of this size is solved
MOST_BIAS_STATES = 2048

# Memory.
# Derivatives of scores held at once. As many weighted derivatives are held beside them: 1 GiB for
# both.
MOST_DERIVATIVES = 1 << 26
MOST_HELD_VALUES = 1 << 18  # joint values held at once
MOST_HELD_ENTRIES = 1 << 22  # table entries held at once
ENTRY_BYTES = 16.0  # bytes of a table entry and its gradient

# Sums of factors.
# From this number of scores on, instances are added one after another. Each addition is then a
# vectorised loop that stays in the cache, whereas a sum along an axis of instances is not
# vectorised and does not stay in the cache. For fewer scores the start of the loop costs more than
# it saves.
LEAST_SCORES_IN_TURN = 4096
# From this number of factor evaluations of tables of one shape on, their factors are added one
# after another.
LEAST_FACTORS_IN_TURN = 1 << 20
MOST_UNROLLED = 8  # joint values of a block that are evaluated one by one in unrolled code
# Sets with more entries than this on average are indexed, not multiplied by zeros and ones.
MOST_ZEROS = 32

# Random picks.
MOST_SPLIT_TWICE = 9  # values that are split twice, by the two words of one draw
# Up to this number, values are split three times in code that is written out: one loop over draws,
# without an array of values in it.
MOST_SPLIT_THRICE = 27
MOST_MASKED = 64  # nodes of a level up to which one node is read by comparisons

# Sweeps.
# hashes of packed chains that are written out; more of them take long to compile
HASHES_UNROLLED = 6
# cells of a turn of packed chains; with this size its arrays stay in the cache
CELLS_PER_TURN = 1 << 14
FEW_NEIGHBOURS = 16  # up to this number, the loop over neighbours is written out
LEAST_SHARED = 1 << 12  # from this number of values of a colour on, several threads share them

# Numbers in place of infinite ones, and rounding.
STEEP = 1e18  # stands for an infinite derivative
# The cost of a bond that is certain: its exponential is 0 in 64 bits, and sums of such costs are
# finite.
CERTAIN_COST = 1e3
# the score of a value of probability 0; -infinity marks cells that no pass predicted
LEAST_SCORE = -1e4
# Probabilities, logits (relative to themselves) and confidences that differ by less count as equal:
# they are sums in single precision.
TIE_ROUNDING = 1e-5
TRIED_LEADING = (5, 7)  # axes before those of a row, with which functions of Python are tried
