"""In: a bound program. Out: models with their verbs, fits. Never: mathematics of its own: each verb is a call into a room."""

from __future__ import annotations

from ._conditional_model import ConditionalModel as ConditionalModel
from ._fit import Fit as Fit
from ._model import Model as Model
from ._queries import Params as Params
from ._queries import Queries as Queries
