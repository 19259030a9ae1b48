"""In: `Program`, and its inputs where there are any. Out: what it says and what will be done, as text, LaTeX or plain data. Never: JAX."""

from ._codes import explain_code
from ._document import WIDTH
from ._explain import Done, Explanation, explain
from ._info import describe, needed_inputs
from ._print_stage import STAGES, print_stage
