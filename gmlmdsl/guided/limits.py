"""The limits and the tolerances of guided sampling."""

from __future__ import annotations

# Iterations.
MOST_TURNS = 1 << 22  # iterations of a row, each of which reads its next symbol once
MOST_HOST_TURNS = 1 << 16  # iterations of a row with Python functions of the user
# With Python functions of the user: iterations of rejection without `tries`, if it accepts no
# string of any row.
MOST_FRUITLESS_TURNS = 1 << 11
# The corresponding limit of the compiled loop, in symbols of all rows together.
MOST_FRUITLESS = 1 << 26
FEW_ROWS = 64  # number of rows up to which the time of an iteration does not depend on their number
# Iterations of one call of the compiled loop, after which an interrupt takes effect.
TURNS_PER_CALL = 1 << 12
# Steps of the random walk of `value_guided` without an evaluation, after which an interrupt takes
# effect.
LONGEST_STROLL = 1 << 10
# Larger values of `quota` and `stride` are replaced by this one. It exceeds the number of symbols
# of a string and the number of iterations.
MOST_QUOTA = 1 << 30

# Rows.
MOST_ROWS = 1 << 14  # rows that are drawn together
# Bytes of the state of these rows. They fit into a processor's cache. With more bytes, each
# iteration of a network takes longer.
MOST_STATE_BYTES = 2.0**25
PREFIXES_AT_ONCE = 1024  # prefixes whose values are evaluated at once
MOST_NAMED_PROMPTS = 5  # prompts that a message names

# Numbers.
MOST_OFF = 1e-4  # tolerance of the sum of a row's probabilities
# Log values whose difference is below this tolerance are equal, since rounding errors are as large.
# The tolerance is relative for values above 1.
TIE = 1e-5
# Symbols that are counted at one position. Single precision represents all integers up to this
# number.
MOST_REFUSED = 1 << 24
