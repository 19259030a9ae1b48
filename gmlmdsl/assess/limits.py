"""The limits and the tuning of checks of fits."""

from __future__ import annotations

# Tests of couplings and of contrasts.
# Share of the length of a contrast. A smaller component in an undetermined direction is a rounding
# error.
OPEN_PART = 1e-6
FEW_ROWS_PER_ENTRY = 10  # number of rows per entry; if there are fewer, the text mentions it
# Share of the largest eigenvalue, after scaling to unit variances, below which a direction has no
# variance.
LEAST_VARIANCE = 1e-9
MOST_DIRECTIONS = 64  # maximum number of directions of a pair's table, for Wald tests
MOST_SCORES = 1 << 27  # maximum number of entries of a matrix of rows by directions

# Networks and their stability.
EQUAL_LENGTHS = 1e-9  # relative difference below which two lengths count as equal
DROP_TAILS = (0.025, 0.975)  # quantiles in the table of case dropping

# Profiles and cross-validation.
# Extent of the grid to each side, in half widths of the interval by standard errors.
GRID_REACH = 1.5
MOST_POINTS = 10_000  # maximum number of points of a profile, each by a minimisation
# Maximum number of points beyond the grid, until the profile has risen enough. Each is twice as far
# from the estimate as the one before.
FURTHER_POINTS = 6
MOST_FITS = 1000  # maximum number of folds, each with a fit

# Paths of penalties.
# Factor on the smallest penalty without couplings, so that rounding leaves no coupling.
PENALTY_MARGIN = 1 + 1e-5
EBIC_GAMMA = 0.5  # default of "ebic"
PENALTY_SPAN = 0.01  # the last penalty as a share of the first
PENALTIES_AT_ONCE = 5  # number of penalties that are fitted between two evaluations of the bound
SHARE_ROUNDING = 1e-9  # rounding error of a share of half samples
# Maximum number of steps of a refit. A refit that needs more may have no minimum; it counts as not
# converged, and its loss is that after these steps.
MOST_REFIT_STEPS = 1000
# Each entry has curvature 1 in its own units. Directions whose curvature is below this share of it
# do not count.
FLAT_CURVATURE = 1e-9
ELASSO_GAMMA = 0.25  # the default of IsingFit
# glmnet's grid: the last penalty as a share of the first, with more rows than predictors.
ELASSO_SPAN = 1e-4
# Number of arrays of the size of the parameters that a descent stores for each copy.
ARRAYS_PER_COPY = 8

# Predictive checks.
MOST_OPERATIONS = 2e12  # limit on the cells that are drawn, and on the evaluations of statistics
# Maximum number of configurations that are enumerated; rows are then independent draws from p.
MOST_STATES = 2**16
# Number of draws of a run, or of each chain, that determine `thin`.
PILOT = 256
# Number of draws for each row of the data; their Monte Carlo error is a third of the data's noise.
DRAWS_PER_ROW = 10
MOST_SEQUENCES = 1000  # maximum number of indicators whose effective sample size is computed
MOST_BINS = 12  # maximum number of distinct values of a function that are counted separately

# Simulated errors.
# Maximum number of simulated rows whose gradients are in memory at once, unless one kind of rows
# has more draws.
MOST_COLUMNS = 1 << 12
# Effective number of draws; with fewer, the error of a standard error is 7 % or more.
FEWEST_EFFECTIVE = 100
CHAINS = 8  # number of chains for each distribution
DRAWS_AT_ONCE = 256  # maximum number of independent draws at once
ENTRIES_AT_ONCE = 1 << 22  # maximum number of table entries of exact draws at once
MOST_EVALUATIONS = 1e12  # maximum number of evaluations of factors: an hour or more
