"""Re-exports of `_results`."""

from ._results import Fit as Fit
from ._saved_fits import SavedFit as SavedFit
from ._saved_fits import read_fit as read_fit
