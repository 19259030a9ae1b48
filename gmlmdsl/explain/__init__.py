"""In: `Program`, and its inputs where there are any. Out: what it says and what will be done, as text, LaTeX or plain data. Never: JAX."""

from ._codes import explain_code as explain_code
from ._explain import Done as Done
from ._explain import explain as explain
from ._info import describe as describe
from ._info import needed_inputs as needed_inputs
from ._print_stage import STAGES as STAGES
from ._print_stage import print_stage as print_stage
