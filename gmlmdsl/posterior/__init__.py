"""In: the record of a fit, or data and a mask. Out: a NumPyro model of the parameters, its calibration, draws from posteriors.

Never: losses or curvatures of its own.
"""

from __future__ import annotations

from ._distribution import GmlmDistribution as GmlmDistribution
from ._distribution import distribution as distribution
from ._draws import Chains as Chains
from ._draws import Task as Task
from ._draws import posterior as posterior
from ._draws import potential as potential
from ._draws import task_of as task_of
from ._inclusion import inclusion as inclusion
from ._kernel import GmlmKernel as GmlmKernel
from ._kernel import numpyro_kernel as numpyro_kernel
from ._law import Law as Law
from ._likelihood import likelihood_of_rows as likelihood_of_rows
from ._numpyro_model import NumpyroModel as NumpyroModel
from ._numpyro_model import to_numpyro as to_numpyro
from ._sampled import SampledOptions as SampledOptions
from ._sampled import has_spikes as has_spikes
from ._sampled import sample_posterior as sample_posterior
