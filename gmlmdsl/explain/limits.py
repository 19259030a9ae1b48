"""The sizes of what is explained, as text and as a picture."""

from __future__ import annotations

# Text.
WIDTH = 100  # columns of a page
STAGE_WIDTH = 110  # columns of a printed stage
SHOWN_ENTRIES = 6  # entries of an array that a stage prints
MOST_COUNTS = 16  # passes of a refinement whose numbers of open cells are written out

# Pictures.
# A larger graph is drawn by its variables and its groups of factors.
MOST_CELLS, MOST_FACTORS = 64, 400
MOST_MASKS = 4  # number of masks for which a block is shown
# Blocks of a mask up to which the middle block is shown; above it, the largest block is shown.
MOST_BLOCKS = 1000
STEP, RADIUS, SQUARE = 52.0, 13.0, 5.0  # points: the distance of neighbours, and the sizes of marks
