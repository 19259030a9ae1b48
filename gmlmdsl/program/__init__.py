"""In: `SyntaxTree`. Out: `Program`. Never: numbers bound from Python, NumPy, JAX."""

from . import _forms as forms
from . import ir as ir
from ._allow import apply_allowances as allowed
from ._check import check_file as check_file
from ._check import check_source as check_source
from ._mask_lints import used_bodies as used_bodies
from ._options import Multiple as Multiple
from ._options import form_options as form_options
from ._program import Program as Program

__all__ = ["Multiple", "Program", "allowed", "check_file", "check_source", "form_options", "forms", "ir", "used_bodies"]
