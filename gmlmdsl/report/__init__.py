"""Pictures and reports.

In: results as names, numbers and matplotlib figures. Out: one self-contained HTML file. Never: JAX,
the network, JavaScript.
"""

from ._assessment_pictures import plot_case_dropping as plot_case_dropping
from ._assessment_pictures import plot_centrality as plot_centrality
from ._assessment_pictures import plot_effects as plot_effects
from ._assessment_pictures import plot_predictive as plot_predictive
from ._assessment_pictures import plot_profile as plot_profile
from ._assessment_pictures import plot_stability as plot_stability
from ._diagnostic_pictures import plot_categories as plot_categories
from ._diagnostic_pictures import plot_ess_r_hat as plot_ess_r_hat
from ._diagnostic_pictures import plot_loss as plot_loss
from ._diagnostic_pictures import plot_traces as plot_traces
from ._document import Report as Report
from ._fit_report import fit_report as fit_report
from ._network_pictures import plot_contacts as plot_contacts
from ._network_pictures import plot_network as plot_network
from ._network_pictures import plot_precision as plot_precision
from ._network_pictures import precision_by_rank as precision_by_rank
from ._palette import LIGHT as LIGHT
from ._pictures import plot_couplings as plot_couplings
from ._pictures import plot_forest as plot_forest
from ._pictures import plot_images as plot_images
from ._sample_report import diagnose_draws as diagnose_draws
from ._sample_report import drawn_strings as drawn_strings
from ._sample_report import guided_report as guided_report
from ._sample_report import sample_report as sample_report
from ._translation_report import translation_report as translation_report
