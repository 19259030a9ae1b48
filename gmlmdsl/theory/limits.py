"""The limits and the tuning of theory."""

from __future__ import annotations

# Enumerated configurations.
MOST_STATES = 1 << 16  # configurations of a model
MOST_SCORES = 1 << 27  # limit on the entries of the scores, configurations by parameters
ROWS_AT_ONCE = 1 << 13  # configurations whose log p or scores are computed in one call
# Relative size of a score below which it is treated as constant, because it is rounding.
CONSTANT_SCORE = 1e-12
MOST_TABLE_ENTRIES = 1 << 26  # limit on the entries of the tables of one shape
MOST_DENSE = 2048  # limit on the configurations of a chain that is stored as a matrix

# Block dynamics.
MOST_BLOCKS = 1 << 16  # blocks of a mask
MOST_APPLIED = 2.0**33  # limit on configurations times blocks in one application
MOST_REPEATED = 2.0**35  # limit on configurations times blocks times functions
MOST_CACHED = 1 << 27  # limit on the entries of cached conditionals
# Limit on sets of cells times configurations for sums over supersets.
MOST_SUPERSET_SUMS = 1 << 22
CHANCES_AT_ONCE = 1 << 24  # entries of p(K | x) that are computed at once
EIGENVALUE_TOLERANCE = 1e-13  # tolerance of eigenvalues found by iteration
FIRST_VECTORS = 4  # number of vectors that are found at first
# Value of 1 - eigenvalue above which a vector does not mix with vectors whose eigenvalues are
# nearer to 1.
DISTINCT_GAP = 1e-8
LEAST_FORM = 1e-280  # smallest E(f, f)
FEWEST_PRODUCTS = 100  # smallest number of products of an iteration
SMALL_GAP = 1e-3  # gap below which 1 - eigenvalue has too few digits
LEAST_ROOT = 1e-60  # sqrt(p) below which a vector does not determine its function

# Mixing and hitting times.
MOST_MULTIPLICATIONS = 2.0**41  # limit on the multiplications of powers of a matrix
MOST_DIGITS = 52  # limit on the binary digits of a mixing time
MOST_STEPS = 1_000_000  # limit on the single steps of a chain too large for its matrix
GAP_ROUNDING = 1e-10  # gap below which the digits are lost, if the chain is not reversible
# Number of expected steps up to which differences keep ten digits.
MOST_BY_DIFFERENCES = 1e5
# A time is at least 1; one that is shorter by more shows that digits were lost.
TIME_ROUNDING = 1e-6
MOST_ITERATED = 1e9  # number of expected steps up to which iteration keeps its digits
PANEL_STATES = 32  # number of states that are eliminated before the other rows are updated

# Functional inequalities.
# Largest constant from an eigenvalue; the digits of a larger constant are rounding errors.
LARGEST_C_AT = 1e10
SOBOLEV_STARTS = 4  # number of starts that are followed to their minimum
SOBOLEV_STEPS = 200  # limit on the steps of each start
NEAREST_LAW = 1e-6  # KL(r, p) below which the ratio has no digits; its limit at p is known
MOST_CLIMBED = 1 << 12  # configurations over which the entropy ratio is maximised
# Limit on configurations times blocks times starts in one step of this maximisation.
CLIMBED_AT_ONCE = 1 << 21
CLIMBS = 10  # number of steps after which the better half of the starts continues
CLIMBING_STARTS = 6  # number of starts whose maximisation continues to the end
FURTHER_CLIMBS = 300  # limit on the steps of these starts
SERIES_RANGE = 1e-2  # value of d below which t log t - t + 1 is summed as a series
LEAST_LOG = -60.0  # log r / q below which r counts as 0

# A box of parameters.
# Limit on the blocks that are enumerated. Above it, one block that contains all of them represents
# them.
MOST_BOX_BLOCKS = 1 << 12
MOST_BOX_PAIRS = 1 << 28  # limit on the pairs of blocks and factors, with the same consequence
MOST_BOX_ENTRIES = 2.0**34  # limit on the entries of tables times parameters

# Information matrices.
# Eigenvalue of the scores' correlations below which a direction changes no probability.
NO_CHANGE = 1e-12
# Eigenvalue of H relative to I below which the loss does not depend on a direction, if the mask's
# chain is reducible.
UNSEEN_INFORMATION = 1e-12
MOST_GIVEN_ROWS = 256  # limit on the distinct rows of given data
# Smallest eigenvalue of H relative to I if the chain is irreducible. A smaller eigenvalue is a
# rounding error.
LEAST_INFORMATION = 1e-16
UNSEEN_PART = 1e-7  # component of an entry in an unseen direction below which it counts as 0

# Estimates from draws.
MOST_ESTIMATED = 2000  # parameters of an estimated covariance
# Masks drawn for each row, if a mask has too many blocks to average over.
MASKS_PER_ROW = 4
GROUPS = 20  # chains of draws; their differences give the Monte Carlo error
DRAWS_PER_PARAMETER = 10  # smallest number of draws for each parameter
GAP_CHAINS = 16  # chains from which a gap or an agreement is estimated
MOST_STATISTICS = 4096  # functions of a configuration whose autocorrelation or mean is estimated
DISAGREEMENT = 0.01  # p-value below which two samplers are reported to disagree

# Comparisons of masks.
COMPARED_DRAWS = 4000  # draws of an estimated comparison
# Limit on configurations times blocks times functions, above which estimates are made by default.
# The limit takes about a minute.
MOST_UNASKED = 2.0**33
PRINTED_WIDTH = 110  # columns of the printed text
CLOSE_VARIANCES = 1.05  # ratio of variances below which masks are ranked by cost
TIMED_ROWS = 1000  # rows of a timed gradient
TIMED_CHAINS = 64  # chains of a timed step
TIMED_STEPS = 16  # steps between readings of the clock
TIMED_REPEATS = 7  # readings whose median is reported
LEAST_SECONDS = 0.02  # shortest duration of one repeat

# Suggestions of masks.
LIKELY_CONFIGURATIONS = 256  # number of configurations at which clusters are evaluated
MOST_BLOCK_VALUES = 1 << 12  # limit on the enumerated joint values of a block
MOST_SUGGESTED_WORK = 1 << 18  # limit on the joint values of all blocks, times parameters
RANKING_STEP = 0.1  # difference of the logarithms of variances below which masks are ranked by cost
MOST_WRITTEN = 200  # limit on the blocks of a mask that are written one by one
LEAST_FOREST = 4  # smallest number of cells of a forest that is worth a block
LARGEST_SUBSETS = 3  # largest size of the subsets that are suggested
THRESHOLDS = (0.95, 0.8, 0.6, 0.4)  # influences above which cells share a cluster
MOST_CLUSTER_VALUES = 1 << 10  # limit on the joint values of a cluster
MOST_PARTITIONS = 2  # partitions into clusters that are suggested
REST_VALUES = 256  # number of values of the rest at which influences are computed

# Cliques and modes.
# Limit on the cells of a clique whose joint values are all tried. For a larger clique the mode gap
# is bounded from below.
MOST_LISTED_CELLS = 12
MOST_THRESHOLDS = 32  # couplings at which cliques are searched for
MOST_CLIQUES = 2048  # cliques that are compared
# Fraction of the largest coefficient. A smaller coefficient is a rounding error.
NEGLIGIBLE = 1e-9
# Limit on the sets of three or more cells whose coefficients are summed.
MOST_HIGHER_ORDERS = 1 << 20

# Decoders and networks.
MOST_LAW_ENTRIES = 1 << 24  # limit on the entries of a table of probabilities
MOST_BRANCHES = 1 << 20  # limit on the branches of one pass
INPUTS_AT_ONCE = 1 << 12  # inputs of a network or an oracle in one call
# Number of cells for which (values + 1)^cells is at least `INPUTS_AT_ONCE`, whatever the number of
# values.
MOST_PADDED_CELLS = 12
NO_DIVERGENCE = 1e-9  # divergence in nats below which it counts as rounding
MOST_PASSES = 1 << 20  # passes of a network for one answer
# Limit on the partly revealed configurations, (values + 1)^cells. Above it, configurations are
# drawn.
MOST_REVEALED = 1 << 17
MOST_NUMBERS = 1 << 25  # limit on the numbers in the conditionals of these configurations
PROFILE_DRAWS = 1024  # drawn configurations, if `draws=` is not given
REVEALED_AT_ONCE = 256  # drawn configurations in one call
MOST_NODES = 1 << 16  # prefixes that are listed
PREFIXES_AT_ONCE = 1 << 8  # prefixes of one length in one call, if not all are listed
MOST_WALK_OPERATIONS = 1e10  # limit on the operations with the walk's matrix
LISTED_COUPONS = 12  # limit on the symbols whose subsets are enumerated
