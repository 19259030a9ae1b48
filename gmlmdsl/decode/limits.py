"""The limits and the tuning of decoding."""

from __future__ import annotations

# Batches.
# Numbers of rows that are decoded at once. A program is compiled for each.
BATCH_SIZES = (1, 4, 16, 64)
# The fixed cost of a batch, in rows: about 4 for a search on a CPU, 1 for a refinement.
BATCH_COST = 4
MOST_ENTRIES = 1 << 28  # logits of one pass
DRAWS_PER_CALL = 64  # draws of a compiled call: the progress bar moves between calls

# Attention.
SUM_TOLERANCE = 0.02  # tolerance of a distribution's sum, in half precision
RESAMPLES_AT_ONCE = 256  # resamples whose means are computed together
