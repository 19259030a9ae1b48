"""How far priors pull estimates from where the data alone would have them: what an interval around a pulled estimate is not about.

An estimate minimises c loss - log prior, so a prior counts as a fixed penalty in its standard
error, and its interval is one for the minimiser of the expected penalised objective. The data's own
estimate lies, to first order, at the pull's Newton step (H - H_prior)^-1 grad(-log prior) from
there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._diagnostics import counted
from ..evaluate import Frame, entry_names
from ._definite import cholesky, solve
from ._inference import Curvature
from ._kinks import laplace_priors
from ._status import Finding, Status

Array = np.ndarray
SHRINKS = "shrunk"  # slug
# of a standard error: off by that much, a normal 94 % interval holds the true value in 91 % of data
# sets, and ever fewer
SHRUNK = 0.5
# of the largest curvature: where the data have less, they have no estimate of their own
FLAT = 1e-9


def pulled(curve: Curvature) -> Array:
    """By entry of the flat vector how far a Newton step on the data's part alone moves the estimate; without what `curve` leaves out."""
    if not curve.pull.any():
        return np.zeros(len(curve.basis))
    data, factor = curve.data, cholesky(curve.data)
    if factor is not None and curve.exceeds(FLAT * curve.largest):
        return curve.basis @ solve(factor, curve.pull)
    values, vectors = np.linalg.eigh(data)
    values = np.maximum(values, FLAT * max(values.max(initial=0.0), 1e-300))
    return curve.basis @ (vectors @ ((vectors.T @ curve.pull) / values))


def with_shrinkage(status: Status, rest: Curvature, errors: Array, frame: Frame) -> Status:
    """The status with the entries that priors pull by more than `SHRUNK` standard errors, and a finding that says so.

    Args:
        status: of the fit.
        rest: the curvature of what is determined.
        errors: standard errors by the sandwich, 0 where there is none.
        frame: the model, and which parameters are free.
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
