"""The shrinkage of estimates by priors: the shift from the estimate of the data alone.

An estimate minimises c loss - log prior, so a prior counts as a fixed penalty in its standard
error. The interval is therefore one for the minimiser of the expected penalised objective, and not
for the true value. To first order, the estimate of the data alone is one Newton step (H -
H_prior)^-1 grad(-log prior) away from the estimate.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._diagnostics import counted
from ..evaluate import Frame, entry_names, laplace_priors
from ._definite import cholesky, solve
from ._inference import Curvature
from ._status import Finding, Status

Array = np.ndarray
SHRINKS = "shrunk"  # slug
# In units of a standard error. With this bias, a normal 94 % interval covers the true value in 91 %
# of data sets, and with a larger bias in fewer.
SHRUNK = 0.5
# Share of the largest curvature. If the data have less in a direction, they alone have no estimate
# there.
FLAT = 1e-9


def pulled(curve: Curvature) -> Array:
    """Return the shift of each entry of the flat vector by a Newton step on the data's part alone.

    Entries outside the directions of `curve` do not move.
    """
    if not curve.pull.any():
        return np.zeros(len(curve.basis))
    data, factor = curve.data, cholesky(curve.data)
    if factor is not None and curve.exceeds(FLAT * curve.largest):
        return curve.basis @ solve(factor, curve.pull)
    values, vectors = np.linalg.eigh(data)
    values = np.maximum(values, FLAT * max(values.max(initial=0.0), 1e-300))
    return curve.basis @ (vectors @ ((vectors.T @ curve.pull) / values))


def with_shrinkage(status: Status, rest: Curvature, errors: Array, frame: Frame) -> Status:
    """Return the status with the entries that priors shift by more than `SHRUNK` standard errors.

    If there are such entries, a finding reports them.

    Args:
        status: the status of the fit.
        rest: the curvature in the determined directions.
        errors: the standard errors by the sandwich, 0 if there is none.
        frame: the model, and the free parameters.
    """
    shift = np.abs(pulled(rest))
    shrunk = (shift > SHRUNK * errors) & (errors > 0) & (status.separated == 0) & ~status.undetermined
    if not shrunk.any():
        return replace(status, shrunk=shrunk)
    names, penalised = entry_names(frame.host), laplace_priors(frame.host, frame.fixed)[1] > 0
    ratio = np.where(shrunk, shift / np.where(errors > 0, errors, 1.0), 0.0)
    worst = int(ratio.argmax())
    count = counted(int(shrunk.sum()), "estimate")
    message = (
        f"Priors shrink {count} by more than half a standard error, `{names[worst]}` by about {min(ratio[worst], 99):.2g}: "
        f"their intervals are about the shrunk value, not the true one"
    )
    refit = "`fit.refit_selected()` fits what the laplace prior left free without it"
    remedy = "More rows or a wider prior shrink less" + f"; {refit}" * bool(penalised[shrunk].any())
    remedy = refit if penalised[shrunk].all() else remedy
    return replace(status, findings=(*status.findings, Finding(SHRINKS, message, remedy)), shrunk=shrunk)
