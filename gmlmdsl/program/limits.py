"""The limits of a checked program, and of what its messages show."""

from __future__ import annotations

# Depth.
# Levels of an expression once its `let`s are written out. Here and below, each level takes several
# nested calls of the checker or of the compiled program.
MOST_LEVELS = 300
MOST_INDICES = 80  # levels of indices in indices
MOST_CALLS = 32  # levels of functions that call one another
MOST_BODIES = 16  # levels of bodies of a sampler, each a loop or a choice in the compiled program
MOST_MIXTURES = 16  # levels of mixtures of masks

# Sizes.
MOST_FILES = 64  # files of a program
MOST_PARTS = 10_000  # parts of an expression once its `let`s are written out
MOST_MIXED = 1000  # masks of a mixture once those that it names are written out
MOST_REPEATS = 10**6  # repeats of a body within one draw, whose progress is not reported
MOST_BITS = 4096  # bits of a power that is computed exactly

# Values that the checker compares.
MOST_NUMBERS = 1 << 16  # values of a domain of whole numbers that are listed
MOST_VALUES = 1024  # values of an expression that a comparison lists
MOST_PAIRS = 1 << 16  # pairs of values that a comparison tries

# Fixes.
# Characters that are checked again, for all fixes together: a fix is suggested only if the changed
# text was checked.
MOST_TRIED = 100_000
OF_A_FAULT = 300  # cost in characters of a fault that is found again
MOST_COMPARED = 100_000  # comparisons of unknown names with known ones

# Messages.
LONGEST_SIGNATURE = 100  # characters of a signature that a message shows completely
LONGEST_EDIT = 60  # characters of an edit that a help shows completely
LONGEST_TABLE = 60  # characters of a table that a help repeats
LONGEST_TERM = 30  # characters of a term that a help repeats
MOST_LABELS = 6  # labels of a map that a message writes out

# Tolerances.
NOT_NORMALISED = 1e-6  # distance from 1 of the sum of written probabilities that is an error
FULL = 1 - 1e-6  # share from which on a noise counts as hiding, or keeping, all cells
