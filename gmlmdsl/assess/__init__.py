"""Checks of fits: bootstrap, profiles, scores, predictive checks, simulated errors, tests.

In: the record of a fit. Out: the result of a check. Never: models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._bootstrap import Bootstrap, bootstrap
from ._centrality import CaseDropping, bootstrap_differences, case_dropping, centrality
from ._compare import compare
from ._couplings import couplings, has_signs
from ._group_differences import Permutations, differences
from ._path import Path, fit_path
from ._path_runs import PathOptions, edges_of
from ._predictive import PredictiveCheck, Statistics, predictive
from ._profile import Profile, profile
from ._score import NO_MINIMUM, CrossValidation, InformationCriterion, Score, cross_validate, information_criterion, score, verify_minimum
from ._scored_rows import evidence_of, map_rows, params64, rows_under, verify_own
from ._selected import path_refit, refit_selected
from ._simulated_errors import How, simulated_errors
from ._wald import Contrast, contrast, wald_test

if TYPE_CHECKING:
    from ._pair_table import PairTable
