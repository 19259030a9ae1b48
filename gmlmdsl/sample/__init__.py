"""In: kernels, data, keys. Out: draws for ArviZ, their diagnostics, an estimate of log Z. Never: mathematics of its own."""

from __future__ import annotations

from . import _annealed_importance as annealed_importance
from ._arviz import groups_of as groups_of
from ._arviz import need_netcdf as need_netcdf
from ._arviz import save as save
from ._arviz import summary as summary
from ._arviz import to_arviz as to_arviz
from ._cost import verify_chains as verify_chains
from ._cost import verify_draws as verify_draws
from ._discrete_diagnostics import Diagnosis as Diagnosis
from ._discrete_diagnostics import diagnose as diagnose
from ._draw import SampleOptions as SampleOptions
from ._draw import SamplingWarning as SamplingWarning
from ._draw import draw_chains as draw_chains
from ._draw import draw_exact as draw_exact
from ._draw import label as label
from ._draw import masks_in as masks_in
from ._draw import observables as observables
from ._draw import verified_options as verified_options
from ._indicators import effective_sample_size as effective_sample_size
from ._run_kernel import Draws as Draws
from ._run_kernel import forget as forget
from ._run_kernel import sample as sample
from ._starts import annealed as annealed
from ._starts import starts as starts
