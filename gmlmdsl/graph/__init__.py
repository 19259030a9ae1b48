"""In: `Program` and inputs. Out: `FactorGraph`, blocks, colours. Never: JAX."""

from ._bind import bind as bind
from ._bound import Bound as Bound
from ._factor_graph import FactorGraph as FactorGraph
from ._factor_graph import FactorGroup as FactorGroup
from ._factor_graph import GivenArray as GivenArray
from ._factor_graph import ParameterArray as ParameterArray
from ._factor_graph import VariableArray as VariableArray
from ._given import GivenRows as GivenRows
from ._infinite import STAYS_FINITE as STAYS_FINITE
from ._infinite import undefined_at as undefined_at
from ._infinite import untried as untried
from ._model import Lowered as Lowered
from ._model import lower_let as lower_let
from ._model import lower_model as lower_model
from ._model import with_given as with_given
from ._network import Corruption as Corruption
from ._network import Noise as Noise
from ._network import autoregressive as autoregressive
from ._network import lower_corruption as lower_corruption
from ._network import refinement as refinement
from ._network_form import NetworkForm as NetworkForm
from ._weights import reaches_zero as reaches_zero
