"""Derived functions, each compiled as a whole: called op by op they would compile dozens of small programs."""

import equinox as eqx

from ._conditional import rest_possible as _rest_possible
from ._energy import all_values as _all_values
from ._energy import local_scores as _local_scores
from ._energy import log_potential as _log_potential
from ._loss import DrawnLoss, ExactLoss

all_values = eqx.filter_jit(_all_values)
local_scores = eqx.filter_jit(_local_scores)
log_potential = eqx.filter_jit(_log_potential)
rest_possible = eqx.filter_jit(_rest_possible)
exact_rows = eqx.filter_jit(ExactLoss.rows_and_mass)
drawn_rows = eqx.filter_jit(DrawnLoss.rows)
