"""Fits a model, and records fits.

In: data, a mask, options. Out: an estimate with errors and status; the record of a fit, and its
file. Never: checks of a fit.
"""

from __future__ import annotations

from ._few_rows import NO_SPREAD, SHRINKS, TOO_FEW, Inferred, scored_rows, verify_scored, verify_spread, with_shrinkage
from ._fit import Estimate, Starts, best_of_starts, fit_model, reopen, reopened, verified_rows
from ._group_penalty import (
    Copied,
    Groups,
    Penalised,
    Shear,
    diagonal_metric,
    largest_penalty,
    minimise_penalised,
    shear_at,
    standard_weights,
)
from ._inference import Covariances, Curvature, curvature, determined
from ._kinks import Selected, at_kinks, held_graph, without_interval
from ._long_fit import LongFit, evidence_identity, long_fit, restored
from ._optimise import Scaled, lbfgs, scaling
from ._options import WHOLE, Evidence, FitOptions, MonteCarloEM, PersistentContrastiveDivergence, method_of, row_weights, whole_mask
from ._passes import fit_in_pieces
from ._prepare import make_objective, objective_colouring, stays_finite, verify_possible
from ._record import FitRecord, estimate_to_fit, fit_from_file
from ._refits import Refit, Reweighted
from ._saved_fits import INPUT, SavedFit, fit_bytes, read_fit, verify_numbers, warn_of_size
from ._status import AT_BOUND, Finding, in_words
from ._training_options import (
    Training,
    accumulated,
    default_optimizer,
    learning_rate_at,
    measured_every,
    save_points,
    saved_every,
    training_of,
    verified_training,
    verify_optimizer,
    verify_schedule,
)
from .limits import EQUAL_GRADIENTS, EXCLUDED, FEWEST_ROWS, MOST_INFERRED, SINGULAR, WORTH_MERGING
