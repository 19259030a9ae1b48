"""Models with their methods, and fitted models.

Input: a bound program. Output: models and fits. This package contains no mathematics of its own:
each method is a call into another package.
"""

from __future__ import annotations

from ._conditional_model import ConditionalModel
from ._fit import Fit
from ._joint_model import JointModel
from ._model import Model, Params
