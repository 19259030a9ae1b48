"""The limits and the tuning of fits."""

from __future__ import annotations

# Minimisation.
LBFGS_PAIRS = 20  # number of stored pairs of a step and a change of the gradient
MOST_PAIR_FLOATS = 1 << 25  # maximum number of floats in these pairs
MOST_STEPS = 3000  # steps of a fit without `steps=`
GRADIENT_TOLERANCE = 1e-8  # bound on the largest gradient entry, per row
# Tolerance at which L-BFGS pauses for a test of the existence of a minimum.
ROUGH_TOLERANCE = 1e-5
FLOAT32_TOLERANCE = 3e-6  # smallest tolerance of a pass in float32
# Share of the largest eigenvalue, each entry in its own unit. A flatter direction is scaled as if
# it had this share.
FLAT_SCALE = 1e-6
# Share of the largest diagonal entry of a Hessian. A smaller entry defines no unit.
LEAST_DIAGONAL = 1e-14
# Smallest derivative of a bounded or simplex parameter with respect to its unconstrained
# coordinate. A smaller derivative is replaced by it, so that the parameter can reach a bound.
LEAST_SLOPE = 1e-6
# Number of steps that lower neither value nor gradient, after which the precision is exhausted.
STALLED_STEPS = 5
CALL_SECONDS = 2.0  # duration of a compiled call of a fit whose state is saved
MOST_HALVINGS = 30  # number of halvings of a step after which the search along it stops
# smallest decrease of an accepted step, as a share of the decrease that the slope predicts
LEAST_DECREASE = 1e-4
ROUNDINGS = 8  # an increase by fewer roundings of the value does not count
# Number of parameters whose curvature costs little compared with a fit, unless there are many rows.
MOST_SCALED = 256
# Number of table entries of a computation that costs little compared with a fit.
CHEAP_CURVATURE_ENTRIES = 2.0**24
METRIC_RENEWALS = (20, 60)  # steps after which the metric is computed again
NEAR_BOUND = 1e-6  # distance from a bound below which a parameter counts as at the bound
LEAST_PULL = 1e-6  # smallest slope away from a bound, per row
# Runs of L-BFGS, between which parameters are held at a non-smooth point or freed.
MOST_KINK_ROUNDS = 50
# Steps of L-BFGS in one of these runs: near a non-smooth point, more are wasted.
STEPS_PER_KINK_ROUND = 100
# Share by which a gradient exceeds the slope of a prior before its entry leaves the point.
KINK_SLACK = 1e-6

# Starts of fits.
CONSTANT_FACTOR = 0.25  # difference of the values of a factor below which it counts as constant
START_STEPS = 200  # steps of the fit of independent cells
START_TOLERANCE = 1e-5  # bound on its largest gradient entry, per row
START_SPREAD = 1.0  # standard deviation of a random start, in unconstrained coordinates
AGREEING_OBJECTIVES = 0.01  # nats: objectives that differ by less count as equal
# Parameters whose entries differ by more, relative to max(1, |entry|), count as different
# estimates.
SAME_PARAMETERS = 0.1

# Rows and copies of rows.
# Number of factor evaluations or table entries of all rows above which equal rows are merged.
WORTH_MERGING = 1 << 19
# Bytes of each cell of an imputed row. The row is stored filled, on the device, and redrawn for the
# standard errors.
BYTES_PER_IMPUTED_CELL = 4 * 8
DISTINCT_SHARE = 0.5  # share of distinct rows below which equal rows of refits are stored as one
# Maximum number of parameters in whose number a step of refits may be quadratic.
MOST_REFIT_SCALED = 1024

# Penalised fits.
# Bound on the largest entry of the proximal gradient in the metric, per row.
PENALISED_TOLERANCE = 1e-7
MOST_PENALISED_STEPS = 5000  # steps of one penalty
EXCLUDED = 1e12  # a penalty that holds a group at 0
MOST_PROBES = 256  # number of directions of each parameter along which curvatures are computed
# Smallest curvature, as a share of the mean curvature of a parameter's entries.
LEAST_SHARE = 1e-3

# Curvature and standard errors.
MOST_INFERRED = 2000  # maximum number of parameters for which standard errors are computed
MOST_CURVATURE_ENTRIES = 2.0**36  # maximum number of table entries of that computation
# Share of the largest eigenvalue. A negative eigenvalue of larger absolute value is not a rounding
# error.
FALLING = 1e-6
# Below this largest eigenvalue all directions are flat, and squares of inverses leave the range
# of floats.
LEAST_EIGENVALUE = 1e-100
SINGULAR = 1e-9  # share of the largest eigenvalue below which a direction is undetermined
SMALL_MATRIX = 64  # number of rows of a matrix up to which the cost of eigenvalues is negligible
POWER_STEPS = 30  # products of the power iteration for a largest eigenvalue
POWER_MARGIN = 1.1  # factor on that eigenvalue, which is estimated from below
# Factor by which the estimate of |inverse|_1 may be too small: three is rare.
INVERSE_MARGIN = 10.0

# Whether there is a minimum.
MOST_STATISTICS = 2e9  # number of statistics above which they are not compared
# number of rows with which a linear programme begins, and number of rows that each round adds
ROWS_PER_PROGRAMME = 4000
MOST_PROGRAMMES = 30  # linear programmes of one search
MOST_SPARSE_ENTRIES = 500  # number of entries above which no sparse direction is sought
# Share of the largest entry below which an entry has no part in a direction.
DIRECTION_PART = 1e-6
# The directions that the data alone leave open are computed for at most this many parameters with
# priors.
MOST_WITH_PRIORS = 1000
# Smallest size of the statistics of a parameter, which avoids a division by 0.
LEAST_UNIT = 1e-150
LEAST_GAIN = 1e-6  # smallest gain of a row of length one along a direction in the box

# The status of a fit.
# Share of the largest eigenvalue, at the estimate or at the start. If an eigenvalue is smaller, the
# data may separate.
SUSPECT_CURVATURE = 1e-3
# If a prior supplies a larger share of the curvature, an estimate from the data alone may not
# exist.
SUSPECT_PRIOR = 0.02
# Share of the curvature in some direction. If a prior supplies more, it determines the estimate.
DECIDING_PRIOR = 0.5
SHARE_ROUNDING = 1e-6  # a share that exceeds 1 by less is a rounding error
# The largest gradient entry per row at which steps of a stochastic minimiser may end.
STOCHASTIC_TOLERANCE = 1e-3
# Effective number of rows; fewer rows do not determine the differences between rows.
FEWEST_ROWS = 2 - 1e-9
# Share of the curvature that comes from the rows. If the gradients of the rows vary less, they are
# equal up to rounding.
EQUAL_GRADIENTS = 1e-10
CURVATURE_ROUNDING = 1e-14  # rounding error of this variation, as a share of the whole curvature
MOST_NAMED = 6  # parameters that a finding names
# Shift by the priors, in units of a standard error, above which a finding reports it. With this
# bias, a normal 94 % interval covers the true value in 91 % of data sets, and with a larger bias in
# fewer.
MOST_SHIFT = 0.5
# Share of the largest curvature. In a direction in which the data have less curvature, an estimate
# from the data alone does not exist.
LEAST_DATA_CURVATURE = 1e-9

# Persistent contrastive divergence.
STEPS_PER_CALL = 16  # steps of one compiled call
FIRST_EXAMINATION = 64  # steps after which a fit without `steps=` is examined
MOST_CONTRASTIVE_STEPS = 2048  # steps after which a fit without `steps=` ends
EXAMINATION_RATIO = 2**0.5  # ratio of the numbers of steps of two examinations
FEWEST_READINGS = 16  # smallest number of times that an examination reads the chains
# Number of configurations of chains that an examination reads for each effective row, if there are
# many steps.
READ_PER_EFFECTIVE_ROW = 64
# An examination has one sweep for this number of steps, or more sweeps to read enough
# configurations.
STEPS_PER_SWEEP = 8
LONGER_EXAMINATION = 4  # ratio by which an examination is longer if its noise hides the gradient
CHOSEN_CHAINS = (256, 10_000)  # the smallest and the largest number of chains that a fit chooses
MOST_CHAIN_CELLS = 2**24  # maximum number of cells of all chains, if a fit chooses
FEWEST_CHAINS = 16  # the smallest number of chains for very many cells
PUBLISHED_CORRELATION = 0.95  # Pearson correlation of the published algorithms
# Runs of the sampler before the first step: if the fit chooses the start, and if the user passes
# one.
BURN_IN = (10, 100)
DAMPING = 0.1  # share of the noise of the curvature
CONJUGATE_ITERATIONS = 5  # iterations of conjugate gradients
FIRST_RATE = 0.3  # rate of the first step
STEADY_STEPS = 20.0  # number of steps after which the rate falls
RATE_POWER = 0.5  # power of the number of steps by which the rate falls
# Largest root mean square change of the unnormalised log p by a step, after subtraction of the mean
# change over chains.
FARTHEST_STEP = 1.0
# Maximum number of chains from which the ranges of the statistics are computed.
CALIBRATION_CHAINS = 128

# Whether its chains have settled.
MOST_CHAIN_GROUPS = 16  # maximum number of groups of chains, and of rows
RETURNED_READINGS = 8  # number of times at which the configurations of the chains are returned
SETTLING_PART = 4  # number of sweeps that count for each sweep before them that does not count
SETTLED_LEVEL = 1e-3  # significance level of each test
SMALL_GRADIENT = 0.2  # share of the sampling error below which a gradient or a drift does not count
FEW_GROUPS = 4  # number of groups up to which an error of 0 is not informative
HIDING_NOISE = 0.2  # share of the sampling error above which Monte Carlo noise hides the gradient
# Maximum number of values of all compared cells together. Above it, random cells are compared.
MOST_COMPARED_VALUES = 1500
HALF_SPLITS = 4  # number of random divisions of the rows into halves
JACKKNIFE_GROUPS = 8  # number of groups of chains; leaving out each gives the Monte Carlo error
ROWS_AT_ONCE = 1 << 13  # rows whose pairs of values are counted in one product

# Missing cells.
MOST_REDRAWN_VALUES = 8  # maximum number of joint values of a block that is redrawn at once
# The same maximum for a block that contains the latents. Such a block is enumerated for every copy
# of every row.
MOST_LATENT_VALUES = 2**10
FIRST_SWEEPS = 50  # sweeps of the first imputation, and of each for the standard errors
SWEEPS = 2  # sweeps of each imputation in a step of persistent contrastive divergence
FEWEST_ROUNDS = 30  # iterations before the first test of convergence
# The same for fits with latents. These fits start near a saddle, at which the values of a latent
# are exchangeable.
FEWEST_LATENT_ROUNDS = 100
ROUNDS_BETWEEN = 10  # iterations between two tests
# Steps of the minimiser in one iteration. More steps gain little, because the imputations change in
# the next iteration.
STEPS_PER_ROUND = 5
SETTLED_NOISE = 0.05  # largest Monte Carlo noise, in units of a standard error
# If the standard error of an estimate is unknown, this share of the estimate (or of 1, if larger)
# replaces it.
UNKNOWN_ERROR = 0.1
MOST_DRIFT = 3.0  # largest drift, in units of Monte Carlo errors
REDRAWN = 5  # number of imputations of every copy from which standard errors are computed

# Training of networks.
# Li et al. 2024, Appendix L: 500,000 steps. A fiftieth of them is the warm-up. The learning rate
# falls from 0.003 to 1e-5.
PUBLISHED_STEPS = 500_000
WARMUP_DIVISOR = 50  # number of steps for each step of the warm-up
PUBLISHED_PEAK = 0.003  # largest learning rate
LAST_RATE = 1e-5  # learning rate at the end
# The largest peak, for fits with fewer steps. AdaFactor's steps are relative to the size of the
# weights, so this is 3 %.
MOST_PEAK = 0.03
MOST_TRAINING_STEPS = 2**31 - 1  # steps are counted in 32 bits, also by schedules of optax

# Saved fits.
LONGEST_PART = 300  # maximum number of letters of the name of a part
MOST_META_BYTES = 1 << 26  # maximum number of bytes of text
# Maximum number of bytes of a program's inputs in format 1. Only the program determines their
# sizes.
MOST_INPUT_BYTES = 1 << 28
LONGEST_SHOWN = 100  # maximum number of letters of a wrong entry that a message shows
