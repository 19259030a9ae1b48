"""Re-exports of `_results`."""

from ._results import Fit as Fit
from ._results import estimate_to_fit as estimate_to_fit
from ._results import fit_from_file as fit_from_file
from ._saved_fits import SavedFit as SavedFit
from ._saved_fits import read_fit as read_fit
