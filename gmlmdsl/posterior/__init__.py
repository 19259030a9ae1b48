"""Posteriors of parameters by NumPyro.

In: the record of a fit, or data and a mask. Out: a NumPyro model of the parameters, its
calibration, draws from posteriors. Never: losses or curvatures.
"""

from __future__ import annotations

from ._chances import BetaBernoulli, StochasticBlock
from ._distribution import GmlmDistribution, Law, distribution
from ._draws import Chains, Task, hierarchical_posterior, posterior, potential, task_of
from ._kernel import GmlmKernel, numpyro_kernel
from ._numpyro_model import NumpyroModel, to_numpyro, verify_choice
from ._sampled import SampledOptions, co_clustering, has_spikes, inclusion, sample_posterior
