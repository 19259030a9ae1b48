"""The limits and the tuning of binding and lowering."""

from __future__ import annotations

# Sizes of a program; larger ones raise an error.
# Limit on the members of a range of integers, on the size of a set, and on the integers of an
# index.
MOST_MEMBERS = 1 << 27
MOST_GRAPH_SIZE = 50_000_000  # nodes, and edges, of a graph that a program declares
MOST_CELLS = 1 << 26  # cells of a model, and entries of one array of parameters or data
# iterations of a loop of a sampler or a mixture; each is a separate statement
MOST_REPEATS = 10_000
MOST_AXES = 24  # sums and names with moving indices that are nested in one another
MOST_INDEX_ENTRIES = 1 << 27  # entries of one index array: 1 GiB at 8 bytes each
# values of the factors of a model in use, enumerated over all its configurations
MOST_NORMALISED = 1 << 22
MOST_CHOSEN_MEMBERS = 1 << 24  # entries of a table of members that cells choose
# The largest absolute value of a bound that is known. It is below the largest 32-bit float.
MOST_RANGE = 1e37

# Whole numbers.
MOST_EXACT = 1 << 24  # A 32-bit float holds every integer up to it.
# Integers, and estimates of integers, below it fit into 64 bits whatever the rounding error.
SAFE_INTEGER = 2.0**62
SAFE_OPERAND = 1 << 31  # Sums and products of two integers below it fit into 64 bits.

# Values that are tried before work begins.
# limit on the joint values of the cells of an index, of a table or of a weight; each of them is
# tried
MOST_TRIED_VALUES = 1 << 22
# values of an index or a weight that are evaluated at once, over all instances
TRIED_AT_ONCE = 1 << 22
# joint values of the cells of a factor that are tried for infinite ones: some tenths of a second
MOST_TRIED_JOINT = 1 << 20
# joint values of a factor, over all instances, that are tried at once
TRIED_JOINT_AT_ONCE = 1 << 18
# values of one group that are evaluated at given parameters: some tenths of a second
MOST_EVALUATED_VALUES = 1 << 24
# Arguments of a prior are tried at these shares of the way between a parameter's bounds.
TRIED_SHARES = (0.02, 0.3, 0.7, 0.98)
# rounding error within which a number of cells, or a share of the passes, counts as whole
PASS_ROUNDING = 1e-6

# Lists in messages.
MOST_SHOWN_PAIRS = 3  # pairs of nodes that a message lists
MOST_SHOWN_EDGES = 4  # edges that a message lists
MOST_NAMED_CELLS = 4  # cells that a message names

# Tuning.
MOST_SUMMANDS = 64  # terms into which a factor is split: each is a group of factors
PAIRS_AT_ONCE = 1 << 23  # pairs of cells of one factor that are collected at once
# waves of cells that are coloured at once; each wave above this number must have `CELLS_PER_WAVE`
# cells on average
FEW_WAVES = 4096
CELLS_PER_WAVE = 16  # cells that are coloured one by one in the time of a wave
