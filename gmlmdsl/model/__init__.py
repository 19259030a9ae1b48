"""Models with their methods, and fitted models.

In: a bound program. Out: models and fits. Never: mathematics; each method is a call into another
package.
"""

from __future__ import annotations

from ._conditional_model import ConditionalModel
from ._fit import Fit
from ._joint_model import JointModel
from ._model import Model, Params
