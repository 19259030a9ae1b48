"""The limits and the tolerances of guided sampling."""

from __future__ import annotations

# Iterations.
MOST_TURNS = 1 << 22  # iterations of a row, each of which reads its next symbol once
MOST_HOST_TURNS = 1 << 16  # iterations of a row with Python functions of the user
# Iterations of rejection without `tries`, as long as it accepts no string of any row: with Python
# functions of the user.
MOST_FRUITLESS_TURNS = 1 << 11
# The corresponding limit of the compiled loop, in symbols of all rows together.
MOST_FRUITLESS = 1 << 26
FEW_ROWS = 64  # An iteration of fewer rows takes equally long.
# Iterations of one call of the compiled loop, after which an interrupt takes effect.
TURNS_PER_CALL = 1 << 12
LONGEST_STROLL = 1 << 10  # steps of a stroll, after which an interrupt takes effect
MOST_QUOTA = 1 << 30  # quota and stride: more than the symbols of a string and the iterations

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
