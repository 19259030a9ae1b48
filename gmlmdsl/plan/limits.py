"""The limits of exact work, which other packages share, and the limits and the tuning of plans."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """Limits of exact work."""

    values: float = 2.0**20  # joint values of one block that are enumerated
    terms: float = 2.0**28  # factor evaluations for one block
    bytes: float = 2.0**30  # memory of one computation
    flops: float = 1e10  # operations of one contraction
    states: float = 2.0**13  # configurations of a transition matrix
    support: int = 4096  # distinct masks over which a loss averages
    row_gaps: float = 2.0**22  # factor evaluations that sum out the missing cells of one row
    # factor evaluations that sum out the missing cells of all rows of a fit
    all_gaps: float = 2.0**26
    row_hidden: float = 2.0**28  # table entries of the eliminations of one row
    # table entries of the eliminations of all rows that are summed at once
    all_hidden: float = 2.0**33
    held: float = 2.0**32  # bytes of the draws, chains, copies or drawn masks of one call
    redraws: float = 1e13  # cells that the chains of one call redraw, counted with repetition


BUDGET = Budget()

# Enumeration or elimination.
FEW_VALUES = 256.0  # joint values of a block that are enumerated without a search for an order
TABLE_COST = 8.0  # evaluations of factors that cost as much as one table entry of an elimination
# joint values of a block that are enumerated in a loss, so that local statistics are available
MOST_LISTED_VALUES = 1 << 10
MOST_PARALLEL = 256  # blocks of an update that are redrawn independently, one after another
# extra joint values that a class of terms may enumerate in order to save the compilation of one
# class
WORTH_COMPILING = 1 << 17
# Classes of terms. Each is compiled separately, so their number must not grow with the rows.
MOST_CLASSES = 8

# The order of an elimination.
MOST_CORE = 20_000  # cells on cycles for which an order is searched one by one
MOST_COMPARED_CELLS = 2_000  # such cells for which two orders are compared
WORTH_FEWER_LEVELS = 1.5  # An order with fewer levels may take this many times more work.
DEAR_OPERATIONS = 2.0**22  # Operations of an order above which further orders are tried.
# pairs of neighbours of one cell, over all cells, that the search for the fewest new pairs may
# compare at first
MOST_FILLED = 1_000_000
# An order of the fewest new pairs replaces the greedy one if it takes at most this share of its
# operations.
CHEAPER_SHARE = 0.5

# Stages of an elimination.
SMALL_LEVEL = 1 << 12  # padded table entries of a level that cost less than starting its operations
# A level with more table entries is a separate stage, so that its memory can be released.
LARGE_LEVEL = 1 << 16
MOST_ALONE = 200  # number of levels above `LARGE_LEVEL`; if there are more, they are joined
# Up to this number, levels are joined only if this adds little padding: few levels compile fast.
FEW_LEVELS = 16
LITTLE_WASTE = 1.5  # padded entries for each real one that count as little
MOST_LEVEL_WASTE = 4.0  # padded entries for each real one
MOST_CHILDREN = 4  # messages into the same axes of one table that are listed side by side
# The sum over an axis with at most this many values is unrolled. Tables above `LARGE_LEVEL` are
# then never held as a whole.
MOST_WRITTEN_OUT = 4

# One loop in place of stages.
# Stages and kinds of messages are compiled one by one. If there are more of them than this, one
# loop serves all.
MOST_STAGE_KINDS = 16
# One loop also serves all steps up to this number of table entries, because it compiles faster than
# stages, unless there are only `FEW_KINDS` kinds.
FEW_LOOP_ENTRIES = 2.0**12
# Number of kinds up to which stages are used. A chain of equal cells has two: one kind of stage and
# one kind of message. Over many rows, a loop takes far longer than this stage.
FEW_KINDS = 2
# Beyond this number of table entries there is no loop, because a loop holds all messages at once.
MOST_LOOP_ENTRIES = 2.0**27
# Limit on the entries of a loop for each real entry. Each axis has as many values as the largest
# cell.
MOST_PADDED = 16.0
SOURCES = 4  # terms of a table; if there are more, some are summed first
TURN_ENTRIES = 500  # entries of messages that cost as much as starting an iteration
PICKED = 8  # number of cells whose values one iteration picks
MOST_LOOP_PLACES = 2**31 - 1  # Places are numbered in 32 bits; `MOST_LOOP_ENTRIES` is far below.

# Tables of factors.
# numbers that are compared in order to find equal factors or cells; if there are more, each is
# stored
MOST_COMPARED_ENTRIES = 1 << 24
ENTRIES_AT_ONCE = 1 << 20  # table entries whose parameters are found at once
MOST_GROUP_ENTRIES = 1 << 24  # entries of the tables of one group of factors
MOST_BLOCK_PLACES = 1 << 25  # index entries of one set of blocks
MOST_USES = 1 << 21  # Uses of factors by blocks: memory for finding contexts grows in proportion.
# A dense matrix is faster than single products if the number of its products is at most this number
# times the number of factors.
DENSE_RATIO = 32
TREE_PRODUCTS = 8.0  # products that cost as much as one evaluation of a factor's tree
MOST_KEY = 2.0**62  # The cells of a context, encoded as one number, stay below this limit.
MOST_PAIR_TERMS = 1 << 26  # terms of tables of pairs: entries times pairs of their factors
MOST_EDGE_ENTRIES = 1 << 25  # entries of the tables of all edges that a percolation opens
SYMMETRY_POINTS = 3  # points in parameter space at which symmetries are tried

# Partial sums as cells.
# Partial sums are considered if a factor's cells have more joint values than this.
LEAST_VALUES = 1 << 12
# If a product of probabilities has more partial products, two values replace them: either all terms
# up to a place hold, or one of them does not.
MOST_PRODUCTS = 1 << 6
MOST_OUTSIDE = 1 << 10  # joint values of the cells of the factor that are not part of the sum
MOST_SUMS = 1 << 13  # distinct values of a partial sum
MOST_TERM_VALUES = 1 << 10  # joint values of the cells of one term
# If the tables of a chain of partial sums have fewer entries, the chain has no links.
LEAST_CHAIN = 1 << 22
# The same for sums that can be arranged as a tree, whose few levels compile in a seventh of the
# time (60 bits, with the gradient).
LEAST_TREE = 1 << 12
CHEAPER_LINKS = 2  # Links take the place of tables that have this many times more entries.

# Sweeps by tables.
# Colours of different sizes are run by one scan if, after padding, the number of places is at most
# this number times the number of blocks.
MOST_COLOUR_WASTE = 2
# A product with all cells is faster than lists of neighbours if the number of cells is at most this
# number times the number of neighbours.
MOST_BESIDE = 4
# Entries up to this size lose no significant digits in the differences of a product in 32 bits.
MOST_ENTRY = 100.0
MOST_DIFFERENCE = 1e4  # the corresponding size for lists, which add few entries
MOST_PRODUCT_PLACES = 1 << 24  # index entries of one product
MOST_LIST_PLACES = 1 << 26  # index entries of lists
MOST_PLANNED_CELLS = 1 << 17  # cells that are planned at once
# Sums of scores are limited to this absolute value. Exponentials in 32 bits, and sums of thousands
# of them, then stay between 1e-35 and 1e38.
MOST_EXPONENT = 80.0
MOST_WRITTEN = 128  # comparisons and exponentials of one neighbour that are unrolled

# Packed chains.
BITS = 24  # random binary digits of each cell, which are compared with its probabilities
MOST_STRENGTHS = 4  # different strengths of the couplings of a colour
MOST_COMBINATIONS = 32  # combinations of a class and counts: each is one operation for every digit
# cells that are examined first: too many strengths among them end the search
PACKING_SAMPLE = 1 << 12
PACKING_AT_ONCE = 1 << 16  # cells that are examined together

# Symmetries and forced values.
ALIKE = 1e-9  # Entries are equal if they differ by less than this share of the largest entry.
MOST_EXCHANGES = 1 << 14  # partial exchanges that a search examines
MOST_PAIRINGS = 64  # exchanges of values in pairs that are used
# limit on the values of all factors together, whose zeros show which cells are forced
MOST_FORCED_VALUES = 1 << 22
MOST_JOINED = 1 << 11  # cells among which sets of cells with different values are sought
# Limits on the table entries that probes of single values read: in total, and since a value was
# last excluded.
MOST_PROBED, MOST_PROBED_IN_VAIN = 1 << 29, 1 << 24
READ_PER_TABLE = 1 << 12  # entries whose reading takes as long as the beginning of a table

# Checks of a program with its inputs.
# limit on the cells of a model that a check lowers, and on the members of an index that it tries
MOST_CHECKED_CELLS = 10_000
# entries of index arrays, and values of cells that are tried: these take about 0.1 s
MOST_CHECK_WORK = 6_000_000.0
PER_PART = 2000.0  # the fixed cost of each part of an expression, in the same unit
MOST_CHECKED_TEXT = 100_000  # Programs whose files have more characters are not bound.
MOST_CHECKED_EDGES = 100_000  # Graphs with more nodes and edges are left out.

# Warnings.
# joint values, and visits of the decoder, up to which W828 states a number
MOST_LINTED_STATES = 1 << 10
MOST_LINTED_TURNS = 100_000  # turns of the loops of a factor that are examined for dead branches
MOST_LINTED_ENTRIES = 64  # entries of parameters among which a redundant direction is searched for
MOST_LINTED_VALUES = 1 << 14  # values of all factors that contain these entries
# limit on the number of evaluated factors times the number of these entries
MOST_LINTED_TABLES = 2000
# share of the largest weight, or absolute size, below which a number counts as 0
NEGLIGIBLE = 1e-9
RANK_ERROR = 1e-7  # singular values below it, relative to the largest entry, count as 0
MOST_LINTED_JOINT = 1 << 12  # configurations of cells that are tried against the requirements
MOST_LINTED_INSTANCES = 400  # instances of `require`, and of factors, that are examined
MOST_LINTED_BLOCKS = 20_000  # cells of requirements, and blocks of a sampler, that are compared
