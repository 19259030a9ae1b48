"""In: `SyntaxTree`. Out: `Program`. Never: numbers bound from Python, NumPy, JAX."""

from . import _forms as forms
from . import ir as ir
from ._allow import apply_allowances as allowed
from ._arithmetic import UNTAKEN as UNTAKEN
from ._arithmetic import NoValueError as NoValueError
from ._arithmetic import computed as computed
from ._arithmetic import written as written
from ._check import check_file as check_file
from ._check import check_source as check_source
from ._check_guided import is_guided as is_guided
from ._check_guided import judges_of as judges_of
from ._check_networks import option_faults as option_faults
from ._check_samplers import MOST_REPEATS as MOST_REPEATS
from ._check_samplers import TOO_OFTEN as TOO_OFTEN
from ._mask_lints import used_bodies as used_bodies
from ._network_forms import AUTOREGRESSIVE as AUTOREGRESSIVE
from ._network_forms import REFINEMENT as REFINEMENT
from ._options import autoregressive_options as autoregressive_options
from ._options import guided_options as guided_options
from ._options import input_options as input_options
from ._options import network_options as network_options
from ._options import refinement_options as refinement_options
from ._program import Program as Program
from ._sound_part import names_in as names_in
from ._sound_part import with_model as with_model
from ._sound_part import without_inputs as without_inputs
from ._sound_part import without_names as without_names
from ._texts import checked_texts as checked_texts

__all__ = [
    "AUTOREGRESSIVE",
    "MOST_REPEATS",
    "REFINEMENT",
    "TOO_OFTEN",
    "UNTAKEN",
    "NoValueError",
    "Program",
    "allowed",
    "autoregressive_options",
    "check_file",
    "check_source",
    "checked_texts",
    "computed",
    "forms",
    "guided_options",
    "input_options",
    "ir",
    "is_guided",
    "judges_of",
    "names_in",
    "network_options",
    "option_faults",
    "refinement_options",
    "used_bodies",
    "with_model",
    "without_inputs",
    "without_names",
    "written",
]
from ._operators import OPERATORS as OPERATORS
from ._operators import Operator as Operator
