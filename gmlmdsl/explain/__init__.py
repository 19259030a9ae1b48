"""In: `Program`, and its inputs where there are any. Out: what it says and what will be done, as text, LaTeX or plain data. Never: JAX."""

from ._codes import explain_code as explain_code
from ._explain import explain as explain
from ._info import describe as describe
from ._stages import STAGES as STAGES
from ._stages import print_stage as print_stage
