"""Translators.

In: two texts that belong line to line, a program with a conditional model. Out: a trained translator in one file, translations, scores,
times. Never: a size, a mask or a sampler of its own: those are what the program says.
"""

from ._corpus import Counts as Counts
from ._corpus import clean as clean
from ._corpus import read_lines as read_lines
from ._corpus import read_pairs as read_pairs
from ._metrics import Score as Score
from ._metrics import Scores as Scores
from ._metrics import score as score
from ._vocabulary import Vocabulary as Vocabulary
