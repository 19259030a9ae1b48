"""Re-exports of `_annealed_importance`."""

from ._annealed_importance import LogPartitionEstimate as LogPartitionEstimate
from ._annealed_importance import Options as Options
from ._annealed_importance import estimate as estimate
