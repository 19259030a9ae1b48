"""Explain the meaning of a program and the computations that it leads to.

In: `Program`, with its inputs if available. Out: formulas, plans and descriptions, as text, LaTeX
or plain data. Never: JAX.
"""

from ._document import WIDTH
from ._explain import Done, Explanation, explain
from ._factor_picture import model_html
from ._info import describe, needed_inputs
from ._keywords import (
    explain_code,
    explain_word,
    is_word_or_code,
    keyword_table,
    meanings_of,
    parts_of_graphs,
    sections_of_rooms,
    words_of_the_language,
)
from ._print_stage import STAGES, print_stage
