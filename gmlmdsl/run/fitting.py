"""Re-exports of `_fit`."""

from ._fit import Estimate as Estimate
from ._fit import fit as fit
from ._fit_options import FitOptions as FitOptions
from ._methods import WHOLE as WHOLE
from ._methods import MonteCarloEM as MonteCarloEM
from ._methods import PersistentContrastiveDivergence as PersistentContrastiveDivergence
from ._methods import method_of as method_of
from ._methods import whole_mask as whole_mask
from ._minimise import MOST_INFERRED as MOST_INFERRED
