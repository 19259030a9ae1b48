"""The limits of files that are written and read again, and how long a run waits."""

from __future__ import annotations

# Archives.
# Bytes of a plain ZIP archive, so that it needs no extension of the format.
MOST_ARCHIVE_BYTES = (1 << 31) - 1
MOST_PARTS = 1 << 14  # parts of an archive
LONGEST_SHOWN = 100  # letters of a name that a message shows

# Texts.
MOST_LINE = 1 << 24  # bytes of a line
MOST_JSON_BYTES = 1 << 26  # bytes of a file of JSON, or of a vocabulary, beside pretrained weights

# The cache of compiled programs.
MOST_CACHE_BYTES = 2**30  # bytes of all entries; above it, the least recently used are removed
# A process checks the size of the folder again after it has written this number of bytes.
BETWEEN_LOOKS = 2**25

# Whole files.
MOST_BESIDE = 1000  # files of a folder among which a similar name is searched for
LONGEST_PREFIX = 40  # letters of the final name in the name of an unfinished file
# Seconds during which the writer of an unfinished file may still work, on this machine and on
# another one. The first number is far above the time between the creation of a file and its lock,
# the second far above the time of any write.
A_MOMENT, LONG_AGO = 60.0, 7 * 86400.0

# Runs that can be resumed.
SAVED_EVERY = 30.0  # seconds between two states
KEPT_STATES = 2  # number of latest states that stay on disk
MOST_LOCK_BYTES = 1000  # bytes of a lock file that are read
# number of tries; a try fails if an ending run removes the file that this run has opened
LOCK_TRIES = 10
