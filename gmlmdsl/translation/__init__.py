"""Translators.

In: two texts that belong line to line, a program with a conditional model. Out: a trained translator in one file, translations, scores,
times. Never: a size, a mask or a sampler of its own: those are what the program says.
"""

from ._vocabulary import Vocabulary as Vocabulary
