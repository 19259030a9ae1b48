"""The limits of what is read and written, checked before the work begins."""

from __future__ import annotations

MOST_CHARACTERS = 1 << 26  # characters of a file
MOST_NUMBERS = 1 << 23  # numbers in all tables of a file
MOST_STATES = 1 << 16  # states of a variable
MOST_VARIABLES = 1 << 20  # variables of a model
MOST_LITERAL = 200  # numbers of a table that is written into the program
MOST_DEPTH = 32  # elements of XML inside one another
# Range of |sum - 1| in which probabilities are divided by their sum.
LEAST_ERROR, MOST_ERROR = 1e-12, 1e-4
LONGEST_NAME = 80  # letters of a name that is generated, and of a name in a comment
LONGEST_JOINED = 24  # letters of the name of a domain that consists of its values
MOST_NAMED = 100  # variables of an array whose names a comment lists
MOST_NOTED = 6  # names that a note lists
MOST_COUPLINGS = 1 << 26  # fields and couplings of a Potts model: 550 sites of 21 letters
MOST_SITES = 1 << 16  # sites of a Potts model
LONGEST_START = 256  # bytes that are read to detect the format
MOST_FILE_BYTES = 1 << 31  # bytes of a binary file
MOST_POTTS_CHARACTERS = 1 << 28  # characters of a text of fields and couplings
