"""The limits and the times of the command line."""

from __future__ import annotations

# Options and output.
# Equal to the limit in `data/_keys.py`, which is not imported because it would load JAX.
MOST_SEED = (1 << 64) - 1
# Numbers of columns: of a table in a pipe, of text on any screen, and of a table cell that is not
# broken into lines.
PIPED_WIDTH, TEXT_WIDTH, UNBROKEN = 120, 100, 12
# Rounds of fixes of a file. Fixing a statement may reveal further faults inside it.
MOST_ROUNDS = 20
MOST_NAMED = 4  # names of a list that are printed; the others are counted
MOST_COUNTED_COLUMNS = 20  # columns whose missing cells are counted on the screen
STARTER_ROWS = 200  # rows of the data of a new project

# Interrupts.
AGAIN_SECONDS = 1.0  # seconds until a swallowed interrupt is raised again
MOST_AGAIN = 5  # maximum number of repeats of an interrupt
SOON_SECONDS = 0.05  # seconds until the next check whether an import has ended

# Memory and processes.
HEAP_AHEAD = 1 << 26  # bytes by which the heap grows beyond each request
GRACE = 3.0  # seconds in which the other processes may end by themselves after one has failed
HEARTBEAT = 30  # seconds after which JAX considers a silent process ended
POLL = 0.05  # seconds between two checks of the processes
LEAST_THREADS = 4  # threads of XLA; with fewer, collective operations may wait for each other

# Translation.
MOST_CONNECTIONS = 512  # connections at once; the HTTP server answers others by 503
# Upper ends of the intervals of response times, in seconds.
RESPONSE_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
COVERED_PAIRS = 2000  # pairs of which the share on shortlists is computed
# Rows of up to 32 subword tokens are padded to a multiple of this number. Longer rows are padded
# more.
WIDTH_STEP = 8
