"""In: a bound program. Out: models with their verbs, fits. Never: mathematics of its own: each verb is a call into a room."""

from __future__ import annotations

from ._conditional_model import ConditionalModel
from ._fit import Fit
from ._joint_model import JointModel
from ._model import Model, Params
