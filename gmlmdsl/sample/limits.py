"""The limits and the tuning of sampling."""

from __future__ import annotations

# Runs of a kernel.
STEPS_PER_CALL = 64  # draws per compiled call: the progress bar moves between calls
OBSERVED_PER_CALL = 4096  # draws per compiled call if only observed numbers are recorded
LANES = 16  # chains in a processor's vector: fewer are padded to a power of two, more to a multiple
# A call records at most this many codes. If a full call has no more, it records the full number of
# draws even if fewer are requested.
MOST_AT_ONCE = 1 << 22
# number to fold into the keys of annealing steps: no step of the chain has that number
ANNEALING_STEP = 2**32 - 1

# Starts of chains.
START_TRIES = 2000  # random rows of a chain among which a possible start is searched for
# operations of a sum for starts; a larger sum is computed only for explicit exact draws
MOST_SUMMED = 1e7
# number to fold into the keys of starts that are drawn: no step of a chain has that number
START_STEP = 2**32 - 2
FEW_POSSIBLE = 64  # number of possible rows to find if most random ones are impossible

# Walks to possible configurations.
# share of random moves at a dead end, from which every move violates more
WALK_NOISE = 0.3
MOST_MOVES = 200_000  # moves of one walk
FEWEST_MOVES = 1000  # smallest number of moves of one walk, however many evaluations a move takes
MOST_EVALUATIONS = 2e9  # evaluations of instances in one walk
# evaluations of instances for one move; if the scope needs more, only some of its cells are tried
WALK_AT_ONCE = 1 << 20

# Draws.
MOST_STEPS = 2**31 - 1  # steps are numbered in 32 bits
# Memory of kept draws, in units of their array. It contains the array, the draws of a call, and the
# diagnostics.
COPIES = 1.1
MIN_SWAP_RATE = 0.05  # minimum swap rate of neighbours in a ladder without a warning

# Draws in files.
CALL_SECONDS = 5.0  # duration of a compiled call; a run can be ended between two calls
WRITTEN_AT_ONCE = 1 << 26  # a call records at most this many codes for a file
READ_AT_ONCE = 1 << 27  # maximum number of bytes of draws that diagnostics read at once
DIAGNOSED_DRAW = 200  # bytes that the diagnostics of one cell take for each of its draws
MOST_REMARKS = 1 << 13  # bytes of a netCDF file that are set aside for the warnings

# Annealed importance sampling.
CANDIDATES = 1 << 16  # number of uniform configurations among which the possible ones are counted
LEAST_POSSIBLE = 16  # possible configurations that are needed among them, if there are more chains
BYTES_PER_BETA = 24  # a beta is stored as computed, as kept, and on the device
ANNEALED_AT_ONCE = 1 << 24  # maximum number of entries of one array
START_STREAM = 2**32 - 1  # stands for the chain in the seed of the starts: no chain has that number
# A number of chains, and a share of all chains. Below either of them, intervals of two standard
# errors have a coverage below 0.9.
LEAST_EFFECTIVE = (10.0, 0.1)

# Bridge sampling.
WEIGHT_COPIES = 4  # arrays of one number for each draw and beta that a step of the fit holds
BRIDGE_STEPS = 100  # maximum number of Newton steps
BRIDGE_TOLERANCE = 1e-10  # tolerance of log Z
LEAST_OVERLAP = 0.1  # smallest overlap of log p at neighbouring betas
DRIFT_ERRORS = 5.0  # standard errors above which a drift is significant
LEAST_DRIFT = 0.25  # share of the standard error of log Z; a smaller drift is negligible

# Diagnostics.
MAX_R_HAT = 1.01  # largest R-hat without a warning
MIN_ESS_PER_CHAIN = 100  # effective draws of a chain below which a warning is printed
MIN_DRAWS = 100  # number of draws below which one warning replaces those of R-hat and ESS
MIN_CHAINS = 4  # chains below which a warning is printed
MIN_FLIP_RATE = 1e-3  # share of redraws of a block that change it, below which a warning is printed
# The probability that a chain misses a category with ten expected visits is exp(-10) = 5e-5.
MIN_EXPECTED_VISITS = 10
FALSE_ALARM = 0.001  # level of the chi-square test, over all cells together (Bonferroni)
MOST_SHOWN = 5  # cells, values or blocks that a warning lists
# maximum number of indicator draws held at once, each with several numbers of eight bytes
DIAGNOSED_AT_ONCE = 1 << 18

# Labels.
MOST_FLAGS = 4096  # values of a variable whose codes are named by attributes of draws
