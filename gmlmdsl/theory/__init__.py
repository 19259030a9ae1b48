"""Compute exact and estimated properties of masks and samplers of a model.

In: a model, parameters, masks or samplers. Out: properties of these, each number with its kind.
Never: data, a conditional of its own.

Exact answers enumerate every configuration of a small model, in float64.
"""

from ._bounds import GeneralizationBound as GeneralizationBound
from ._bounds import generalization_bound as generalization_bound
from ._by_chains import Agreement as Agreement
from ._by_chains import sampler_agreement as sampler_agreement
from ._chains import Bias as Bias
from ._chains import stationary_bias as stationary_bias
from ._chains import stationary_law as stationary_law
from ._compare_masks import MaskComparison as MaskComparison
from ._compare_masks import MaskReport as MaskReport
from ._compare_masks import compare_masks as compare_masks
from ._entropy import entropy_tensorization as entropy_tensorization
from ._entropy import log_sobolev_constant as log_sobolev_constant
from ._estimation import Information as Information
from ._estimation import asymptotic_covariance as asymptotic_covariance
from ._estimation import fisher_information as fisher_information
from ._estimation import pseudolikelihood_information as pseudolikelihood_information
from ._gaps import DecodingCurve as DecodingCurve
from ._gaps import DecodingGap as DecodingGap
from ._gaps import consistency_gap as consistency_gap
from ._gaps import decoding_curve as decoding_curve
from ._gaps import decoding_gap as decoding_gap
from ._gaps import product_gap as product_gap
from ._gaps import step_gap as step_gap
from ._hitting import hitting_tail as hitting_tail
from ._hitting import hitting_time as hitting_time
from ._information_profile import InformationProfile as InformationProfile
from ._information_profile import ScheduleSuggestion as ScheduleSuggestion
from ._information_profile import information_profile as information_profile
from ._information_profile import suggest_schedule as suggest_schedule
from ._mixing import dirichlet_form as dirichlet_form
from ._mixing import divergence as divergence
from ._mixing import mixing_time as mixing_time
from ._mixing import poincare_constant as poincare_constant
from ._mixing import relaxation_time as relaxation_time
from ._mixing import spectral_gap as spectral_gap
from ._mixing import total_variation as total_variation
from ._modes import ModeSeparation as ModeSeparation
from ._modes import mode_separation as mode_separation
from ._monte_carlo import EstimatedCovariance as EstimatedCovariance
from ._monte_carlo import estimated_covariance as estimated_covariance
from ._output_law import DecodedLaw as DecodedLaw
from ._output_law import OutputLaw as OutputLaw
from ._output_law import output_law as output_law
from ._quantity import Quantity as Quantity
from ._suggest import MaskSuggestions as MaskSuggestions
from ._suggest import suggest_masks as suggest_masks
