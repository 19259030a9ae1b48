"""In: `SyntaxTree`. Out: `Program`. Never: numbers bound from Python, NumPy, JAX."""

from . import _forms as forms
from . import ir as ir
from ._check import check_file as check_file
from ._check import check_source as check_source
from ._program import Program as Program

__all__ = ["Program", "check_file", "check_source", "forms", "ir"]
