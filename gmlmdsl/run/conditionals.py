"""Re-exports of `_conditionals`."""

from ._conditionals import log_conditional as log_conditional
from ._conditionals import loss as loss
