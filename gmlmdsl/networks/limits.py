"""The sizes, limits and tolerances of networks."""

from __future__ import annotations

# Layers.
EPSILON = 1e-6  # added to the mean square by which a layer normalises
# Buckets of relative positions, and the distance from which on all share the last bucket, as in T5.
N_BUCKETS, MOST_DISTANCE = 32, 128
# Smallest and largest fertility of a given entry: the number of cells that it adds to a row.
LEAST_FERTILITY, MOST_FERTILITY = -3, 2

# Pretrained networks.
MOST_SIZE = 1 << 24  # largest dimension of an array
MOST_LAYERS = 1000  # layers of a network

# Reduced precision.
# Entries of an int8 matrix below which it stays in float32: XLA multiplies it as one of int32 on a
# CPU, which takes longer.
LEAST_REDUCED = 1 << 15
LEAST_SCALE = 1e-30  # smallest scale, which avoids a division by 0 for a row of zeros
# Trials of `fastest`: the maximum number of columns of the matrix, the number of rows that it
# multiplies, and the number of repetitions. If decoding is cell by cell, it multiplies one row.
TRIED_COLUMNS, TRIED_ROWS, TRIED_RUNS = 8192, 32, 9
# Share of the time of float32 that a reduced precision may take to be chosen.
MOST_SHARE = 0.9
