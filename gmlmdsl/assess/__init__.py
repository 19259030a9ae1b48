"""In: the record of a fit. Out: bootstrap, profiles, scores, predictive checks, simulated errors, tests. Never: a model of its own."""

from __future__ import annotations

from ._bootstrap import Bootstrap as Bootstrap
from ._bootstrap import bootstrap as bootstrap
from ._centrality import centrality as centrality
from ._compare import compare as compare
from ._couplings import couplings as couplings
from ._group_differences import Permutations as Permutations
from ._group_differences import differences as differences
from ._information import NO_MINIMUM as NO_MINIMUM
from ._information import InformationCriterion as InformationCriterion
from ._information import information_criterion as information_criterion
from ._information import verify_minimum as verify_minimum
from ._path import Path as Path
from ._path import fit_path as fit_path
from ._path_runs import PathOptions as PathOptions
from ._predictive import PredictiveCheck as PredictiveCheck
from ._predictive import Statistics as Statistics
from ._predictive import predictive as predictive
from ._profile import Profile as Profile
from ._profile import profile as profile
from ._score import CrossValidation as CrossValidation
from ._score import Score as Score
from ._score import cross_validate as cross_validate
from ._score import score as score
from ._scored_rows import evidence_of as evidence_of
from ._scored_rows import map_rows as map_rows
from ._scored_rows import params64 as params64
from ._scored_rows import rows_under as rows_under
from ._scored_rows import verify_own as verify_own
from ._selected import refit_selected as refit_selected
from ._selected import with_choice as with_choice
from ._simulated_errors import simulated_errors as simulated_errors
from ._simulation import How as How
from ._wald import Contrast as Contrast
from ._wald import contrast as contrast
from ._wald import wald_test as wald_test
