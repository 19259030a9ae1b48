"""The limits and the tuning of objectives and of answers at given parameters."""

from __future__ import annotations

# Plans and contractions.
MOST_KEPT = 8  # number of patterns of known cells whose contractions are cached
# Number of table entries up to which summing the contraction of all cells is quicker than compiling
# a contraction of fewer cells.
CHEAP_ENTRIES = 1 << 20
# Estimated time that a model spends in NumPy before its sums are compiled. A compilation takes one
# to ten seconds. So a model that is evaluated a few times is not compiled, and a model that is
# evaluated often loses a few seconds.
HOST_SECONDS = 3.0

# Elimination in NumPy.
# Time of one step on one core, including the time to find its place in the plan. This time and the
# next two decide between this engine and a compiled one. On the networks of
# `tests/benchmarks/bayesian.py` the estimates from these times are up to three times the measured
# times.
STEP_SECONDS = 5e-5
FACTOR_SECONDS = 5e-6  # Time of one factor on one core.
ENTRY_SECONDS = 1.5e-8  # Time of one table entry on one core.
# A sum over more entries than this is computed in NumPy if it is for one row, however often it is
# repeated. A compiled program takes about the same time for each entry, and in addition seconds to
# compile.
MANY_ENTRIES = 1 << 24
# The largest number of table entries of all factors. If there are more, compiled programs evaluate
# them.
MOST_TABLED = 1 << 21
LAW_PASSES = 3  # time of marginals, in units of the time of log Z
MOST_HOST_ROWS = 64  # If there are more rows, log p is compiled.

# Answers.
MOST_CHECKED = 256  # sums in a search for known cells that contradict each other
# Maximum number of values of a joint distribution. The joint values of all cells but the last are
# rows of one call.
MOST_JOINT = 1 << 12
# Fraction of the largest allowed factor. A sum below it leaves enough digits for the factors of the
# clamped cells.
SPARE_FRACTION = 1 / 1024

# Approximate answers.
# The largest number of table entries of all factors: 256 MiB, of which a few copies are made.
MOST_APPROXIMATED = 1 << 25
# Maximum number of table entries of all factors that annealing reads. Above it, annealing evaluates
# large factors directly, because building their tables would take longer.
MOST_ANNEALED = 1 << 19
LARGE_FACTOR = 1 << 16  # A factor is large if its table has more entries.
PROBES = 32  # Configurations at which the changes of such factors are measured.
TABLES_AT_ONCE = 1 << 15  # The table entries of factors whose messages are computed together.
SUBTRACTED = 1e3  # Sums of messages up to here are split by subtraction, whose error is about 1e-13.
# Added to log p to break ties between equally probable values, in units of the largest factor.
TIE_BREAK = 1e-11
DESCENTS = 10_000  # The largest number of sweeps of a greedy descent.
COLDEST = 1e3  # The largest ratio of the last beta of annealing to the first.

# Losses and their parameters.
MOST_HELD_TERMS = 1 << 18  # factor evaluations held at once, so that they stay in the CPU cache
MOST_MASKS = 2**20  # masks over which a loss is averaged
MANY_PRODUCTS = 1 << 24  # products in one evaluation above which running time outweighs compilation time
# limit on pairs of a pattern of missing cells and a mask, whose terms are enumerated
MOST_PATTERN_MASKS = 4e6
MOST_HIDDEN_ENTRIES = 1 << 22  # table entries of hidden cells held at once
# Largest error of a simplex row's sum, which allows for rounding and gradients by finite
# differences.
SIMPLEX_ERROR = 1e-3
# Standard deviation of the noise in the initial values of a model with latents. Without noise,
# latent values with equal parameters would stay equal.
START_NOISE = 0.01
# The spacing of neighbouring floats at the largest allowed factor. A number added to a float of
# that size is rounded to a multiple of the spacing.
MAGNITUDE_SPACING = 0.125
MOST_CHECKED_ROWS = 64  # rows with separate masks whose size is checked

# Second order.
MOST_HELD_STATISTICS = 1 << 22  # numbers of a block's statistics held at once
MOST_HELD_SCORES = 1 << 24  # numbers of the rows' scores held at once
# Limit on the scores of all blocks. The approximate inverse Hessian contains a square matrix with a
# row for each score.
MOST_METRIC_SCORES = 1 << 12
MOST_METRIC_USES = 1 << 25  # limit on the pairs of a score and a parameter that it uses
# Largest number of scores that use one parameter, or of parameters that one score uses, as a
# multiple of the mean number.
MOST_UNEVEN = 4.0
# Ratio of the largest to the smallest f (1 - f), where f is the frequency of a value. Above this
# ratio, the values with the smallest f (1 - f) count as rare.
RARE_CURVATURE = 4.0
# Fraction of the curvature at the mean scores that is added to the diagonal of the approximate
# Hessian. The diagonal is then not 0 without a prior.
ADDED_CURVATURE = 1e-2

# Rows of one call.
# sizes of calls; more rows are evaluated by several calls of the last size
CALL_SIZES = (1, 64, 1024)
LARGE_CALL = 1 << 14  # size of calls for more rows than this
MOST_EVALUATED = 1 << 24  # factor evaluations, or table entries, of one call
WORTH_MERGING_ROWS = 0.8  # largest fraction of distinct rows for which merging pays

# Networks and decoders.
MOST_OPERATIONS = 1e15  # operations of one loss
MOST_LOGITS = 1 << 24  # logits held at once, and entries of a table of conditionals
MOST_ATTENTION_WEIGHTS = 1 << 28  # attention weights of one call
# Rows of one compiled call of a network or decoder. More rows are evaluated in pieces, so that few
# sizes are compiled.
ROWS_PER_CALL = 256
# Number of passes per draw up to which all passes are enumerated, without any sampling error.
WORTH_ENUMERATING = 8

# Other answers.
PAIR_DERIVATIVES_AT_ONCE = 1 << 22  # derivatives of pair interactions held at once
# configurations of a model for which the connectivity of block dynamics is decided
MOST_LINKED_STATES = 4096
MOST_LINKS = 1 << 22  # configurations times blocks of the mask
SIBLING_CELLS = 12  # A sibling has at least this many free cells, if the model has as many.
GAP_ROUNDING = 1e-5  # share of the best log p below which the gap of a mode counts as rounding
LEVEL = 0.94  # default probability of intervals
SHOWN_EFFECTS = 10  # number of printed rows

# Printed marginals.
MOST_PRINTED_ROWS = 20  # rows of each variable; a notebook or a terminal shows only a few more
MOST_COLUMNS = 30  # Variables of more values print the shape of their array.
