"""The limits and the tuning of derived functions."""

from __future__ import annotations

# Compiled programs that are kept.
MOST_PROGRAMS = 128  # programs that are kept; a fit uses three
# memory mappings of the process: half of the number that Linux grants by default
MOST_MAPPINGS = 2**15
MOST_GONE = 256  # programs released between two clearings of JAX's caches of traces

# Shapes that are compiled separately; more of them raise an error.
MOST_COMPILED_SETS = 32  # sets of blocks of a loss
MOST_BLOCK_SHAPES = 32  # shapes of the blocks of an update

# Exact work on the host; more of it raises an error.
# for the matrix of a percolation: number of pairs of a set of cells and a subset of it, times the
# number of configurations
MOST_CLUSTER_WORK = 4e9
# configurations of a chain whose exact bias is computed: a linear system of this size is solved
MOST_BIAS_STATES = 2048

# Memory.
# Derivatives of scores held at once. An equal number of weighted derivatives is held too. Together
# they take 1 GiB.
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
# If tables of one shape have at least this number of factor evaluations, their factors are added
# one after another.
LEAST_FACTORS_IN_TURN = 1 << 20
MOST_UNROLLED = 8  # joint values of a block that are evaluated one by one in unrolled code
# If sets have more table entries than this on average, entries are read by index. Otherwise they
# are multiplied by a matrix of zeros and ones.
MOST_ZEROS = 32

# Random picks.
# number of values up to which values are split twice, by the two words of one draw
MOST_SPLIT_TWICE = 9
# Number of values up to which values are split three times in code that is written out. The code is
# one loop over draws, without an array of values in it.
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
# sizes of two axes before those of a row, with which functions of Python are tried
TRIED_LEADING = (5, 7)
