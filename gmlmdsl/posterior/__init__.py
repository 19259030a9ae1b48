"""Posteriors of parameters by NumPyro.

In: the record of a fit, or data and a mask. Out: a NumPyro model of the parameters, its
calibration, draws from posteriors. Never: losses or curvatures.
"""

from __future__ import annotations

from ._chances import BetaBernoulli, StochasticBlock
from ._distribution import GmlmDistribution, distribution
from ._draws import Chains, Task, hierarchical_posterior, posterior, potential, task_of
from ._inclusion import co_clustering, inclusion
from ._kernel import GmlmKernel, numpyro_kernel
from ._law import Law
from ._likelihood import likelihood_of_rows
from ._numpyro_model import NumpyroModel, to_numpyro
from ._sampled import SampledOptions, has_spikes, sample_posterior
