"""In: `SyntaxTree`. Out: `Program`. Never: numbers bound from Python, NumPy, JAX."""

from . import _forms as forms
from . import ir
from ._allow import apply_allowances as allowed
from ._arguments import NOISES
from ._check import ParsedText as ParsedText
from ._check import added_let, check_file, check_source, checked_texts, checker_of, clean_fixes
from ._check import of_added as of_added
from ._check_guided import is_guided
from ._check_networks import option_faults
from ._check_samplers import MOST_REPEATS, TOO_OFTEN
from ._lints import used_bodies
from ._network_forms import AUTOREGRESSIVE, PRETRAINED, PUBLISHED
from ._operators import OPERATORS, UNTAKEN, NoValueError, Operator, computed, written
from ._options import autoregressive_options, guided_options, input_options, is_function, network_options, refinement_options
from ._program import Program
from ._refinement import is_decoder, reasons_against, reasons_unlike_p
from ._sound_part import names_in, python_code, with_model, without_inputs, without_names
from ._terms import CODES, Scale
