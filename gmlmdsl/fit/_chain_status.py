"""The outcome and the status of a fit by chains: what was reached, beside the noise of chains and rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import FactorGraph
from ._optimise import Outcome
from ._settled import Settled
from ._status import Finding, Status
from ._two_point import Agreement

Array = np.ndarray


def chain_status(
    host: FactorGraph,
    free: dict[str, Any],
    trace: Array,
    found: Settled,
    agreement: Agreement | None,
    agrees: bool,
    effective: float,
    name: str,
) -> tuple[Outcome, Status]:
    """Return the outcome and the status of a fit by chains.

    Args:
        host: the factor graph.
        free: the unconstrained estimate.
        trace: the differences of log p~ of chains and rows, step by step.
        found: the tests of the gradient at the estimate.
        agreement: the agreement of two-point correlations at the estimate; None without pairs.
        agrees: whether the fit stopped because that agreement is enough.
        effective: the effective number of rows.
        name: the name of the method.
    """
    size, steps = sum(p.size for p in host.parameters), len(trace)
    nothing = np.zeros(size, np.int8), np.zeros(size, bool), np.zeros((0, size))
    finite = np.isfinite(trace).all() and np.isfinite(found.largest) and all(np.isfinite(np.asarray(v)).all() for v in free.values())
    if not finite:
        finding = Finding("diverged", "The parameters are not numbers any more", "Lower the learning rate: `optimizer=optax.adam(0.001)`")
        return Outcome(free, trace, float("nan"), steps, "diverged"), Status("diverged", (finding,), *nothing)
    beside = "" if agreement is None else f"; {agreement.words}"
    if found.stands_still:
        message = f"The optimum is approximate, found by {name}: {found.words}{beside}. It has no standard errors"
        finding = Finding("stochastic", message, "More `chains` and `steps` bring it nearer; `fit.bootstrap()` gives errors")
        code, reason = "converged", "converged"
    elif agrees:
        count = sum(int(np.size(v)) for v in free.values())
        above = agreement is not None and agreement.pearson > agreement.ceiling
        beyond = "; what agrees beyond the halves may be noise already" if above else ""
        message = (
            f"The fit stopped after {steps} steps because its two-point correlations agree with those of the rows{beside}. "
            f"The likelihood still rises: {found.words}. There are {count:,} free parameters and {effective:,.0f} effective rows, "
            f"so the maximum would fit the noise of the rows{beyond}"
        )
        finding = Finding("agrees", message, "`steps=` of the method goes on towards the maximum; a narrow prior has one that is reached")
        code, reason = "agrees", "steps"
    else:
        message, remedy = found.reached(steps)
        code, reason = "not-converged", "steps"
        finding = Finding("hidden" if remedy.startswith("Raise `chains`") else "not-converged", f"{message}{beside}", remedy)
    return Outcome(free, trace, found.largest, steps, reason), Status(code, (finding,), *nothing)
