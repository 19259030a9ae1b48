"""The limits of data files, checked before a file is read."""

from __future__ import annotations

# Text.
MOST_TEXT = 1 << 28  # bytes of a file
MOST_DIGITS = 18  # digits of a whole number, which then fits in 64 bits

# Packed files.
# Size of the unpacked content in units of the size of the file. Zeros pack to a thousandth, tables
# to a tenth, and data seldom to a hundredth.
MOST_UNPACKED = 200
# Bytes of text that may be unpacked at any ratio. They contain a million of the shortest lines, and
# are read in about a second.
SURE_UNPACKED_TEXT = 1 << 21
SURE_UNPACKED_ARRAYS = 1 << 28  # bytes of arrays that may be unpacked at any ratio

# Arrays and columns.
MOST_BYTES = 1 << 32  # bytes of an array
MOST_ARRAYS = 4096  # arrays of an .npz file
LONGEST_HEADER = 1 << 13  # bytes of the header of an .npy file
MOST_HEADER = 100_000_000  # bytes of the header of a safetensors file, as in the specification
MOST_CELLS = 1 << 26  # fields of a Parquet file
MOST_COLUMNS = 1 << 16  # columns of a Parquet file
LONGEST_REASON = 200  # letters of a reader's error message that are shown

# Weights of sequences.
PAIRS_AT_ONCE = 1 << 24  # pairs of rows that are compared at once, each with a byte and a flag
