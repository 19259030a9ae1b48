"""The package that binds a checked program to its inputs and lowers it to a factor graph.

In: a `Program` and inputs. Out: a `FactorGraph`, blocks and colours. Never: JAX.
"""

from ._abstract_program import AbstractProgram, hash_of_texts, verify_is_model, versions
from ._bind import bind, bind_sound
from ._bound import Bound
from ._by_edge import by_name
from ._constants import constant, in_range, turned
from ._factor_graph import FactorGraph, FactorGroup
from ._given_rows import GivenRows, group_with
from ._graph_variables import GivenArray, NetworkForm, ParameterArray, VariableArray
from ._infinite import STAYS_FINITE, oversized_at, undefined_at, untried
from ._lower import Lowering
from ._lowered import Lowered, lower_added_let, lower_let, lower_model, lower_sound, with_given
from ._network import (
    Corruption,
    Noise,
    autoregressive,
    guided,
    lower_corruption,
    refinement,
    user_function,
    verify_brackets,
    verify_strings,
)
from ._passes import Passes, open_after, passes_of
from ._ranges import is_positive, range_of
from ._scopes import JointValues, SumLink, alike, distinct, grouped, joint_count, neighbours, rank_within
from ._sets_of_cells import sets_of_cells
from ._turns import Turns, unroll
from ._weights import alive, fixed_values, normalised, reaches_zero, tables_over, values_at, verify_weights
