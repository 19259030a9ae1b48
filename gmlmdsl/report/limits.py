"""The limits and the sizes of pictures and reports."""

from __future__ import annotations

# Arguments.
# largest number of things that an argument counts; it is above the limits of all pictures
MOST_COUNT = 10**9
MOST_PIXELS = 1e8  # number of pixels of a grid of images
MAX_SVG = 3_000_000  # bytes of a picture as SVG; a larger one becomes an image

# Sizes.
FIGURE_WIDTH = 5.2  # inches; at this width, the text of a figure has its normal size on a phone
CSS_PIXELS_PER_INCH = 108  # pixels of a page for each inch of a figure
# Width of a figure on a phone in CSS pixels. A wider figure scrolls there, and its text has the
# same size as in other figures.
PHONE = 358
IMAGE_GAP = 1  # pixels between two images of a grid
WIDEST_LINE = 5.0  # points; the width of the line of the strongest coupling
SPREAD = 250.0  # approximate extent, in points, of the nodes of a picture with names beside them
CIRCLE = 190.0  # approximate diameter, in points, of a circle of nodes with names around it
LETTER = 4.4  # points; approximate width of a letter of the name of a node
LINE = 10.0  # points; approximate height of a line of the name of a node
PALE = 0.22  # opacity of lines that do not differ significantly from 0

# Names in pictures.
MOST_LETTERS = 30  # number of letters of a name beside a picture
MOST_CELL_NAMES = 40  # number of cells that all have names; with more cells, only some have
MOST_CONTACT_NAMES = 40  # number of sites whose names a map of contacts shows
MOST_NODE_NAMES = 60  # number of nodes with names; up to it, nodes without a line are shown too
# Number of nodes on a circle with horizontal names. With more nodes, names follow the radii.
MOST_UPRIGHT = 24
# Number of letters of a line of a name. Names beside a circle then stay inside the picture.
LINE_LETTERS = 22
MOST_ROOM = 2.5  # maximum width of a picture with long names, in widths of the nodes
ROOM_STEPS = 12  # maximum number of times that a picture is widened for long names

# What pictures show.
MOST_STATISTICS = 12  # number of statistics of a predictive check
MOST_Z = 8.0  # larger z-values are drawn at the edge, with their number
NEAR = 8.0  # angstrom between C-beta atoms, as in assessments of contact prediction
# Number of stretches of a long trace, each drawn as its smallest and largest value.
TRACE_STRETCHES = 300
# Equal to the limit in the package `sample`, which is not imported because it would load JAX.
MAX_R_HAT = 1.01
MIN_ESS_PER_CHAIN = 100  # Equal to the limit in the package `sample`, for the same reason.

# What reports show.
DIGITS = 4  # significant digits of the median of a column
LONG_TEXT = 40  # number of letters of a table cell above which it may break into lines
MOST_ESTIMATES = 500  # number of rows of the table of estimates
MOST_IN_FOREST = 40  # number of estimates that are drawn with their intervals
MOST_MISSING_CELLS = 40  # number of cells in the table of missing cells
MOST_NODES = 40  # number of nodes of a network
MOST_MAPPED = 300  # number of cells of a map of couplings
MOST_PAIRS = 20  # number of rows of a table of couplings
MOST_STABLE = 30  # number of couplings in a picture of stability
MOST_STRINGS = 25  # number of most frequent strings of a guided sampler
MOST_CATEGORIES = 30  # number of categories whose frequencies are drawn
MOST_DIAGNOSED = 30  # number of rows of the table of diagnostics

# Work.
# Predictive checks are part of a report up to these limits: on the configurations of a model, and
# on rows times cells squared.
MOST_CHECKED_STATES, MOST_CHECKED_PAIRS = 2**14, 1 << 20
DRAWS_AT_ONCE = 1 << 22  # number of values of draws that are read at once
