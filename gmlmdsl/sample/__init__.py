"""Draws from chains.

In: kernels, data, keys. Out: draws for ArviZ, their diagnostics, an estimate of log Z.
Never: mathematics of its own.
"""

from __future__ import annotations

from . import _annealed_importance as annealed_importance
from ._arviz import groups_of, need_netcdf, save, summary, to_arviz
from ._bridge import BridgeEstimate, BridgeOptions, bridge
from ._discrete_diagnostics import Diagnosis, diagnose, diagnose_pieces, effective_sample_size
from ._draw import (
    ChainRun,
    Observables,
    PreparedRun,
    SampleOptions,
    SamplingWarning,
    label,
    masks_in,
    observables,
    prepare_chains,
    prepare_exact,
    run_chains,
    verified_options,
    verify_chains,
    verify_draws,
)
from ._run_chains import KernelRun, Pace
from ._run_kernel import Draws
from ._sampled_marginals import sampled_marginals
from ._starts import annealed, random_rows, starts
from ._stored_draws import codes_in_pieces, stored, verified_store
