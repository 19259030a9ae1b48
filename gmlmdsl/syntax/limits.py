"""The limits of a text, of the search for its faults, and of its layout."""

from __future__ import annotations

# Text.
MAX_BYTES = 1024 * 1024  # bytes of a file
MAX_DEPTH = 200  # levels of brackets
MAX_STRING = 64 * 1024  # bytes of a string
MAX_INTEGER = 2**31  # largest whole number
MOST_DIGITS = 18  # digits of a number that a fix computes with; a larger number is a fault itself

# Faults.
MAX_ERRORS = 50  # errors of a text
MAX_ERRORS_WHEN_LONG = 5  # errors of a text that is so long that each costs much time
STEPS_OF_AN_ERROR = 4  # steps of the recovery that count as an error
MOST_LOOKS = 100_000  # tokens times errors: each error costs a pass over all tokens
MOST_TOKENS = 20_000  # tokens of a text whose braces are repaired: every candidate costs a parse
LEAST_GAIN = 2  # tokens that a repaired brace must let the parser read further
MOST_STATEMENTS = 100  # statements of a loop of another language that a fix rewrites

# Layout.
WIDTH = 100  # columns of a line
INDENT = 2  # columns by which a body is indented
CONTINUATION = 4  # columns by which a continued line is indented
