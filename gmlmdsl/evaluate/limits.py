"""The limits and the tuning of exact answers."""

from __future__ import annotations

# Plans and contractions.
MOST_KEPT = 8  # number of patterns of known cells whose contractions are cached
# Number of table entries up to which summing the contraction of all cells is quicker than compiling
# a contraction of fewer cells.
CHEAP = 1 << 20
# Estimated time that a model spends in NumPy before its sums are compiled. A compilation takes one
# to ten seconds, so a model that is asked a few times is not compiled, and one that is asked again
# and again loses a few seconds.
HOST_SECONDS = 3.0

# Elimination in NumPy.
# Time of one step (with its place in the plan), one factor and one table entry on one core. They
# decide between this engine and a compiled one. On the networks of `tests/benchmarks/bayesian.py`
# the sums are up to three times as high as the times that were measured.
STEP_SECONDS = 5e-5
FACTOR_SECONDS = 5e-6
ENTRY_SECONDS = 1.5e-8
# More entries than these are summed in NumPy for one row, however often: a compiled program takes
# about the same time for each entry, and seconds to compile.
MANY_ENTRIES = 1 << 24
# The largest number of table entries of all factors. Compiled programs evaluate more of them.
MOST_TABLED = 1 << 21
LAW_PASSES = 3  # The time of marginals beside that of their log sum.
MOST_HOST_ROWS = 64  # From more rows on, log p of rows is compiled.

# Answers.
MOST_CHECKED = 256  # The most sums by which known cells that contradict each other are sought.
# Most values of a joint distribution. The joint values of all cells but the last are rows of one
# call.
MOST_JOINT = 1 << 12
# Fraction of the largest factor. A sum below it has digits to spare for the factors among the
# clamped cells.
SPARE = 1 / 1024

# Approximate answers.
# The largest number of table entries of all factors: 256 MiB, of which a few copies are made.
MOST_APPROXIMATED = 1 << 25
# The most table entries of all factors that annealing reads. It evaluates large factors where tables
# would have more, which takes longer to build than to do without.
MOST_ANNEALED = 1 << 19
LARGE_FACTOR = 1 << 16  # A factor is large if its table has more entries.
PROBES = 32  # Configurations at which the changes of such factors are measured.
TABLES_AT_ONCE = 1 << 15  # The table entries of factors whose messages are computed together.
# Added to log p to break ties between equally probable values, in units of the largest factor.
TIE_BREAK = 1e-11
DESCENTS = 10_000  # The largest number of sweeps of a greedy descent.
COLDEST = 1e3  # The largest ratio of the last beta of annealing to the first.
