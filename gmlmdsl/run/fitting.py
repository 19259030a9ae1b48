"""Re-exports of `_fit`."""

from ._fit import MOST_INFERRED as MOST_INFERRED
from ._fit import Estimate as Estimate
from ._fit import Options as Options
from ._fit import fit as fit
