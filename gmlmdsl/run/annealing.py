"""Re-exports of `_annealed_importance`."""

from ._annealed_importance import AnnealingOptions as AnnealingOptions
from ._annealed_importance import LogPartitionEstimate as LogPartitionEstimate
from ._annealed_importance import estimate as estimate
